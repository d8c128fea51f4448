"""Models as Beam's `RunInference` takes them; the jobs load theirs through these too."""

import contextlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from apache_beam.ml.inference.base import ModelHandler

from common.data import vector_cells
from common.data.texts import distinct
from common.pipelines import shards
from common.pipelines.units import Refuse
from common.scoring import runtimes
from common.scoring.exported import Export
from common.scoring.scorer import PairScorer
from common.vectors.store import VectorStore

_BLOCK = 1024  # pairs whose vectors are read at a time: they stay in cache


class ScorerHandler(ModelHandler[tuple[Any, ...], Any, PairScorer]):
  """An export: pairs (tuples) in, scores out (a float, or a list of one a class).

    pairs | RunInference(ScorerHandler('runs/p2t/export', 'litert-int8'))

  Args:
    export_dir: The export.
    runtime: Runtime of the head: 'tensorflow', 'xla' (SavedModels) or one of 'litert', ….
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
    if 'tensorflow' in (self.encoder_runtime, self.runtime) or self.runtime == 'xla':
      limit_threads(self.threads)
    export = Export(shards.local(self.export_dir))
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
    self, sides: Sequence[Sequence[str]], where: Sequence[str], refuse: Refuse
  ) -> tuple[Sequence[Any], ...]:
    """Each slot's ids (texts, without stores), then the scores of each output.

    Args:
      sides: Ids or texts, a slot each.
      where: Place of each tuple.
      refuse: Takes the tuples of an unknown id.
    """
    if not self.stores:
      given: Sequence[Any] = sides
      if self.scorer.widths:
        given, sides = self._given(sides, where, refuse)
      scores = self.scorer.score(*map(self._encoded, self.scorer.slots, given))  # [tuples(, C)]
      return *sides, *scores.reshape([len(sides[0]), self.scorer.outputs]).T
    rows = np.stack([s.find(ids) for s, ids in zip(self.stores, sides, strict=True)])  # [slots, n]
    known = (rows >= 0).all(axis=0)
    for i in np.flatnonzero(~known).tolist():
      slot = int(np.argmin(rows[:, i] >= 0))
      row = dict(zip(self.scorer.slots, (ids[i] for ids in sides), strict=True))
      why = f'no {self.scorer.slots[slot]} vectors of id {sides[slot][i]!r}'
      refuse(where[i], why, json.dumps(row))
    if not known.all():
      sides = [[ids[i] for i in np.flatnonzero(known).tolist()] for ids in sides]
      rows = rows[:, known]
    blocks = [np.zeros([0, self.scorer.outputs], np.float32)]
    for start in range(0, rows.shape[1], _BLOCK):
      block = rows[:, start : start + _BLOCK]
      vectors = [store.stored(own) for store, own in zip(self.stores, block, strict=True)]
      blocks.append(self.scorer.score(*vectors).reshape([block.shape[1], -1]))
    return *sides, *np.concatenate(blocks).T

  def _encoded(self, slot: str, items: Sequence[Any]) -> Sequence[Any]:
    """Vectors of a slot's texts, each encoded once; of a slot of vectors these."""
    if slot in self.scorer.widths:
      return items
    once, of_row = distinct(items)
    return self.scorer.encode(once, slot)[of_row]

  def _given(
    self, sides: Sequence[Sequence[str]], where: Sequence[str], refuse: Refuse
  ) -> tuple[list[Any], list[list[str]]]:
    """Cells as the scorer takes them, and these cells, but for tuples of a vector that is none."""
    widths = [self.scorer.widths.get(slot, 0) for slot in self.scorer.slots]
    vectors: dict[int, dict[int, Any]] = {}
    keep = list(range(len(where)))
    for slot, (cells, width) in enumerate(zip(sides, widths, strict=True)):
      if width:  # of a tuple that is refused, no further slot is read
        own = [cells[row] for row in keep]
        found = vector_cells.of_cells(own, width, [where[row] for row in keep], refuse)
        vectors[slot] = {keep[number]: vector for number, vector in found.items()}
        keep = list(vectors[slot])
    kept: list[list[str]] = [[cells[row] for row in keep] for cells in sides]
    given: list[Any] = list(kept)
    for slot, of in vectors.items():
      given[slot] = np.array([of[row] for row in keep], np.float32).reshape([-1, widths[slot]])
    return given, kept


class TeacherHandler(ModelHandler[tuple[str, ...], np.ndarray, Any]):
  """Teachers: tuples of texts in, mean logits out.

  Args:
    folders: Folders of the teachers.
    max_length: Most tokens of a packed tuple, for those that are classifiers.
    threads: Threads of this process; 0: one a core.
    classes: Labels in order of the outputs, for those that are classifiers of classes; none: one logit.
  """

  def __init__(
    self, folders: Sequence[str], max_length: int, threads: int = 0, classes: Sequence[str] = ()
  ):
    self.folders, self.max_length, self.threads = tuple(folders), max_length, threads
    self.classes = tuple(classes)

  def load_model(self) -> Any:
    """The teachers."""
    from common.distillation.teacher import Teacher

    limit_threads(self.threads)
    length, classes = self.max_length, self.classes
    return [Teacher.load(folder, length, classes=classes) for folder in self.folders]

  def run_inference(
    self, batch: Sequence[tuple[str, ...]], model: Any, inference_args: Any = None
  ) -> np.ndarray:
    """Logits [n, outputs] of tuples, batched by length."""
    import tensorflow as tf

    from common.data.tokens import TokenizedTuples
    from common.distillation.teacher import mean_logits

    del inference_args
    tuples = [TokenizedTuples.of_texts(batch, teacher.tokenizer) for teacher in model]
    return mean_logits(model, tuples, strategy=tf.distribute.get_strategy())


def limit_threads(threads: int) -> None:
  """Holds TensorFlow to so many threads, where it has not started yet."""
  import tensorflow as tf

  if threads:
    with contextlib.suppress(RuntimeError):  # started
      tf.config.threading.set_intra_op_parallelism_threads(threads)
      tf.config.threading.set_inter_op_parallelism_threads(threads)
