"""Scorers of pairs and tuples: as Beam's `RunInference` takes them, and as the jobs do."""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from apache_beam.io.filesystems import FileSystems
from apache_beam.ml.inference.base import ModelHandler

from common import sharded
from common.data import vector_cells
from common.data.texts import distinct
from common.errors import InputError
from common.pipelines import files
from common.pipelines.reading import Refuse
from common.scoring import runtimes
from common.scoring.exported import Export
from common.scoring.scorer import PairScorer
from common.vectors.manifest import REMEDY, Manifest
from common.vectors.store import VectorStore

_BLOCK = 1024  # pairs whose vectors are read at a time: they stay in cache


class ScorerHandler(ModelHandler[tuple[Any, ...], Any, PairScorer]):
  """An export: pairs (tuples) in, scores out (a float, or a list of one a class).

    pairs | RunInference(ScorerHandler('runs/p2t/export', 'litert-int8'))

  Args:
    export_dir: The export.
    runtime: Runtime of the head: 'tensorflow' or one of 'litert', ….
    threads: Threads of this process; 0: one a core, of LiteRT 16 at the most.
    encoder_runtime: Runtime of the encoders, for texts: 'tensorflow' or one of 'litert', ….
  """

  def __init__(
    self,
    export_dir: str,
    runtime: str = 'tensorflow',
    threads: int = 0,
    encoder_runtime: str = 'tensorflow',
  ):
    self.export_dir, self.runtime, self.encoder_runtime = export_dir, runtime, encoder_runtime
    self.threads = threads

  def load_model(self) -> PairScorer:
    """The export, its runtimes and TensorFlow held to the threads."""
    if 'tensorflow' in (self.encoder_runtime, self.runtime):
      limit_threads(self.threads)
    export = Export(files.local(self.export_dir))
    encoder = runtimes.load_encoder(export, self.encoder_runtime, self.threads)
    return PairScorer(export, encoder, runtimes.load_head(export, self.runtime, self.threads))

  def run_inference(
    self, batch: Sequence[tuple[Any, ...]], model: PairScorer, inference_args: Any = None
  ) -> Iterable[Any]:
    """Scores of pairs: in each slot what `PairScorer.score` takes of a row."""
    del inference_args
    sides = [
      list(side) if isinstance(side[0], str) else np.stack(side)
      for side in zip(*batch, strict=True)
    ]
    return model.score(*sides).tolist()


@dataclasses.dataclass(frozen=True)
class Store:
  """A vector store, as a job found it.

  Attributes:
    folder: The folder, local or remote.
    manifest: Its contents.
    version: Digest of the manifest, which differs once the store has changed.
  """

  folder: str
  manifest: Manifest
  version: str

  @classmethod
  def of(cls, folder: str) -> 'Store':
    """Reads a folder; refuses one that holds no whole store."""
    path = FileSystems.join(folder, sharded.NAME)
    if not files.exists(path):
      raise InputError(f'{folder}: no whole vector store there ({sharded.NAME} is missing)')
    content = files.read(path)
    manifest = sharded.parsed(content, path, Manifest, REMEDY)
    return cls(folder, manifest, hashlib.sha256(content).hexdigest())

  def open(self) -> VectorStore:
    """The store, or a copy of a remote one; refuses one that has changed since."""
    opened = VectorStore(files.local(self.folder))
    if opened.version != self.version:
      raise InputError(f'{self.folder}: changed since the job began; choose another --output')
    return opened


class TupleModel(NamedTuple):
  """A scorer and, optionally, stores that turn ids into vectors, one a slot."""

  scorer: PairScorer
  stores: Sequence[VectorStore] = ()

  @property
  def columns(self) -> dict[str, type]:
    """Names and types of what `score` gives: `score`, or `score_0`, `score_1`, … of classes."""
    count = self.scorer.outputs
    scores = [f'score_{number}' for number in range(count)] if count > 1 else ['score']
    return {**dict.fromkeys(self.scorer.slots, str), **dict.fromkeys(scores, float)}

  def score(
    self, sides: Sequence[Sequence[str]], where: str, refuse: Refuse
  ) -> tuple[Sequence[Any], ...]:
    """Each slot's cells, then the scores of each output.

    Args:
      sides: Cells of each slot: ids where there are stores, else texts (or vectors).
      where: Their file.
      refuse: Takes the tuples of an unknown id, or of a cell that is no vector.
    """
    scored = self._of_ids if self.stores else self._of_texts
    kept, scores = scored(sides, where, refuse)
    return *kept, *scores.reshape([len(kept[0]), self.scorer.outputs]).T

  def _of_ids(
    self, sides: Sequence[Sequence[str]], where: str, refuse: Refuse
  ) -> tuple[Sequence[Sequence[str]], np.ndarray]:
    """The ids that all have vectors, and their scores."""
    rows = np.stack([s.find(ids) for s, ids in zip(self.stores, sides, strict=True)])  # [slots, n]
    known = (rows >= 0).all(axis=0)
    for i in np.flatnonzero(~known).tolist():
      slot = int(np.argmin(rows[:, i] >= 0))
      row = dict(zip(self.scorer.slots, (ids[i] for ids in sides), strict=True))
      why = f'no {self.scorer.slots[slot]} vectors of id {sides[slot][i]!r}'
      refuse(where, why, json.dumps(row))
    if not known.all():
      sides = [[ids[i] for i in np.flatnonzero(known).tolist()] for ids in sides]
      rows = rows[:, known]
    scores = [np.zeros([0, self.scorer.outputs], np.float32)]
    for start in range(0, rows.shape[1], _BLOCK):
      block = rows[:, start : start + _BLOCK]
      vectors = [store.stored(own) for store, own in zip(self.stores, block, strict=True)]
      scores.append(self.scorer.score(*vectors).reshape([block.shape[1], -1]))
    return sides, np.concatenate(scores)

  def _of_texts(
    self, sides: Sequence[Sequence[str]], where: str, refuse: Refuse
  ) -> tuple[Sequence[Sequence[str]], np.ndarray]:
    """The cells that hold what their slots take, and their scores; a text is encoded once."""
    slots, vectors = self.scorer.slots, {}
    for number, slot in enumerate(slots):
      if width := self.scorer.widths.get(slot):
        cells = sides[number]
        read = vector_cells.of_cells(cells, width, [where] * len(cells), refuse)
        rows = list(read)  # of a tuple that is refused, no further slot is read
        sides = [[cells[row] for row in rows] for cells in sides]
        vectors = {name: found[rows] for name, found in vectors.items()}
        vectors[slot] = np.array([*read.values()], np.float32).reshape([-1, width])
    for slot, cells in zip(slots, sides, strict=True):
      if slot not in vectors:
        once, of_row = distinct(cells)
        vectors[slot] = self.scorer.encode(once, slot)[of_row]
    return sides, self.scorer.score(*(vectors[slot] for slot in slots))


def limit_threads(threads: int) -> None:
  """Holds TensorFlow to so many threads, where it has not started yet."""
  import tensorflow as tf

  if threads:
    with contextlib.suppress(RuntimeError):  # started
      tf.config.threading.set_intra_op_parallelism_threads(threads)
      tf.config.threading.set_inter_op_parallelism_threads(threads)
