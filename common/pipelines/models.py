"""Models as Beam's `RunInference` takes them; the jobs load theirs through these too."""

import contextlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from apache_beam.ml.inference.base import ModelHandler

from common.pipelines import shards
from common.pipelines.units import Refuse
from common.scoring.scorer import PairScorer
from common.vectors.store import VectorStore

_BLOCK = 1024  # pairs whose vectors are read at a time: they stay in cache


class ScorerHandler(ModelHandler[tuple[Any, Any], Any, PairScorer]):
  """An export: pairs in, scores out (a float, or a list of one a class).

    pairs | RunInference(ScorerHandler('runs/p2t/export', 'litert-int8'))

  Args:
    export_dir: The export.
    runtime: Runtime of the head: 'tensorflow', 'xla' (SavedModels) or one of 'litert', ….
    threads: Threads of this process; 0: one a core.
  """

  def __init__(self, export_dir: str, runtime: str = 'tensorflow', threads: int = 0):
    self.export_dir, self.runtime, self.threads = export_dir, runtime, threads

  def load_model(self) -> PairScorer:
    """The export, its runtime and TensorFlow held to the threads."""
    limit_threads(self.threads)
    own = self.threads if self.runtime.startswith('litert') else 0
    return PairScorer.load(shards.local(self.export_dir), self.runtime, own)

  def run_inference(
    self, batch: Sequence[tuple[Any, Any]], model: PairScorer, inference_args: Any = None
  ) -> Iterable[Any]:
    """Scores of pairs: in each slot a text, or its vectors."""
    del inference_args
    sides = [
      list(side) if isinstance(side[0], str) else np.stack(side)
      for side in zip(*batch, strict=True)
    ]
    return model.score(*sides).tolist()


class PairModel(NamedTuple):
  """A scorer and, optionally, stores that turn ids into vectors."""

  scorer: PairScorer
  left: VectorStore | None
  right: VectorStore | None

  @property
  def columns(self) -> dict[str, type]:
    """Names and types of what `score` gives: `score`, or `score_0`, `score_1`, … of classes."""
    count = self.scorer.outputs
    scores = [f'score_{number}' for number in range(count)] if count > 1 else ['score']
    return {'left': str, 'right': str, **dict.fromkeys(scores, float)}

  def score(
    self, left: Sequence[str], right: Sequence[str], where: Sequence[str], refuse: Refuse
  ) -> tuple[Sequence[Any], ...]:
    """(left, right, scores of each output) of pairs at `where`; those of an unknown id are refused."""
    if not (self.left and self.right):
      scores = self.scorer.score(left, right)  # [pairs], or [pairs, C]
      return left, right, *scores.reshape([len(left), -1]).T
    rows = [self.left.find(left), self.right.find(right)]
    known = (rows[0] >= 0) & (rows[1] >= 0)
    for i in np.flatnonzero(~known).tolist():
      side, ids = ('left', left) if rows[0][i] < 0 else ('right', right)
      row = json.dumps({'left': left[i], 'right': right[i]})
      refuse(where[i], f'no {side} vectors of id {ids[i]!r}', row)
    left, right = ([ids[i] for i in np.flatnonzero(known).tolist()] for ids in (left, right))
    blocks = [np.zeros([0, self.scorer.outputs], np.float32)]
    for start in range(0, len(left), _BLOCK):
      lefts, rights = (of_side[known][start : start + _BLOCK] for of_side in rows)
      block = self.scorer.score(self.left.vectors(lefts), self.right.vectors(rights))
      blocks.append(block.reshape([len(lefts), -1]))
    return left, right, *np.concatenate(blocks).T


class TeacherHandler(ModelHandler[tuple[str, ...], np.ndarray, Any]):
  """Teachers: tuples of texts in, mean logits out.

  Args:
    folders: Folders of the teachers.
    threads: Threads of this process; 0: one a core.
  """

  def __init__(self, folders: Sequence[str], threads: int = 0):
    self.folders, self.threads = tuple(folders), threads

  def load_model(self) -> Any:
    """The teachers."""
    from common.distillation.teacher import Teacher

    limit_threads(self.threads)
    return [Teacher.load(folder) for folder in self.folders]

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
