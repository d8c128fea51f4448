"""Speed and quality of an export, by runtime and vector dtype."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.data.records import RecordSet
from common.data.task import Task
from common.data.tokens import TokenizedTuples
from common.distillation import teacher
from common.distillation.teacher import Teacher
from common.distillation.teachers import Teachers
from common.evaluation import benchmark, exports
from common.evaluation.judged_set import JudgedSet
from common.scoring import runtimes
from common.scoring.exported import Export
from common.scoring.scorer import Gathered, PairScorer
from common.vectors.values import DTYPES, narrowed, widened

_TEXTS = 256  # of the test set's last slot, whose encoding is timed
_TUPLES = 128  # of the test set, which the teacher's speed is of
_ROWS = 1024  # pairs of a call whose speed is measured


@dataclasses.dataclass(frozen=True)
class Benchmarked:
  """Rows by runtime of the head, by vector dtype and by runtime of the encoders."""

  rates: list[dict[str, Any]]
  stored: list[dict[str, Any]]
  encoders: list[dict[str, Any]]


def of_export(
  scorer: type[PairScorer],
  title: str,
  export_dir: str,
  data: str,
  task: Task,
  teachers: Teachers | None,
) -> Benchmarked:
  """Speed and quality of an export, by runtime, and quality by vector dtype.

  Args:
    scorer: Class that loads the export.
    title: The student's name, as people write it.
    export_dir: Folder of the export.
    data: Folder of the record sets `valid` and `test`.
    task: Kind of the labels, and the metric that decides.
    teachers: Whose mean logits the student learnt from; None: the run had none.

  Returns:
    `rates`: rows of `benchmark.rates`, for BERT-base, the teachers if there are some, and the head
    by runtime. The head's rows carry their rows of `compare`; each row has its 'model':
    'BERT-base', 'teacher' or 'student'. `stored`: rows of `compare`. `encoders`: rows of `compare`
    with 'texts_per_second' and its 'ratio' to TensorFlow's.
  """
  base = benchmark.cross_encoder('BERT-base', benchmark.BERT_BASE)
  export = Export(export_dir)
  scorers = {name: scorer.load(export, name) for name in runtimes.RUNTIMES}
  heads = [head(f'{title} head, {name}', loaded) for name, loaded in scorers.items()]
  encoders = {n: scorer.load(export, encoder_runtime=n) for n in runtimes.RUNTIMES}
  test = RecordSet(os.path.join(data, 'test'))
  others = [base, _teacher(teachers, test)] if teachers else [base]
  rates = benchmark.rates([*others, *heads], rounds=3, seconds=0.5)
  slot = len(scorers['tensorflow'].slots) - 1
  rows = np.unique(test.tuples().items[:, slot])[:_TEXTS]
  encoded = list(test.items(slot).contents(rows))
  contenders = [_encoder(name, loaded, encoded) for name, loaded in encoders.items()]
  encoding = benchmark.rates(contenders, rounds=3, seconds=0)
  running, stored, encoded_by = compare(scorers, encoders, task, data)
  about = [{'model': 'BERT-base'}, {'model': 'teacher'}][: len(others)]
  about += [{'model': 'student', **row} for row in running]
  paces = [rate['pairs_per_second'] for rate in encoding]
  return Benchmarked(
    rates=[{**rate, **row} for rate, row in zip(rates, about, strict=True)],
    stored=stored,
    encoders=[
      {'texts_per_second': pace, 'ratio': pace / paces[0], **row}
      for pace, row in zip(paces, encoded_by, strict=True)
    ],
  )


def _teacher(teachers: Teachers, test: RecordSet) -> benchmark.Contender:
  """The run's teachers, or the function, on tuples from all over the test set."""
  if teachers.function is None:
    return cross_attention(teachers.load(), test)
  function, texts = teachers.function, sample(test)
  return benchmark.Contender('teacher', lambda: function(texts), len(texts))


