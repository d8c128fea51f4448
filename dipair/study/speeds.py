"""Speeds of a study's students: heads by runtime, cross-attention students, all in one run."""

import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from common.data.records import RecordSet
from common.data.tokens import TokenizedTuples
from common.distillation import measure
from common.distillation.inference import TupleScorer
from common.evaluation import benchmark
from common.files import read_json, write_json
from common.scoring import runtimes
from common.scoring.exported import Export
from common.training import strategies
from dipair.finished_run import FinishedRun
from dipair.scorer import Scorer
from dipair.study.cross_students import CrossStudent
from dipair.study.students import SETS, Kept, Student

RUNTIMES = ('tensorflow', 'litert', 'litert-int8')
INT8 = RUNTIMES[2]
REAL, BASELINE = 'real lengths', f'{benchmark.BASELINE_TOKENS} tokens'


@strategies.precision()
def measured(run: FinishedRun, students: list[Kept], rounds: int) -> dict[str, Any]:
  """Pairs a second of students, side by side.

  Args:
    run: The run that they are of.
    students: Those to measure; a head that is not exported yet is.
    rounds: Rounds, of which the median is taken.

  Returns:
    {'base': BERT-base's row of `benchmark.rates`, 'teacher': the run's teachers', if any, on test
    tuples at their real lengths, 'students': {name: {runtime: row}}}. Rows of students have 'ratio', to
    BERT-base, and heads of LiteRT their metric on 'valid' and 'test'. A cross-attention student's
    runtimes are '128 tokens', where BERT-base is measured, and 'real lengths', where the teacher is.
  """
  heads = [student for student in students if isinstance(student, Student)]
  scorers = {student.name: _scorers(student) for student in heads}
  metrics = {student.name: worth(run, student) for student in heads}
  base = benchmark.cross_encoder('BERT-base', benchmark.BERT_BASE)
  test = RecordSet(run.path('data/test'))
  contenders = {('', 'base'): base}
  if teachers := run.teachers():
    contenders['', 'teacher'] = measure.cross_attention(teachers, test)
  for student in students:
    if isinstance(student, CrossStudent):
      config = student.pretrained.config
      contenders[student.name, BASELINE] = benchmark.cross_encoder(student.name, config)
      contenders[student.name, REAL] = measure.cross_attention([student.model()], test)
    elif isinstance(student, Student):
      for runtime, scorer in scorers[student.name].items():
        contenders[student.name, runtime] = measure.head(student.name, scorer)
  rates = benchmark.rates(list(contenders.values()), rounds=rounds)
  found: dict[str, Any] = {'students': {}}
  for (name, runtime), rate in zip(contenders, rates, strict=True):
    if not name:
      found[runtime] = rate
      continue
    ratio = rate['pairs_per_second'] / found['base']['pairs_per_second']
    row = {**rate, 'ratio': ratio, **metrics.get(name, {}).get(runtime, {})}
    found['students'].setdefault(name, {})[runtime] = row
  return found


@strategies.precision()
def encoding(run: FinishedRun, students: Sequence[Kept]) -> dict[str, float]:
  """Texts a second that students encode in TensorFlow, side by side, by name."""
  texts = measure.sample(RecordSet(run.path('data/test')))
  chosen = [student for student in students if isinstance(student, Student)]
  contenders = [_encoder(student, texts) for student in chosen]
  rates = benchmark.rates(contenders, rounds=3, seconds=0) if contenders else []
  return {rate['name']: rate['pairs_per_second'] for rate in rates}


def _encoder(student: Student, texts: list[tuple[str, ...]]) -> benchmark.Contender:
  """A student's encoders on the distinct texts of tuples, tokenization included."""
  live = TupleScorer(*student.model(), tf.distribute.get_strategy())
  count = sum(len(set(column)) for column in zip(*texts, strict=True))

  def encode() -> None:
    live.gather(TokenizedTuples.of_texts(texts, live.tokenizer))

  return benchmark.Contender(student.name, encode, count)


def _scorers(student: Student) -> dict[str, Scorer]:
  """A student's exported head by runtime; its texts are encoded by the live model."""
  export = Export(student.head())
  none: Any = None  # of the encoders, which are never asked
  return {name: Scorer(export, none, runtimes.load_head(export, name)) for name in RUNTIMES}


@strategies.precision()
def worth(run: FinishedRun, student: Student) -> dict[str, Any]:
  """The primary metric of a head in LiteRT on valid and test, {runtime: {set: metric}}, measured once."""
  path = os.path.join(student.folder, f'runtimes-{run.results["primary_metric"]}.json')
  if not os.path.exists(path):
    found: dict[str, Any] = {runtime: {} for runtime in RUNTIMES[1:]}
    scorers = _scorers(student)
    model, tokenizer = student.model()
    live = TupleScorer(model, tokenizer, tf.distribute.get_strategy())
    for name in SETS:
      records, judged = RecordSet(run.path(f'data/{name}')), run.judged(name)
      features, index = student.gather(live, records)
      vectors = [
        model.vectors(tf.constant(of), slot).numpy()[index[:, slot]]
        for slot, of in enumerate(features)
      ]
      for runtime, row in found.items():
        row[name] = measure.primary(judged, scorers[runtime].score(*vectors))
    os.makedirs(student.folder, exist_ok=True)
    write_json(path, found, sealed=True)
  return read_json(path)
