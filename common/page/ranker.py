"""An export that ranks the page's texts, whose vectors are in memory as a store holds them."""

import threading
import time
from collections.abc import Mapping
from typing import Any

from common.errors import InputError
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
    InputError: If the model does not give pairs of texts one score, or the store is another
      encoder's or side's, or has another text under an id.

  Attributes:
    name: The export, as it was named.
    attends: Whether its head has attention to show.
  """

  def __init__(
    self, folder: str, store: str, runtime: str, encoder_runtime: str, texts: Mapping[str, str]
  ):
    self.name = folder
    self._scorer = PairScorer.load(folder, runtime, encoder_runtime=encoder_runtime)
    self._scorer.check_ranks_texts(folder)
    self.attends = self._scorer.attends
    side, dtype = self._scorer.slots[1], 'int8'
    if manifest.is_there(store):
      there = VectorStore(store)
      if there.fingerprint != self._scorer.fingerprints[side]:
        raise InputError(f'{store}: vectors of another encoder than {folder}; name a new folder')
      dtype = there.dtype
    # A text that is not the one encoded under its id is refused; what the store lacks is added.
    rows = iter(texts.items())
    opened = self._scorer.encode_to(store, rows, side, dtype=dtype, total=len(texts))
    self._ids = list(texts)
    self._vectors = opened.stored(opened.rows(self._ids))  # a quarter of float32, where int8
    few = len(texts) <= _PARTS
    self._parts = self._scorer.parts(self._vectors, side) if few else None
    self._lock = threading.Lock()
    self.rank('warm', 1)

  def rank(self, query: str, count: int) -> tuple[list[tuple[str, float]], dict[str, float]]:
    """The best texts, [(id, score)], and the milliseconds of 'encode' and 'rank'."""
    with self._lock:
      started = time.perf_counter()
      vectors = self._scorer.encode([query], self._scorer.slots[0])
      encoded = time.perf_counter()
      best = self._scorer.rank(vectors[0], self._vectors, count, parts=self._parts)
      ranked = time.perf_counter()
    ms = {'encode': 1e3 * (encoded - started), 'rank': 1e3 * (ranked - encoded)}
    return [(self._ids[row], score) for row, score in best], ms

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