def compare(
  scorers: Mapping[str, PairScorer],
  encoders: Mapping[str, PairScorer],
  task: Task,
  data: str,
) -> tuple[list[dict[str, Any]], ...]:
  """Quality of one export, by runtime of the head, vector dtype and runtime of the encoders.

  Args:
    scorers: Scorers by the head's runtime; the first is what the others are compared with.
    encoders: Scorers by the encoders' runtime, likewise; their heads are the first scorer's.
    task: Kind of the labels, and the metric that decides.
    data: Folder of the record sets `valid` and `test`.

  Returns:
    Rows by runtime, by dtype of the store, and by runtime of the encoders. Each has the primary
    metric on 'valid' and 'test', and the 'max_difference' of scores from the exact ones. A dtype's
    row also has the 'bytes' of a text, by slot. An encoder's row also has its 'name', 'cosine' (the
    mean over its vectors and the exact ones) and 'int8' (the metrics with the head in int8 too).
  """
  first, int8 = next(iter(scorers.values())), scorers['litert-int8']
  running: list[dict[str, Any]] = [{'max_difference': 0.0} for _ in scorers]
  stored: list[dict[str, Any]] = [{'dtype': dtype, 'max_difference': 0.0} for dtype in DTYPES]
  encoding: list[dict[str, Any]] = [
    {'name': name, 'max_difference': 0.0, 'int8': {}} for name in encoders
  ]
  for set_name in ('valid', 'test'):
    records = RecordSet(os.path.join(data, set_name))
    judged = JudgedSet(records, task)
    by_encoder = [
      [exports.side(encoder, slot, records, i) for i, slot in enumerate(first.slots)]
      for encoder in encoders.values()
    ]
    sides = by_encoder[0]
    found = [judge(judged, scorer, sides) for scorer in scorers.values()]
    for row in stored:
      narrow = [narrowed(vectors, row['dtype']) for vectors, _ in sides]
      sizes = (sum(a[0].nbytes for a in of_slot if a is not None) for of_slot in narrow)
      row['bytes'] = dict(zip(first.slots, sizes, strict=True))
      wide = [(widened(*v), rows) for v, (_, rows) in zip(narrow, sides, strict=True)]
      found.append(judge(judged, first, wide))
    for row, own in zip(encoding, by_encoder, strict=True):
      _, row['int8'][set_name] = judge(judged, int8, own)
      cosines = [cosine(a, b) for (a, _), (b, _) in zip(own, sides, strict=True)]
      row['cosine'] = float(np.mean(cosines))
      found.append(judge(judged, first, own))
    (exact, _), *_ = found
    for row, (scores, value) in zip([*running, *stored, *encoding], found, strict=True):
      row[set_name] = value
      row['max_difference'] = max(row['max_difference'], float(np.abs(scores - exact).max()))
  return running, stored, encoding


def cosine(a: np.ndarray, b: np.ndarray) -> float:
  """Mean cosine of vectors [n, ..., D], of those that are not all-zero."""
  length = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
  return float(np.mean((a * b).sum(-1)[length > 0] / length[length > 0]))


def judge(
  judged: JudgedSet, scorer: PairScorer, sides: Sequence[Gathered]
) -> tuple[np.ndarray, float]:
  """Scores [n] or [n, C] of tuples, a side a slot, and the primary metric of their logits."""
  logits, scores = scorer.scored(*sides)
  calibrated = logits.astype(np.float64) / scorer.temperature
  return scores, judged.evaluate(calibrated, logits)[judged.primary]


def cross_attention(teachers: Sequence[Teacher], test: RecordSet) -> benchmark.Contender:
  """Teachers, or one cross-attention student, on texts of tuples from all over the test set."""
  texts = sample(test)

  def score() -> np.ndarray:
    tuples = [TokenizedTuples.of_texts(texts, one.tokenizer) for one in teachers]
    return teacher.mean_logits(teachers, tuples, strategy=tf.distribute.get_strategy())

  return benchmark.Contender('teacher', score, len(texts))


def sample(test: RecordSet) -> list[tuple[str, ...]]:
  """Texts of tuples from all over a test set."""
  every = test.texts()
  return every[:: -(-len(every) // _TUPLES)]


def head(name: str, scorer: PairScorer) -> benchmark.Contender:
  """An exported head on vectors in memory."""
  shapes = list(scorer.vector_shapes.values())
  rng = np.random.default_rng(0)
  vectors = [rng.normal(size=(_ROWS, *shape)).astype(np.float32) for shape in shapes]
  return benchmark.Contender(name, lambda: scorer.score(*vectors), _ROWS)


def _encoder(name: str, scorer: PairScorer, texts: list[Any]) -> benchmark.Contender:
  """An export's encoder on real texts, of the last slot."""
  return benchmark.Contender(name, lambda: scorer.encode(texts, scorer.slots[-1]), len(texts))
