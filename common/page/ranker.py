"""An export that ranks the page's texts, whose vectors are in memory as a store holds them."""

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from common.errors import InputError
from common.scoring import archive, hub
from common.scoring.best import top
from common.scoring.scorer import PairScorer
from common.vectors import manifest
from common.vectors.store import VectorStore

_PARTS = 20_000  # texts up to which the head's parts of them are kept: faster, three times as large


class Ranker:
  """Ranks texts for a query; callers on several threads take turns.

  Args:
    folder: The export.
    store: Folder of the texts' vectors; those that it lacks are encoded and added.
    runtime: Runtime of the head; one of `runtimes.HEADS`.
    encoder_runtime: Runtime of the encoders; one of `runtimes.ENCODERS`.
    texts: Texts by id.

  Raises:
    InputError: If the model does not give pairs one score, or the store is another encoder's or
      side's, or has another text under an id.

  Attributes:
    name: The run's name, the archive's, or the hub repository's.
    attends: Whether its head has attention to show.
  """

  def __init__(
    self, folder: str, store: str, runtime: str, encoder_runtime: str, texts: Mapping[str, str]
  ):
    self.name = _named(folder)
    self._scorer = PairScorer.load(folder, runtime, encoder_runtime=encoder_runtime)
    self._scorer.check_ranks(f'{folder}: the page', texts=True)
    side = self._scorer.slots[1]
    dtype = 'int8'
    if manifest.is_there(store):
      there = VectorStore(store)
      if there.fingerprint != self._scorer.fingerprints[side]:
        raise InputError(f'{store}: vectors of another encoder than {folder}; name a new folder')
      dtype = there.dtype
    # A text that is not the one encoded under its id is refused; what the store lacks is added.
    rows = iter(texts.items())
    opened = self._scorer.encode_to(store, rows, side, dtype=dtype, total=len(texts))
    self._keys = list(texts)
    self._vectors = opened.stored(opened.rows(self._keys))  # a quarter of float32, where int8
    few = len(texts) <= _PARTS
    self._parts = self._scorer.parts(self._vectors, side) if few else None
    self._lock = threading.Lock()
    self.attends = self._scorer.attends
    self.rank('warm', 1)

  def rank(self, query: str, count: int) -> tuple[list[str], np.ndarray, dict[str, float]]:
    """The best texts: (ids, scores, milliseconds of 'encode', 'head', 'sort')."""
    left = self._scorer.slots[0]
    with self._lock:
      started = time.perf_counter()
      vectors = self._scorer.encode([query], left)
      encoded = time.perf_counter()
      part = self._scorer.parts(vectors, left)
      asked = vectors, part, self._vectors, self._parts
      logits, scores = self._scorer.one_to_many_scored(*asked)
      scored = time.perf_counter()
    order = top(logits, count)
    ids = [self._keys[row] for row in order]
    ends = (encoded - started, scored - encoded, time.perf_counter() - scored)
    ms = {name: 1e3 * t for name, t in zip(('encode', 'head', 'sort'), ends, strict=True)}
    return ids, scores[order], ms

  def pair(self, query: str, text: str) -> dict[str, Any]:
    """Kept tokens, 'left' and 'right', and the head's 'attention' between them, by layer."""
    with self._lock:
      (left, right), attention = self._scorer.attention(query, text)
    tokens = [piece or '·' for piece in (*left, *right)]
    return {
      'left': tokens[: len(left)],
      'right': tokens[len(left) :],
      'attention': attention.round(4).tolist(),
    }


def _named(folder: str) -> str:
  """The run's name, the archive's, or the hub repository's."""
  if folder.startswith(hub.PREFIX):
    return folder.rpartition('/')[2]
  path = os.path.abspath(folder)
  path = path.removesuffix(archive.SUFFIX) if archive.is_one(path) else os.path.dirname(path)
  return os.path.basename(path)
