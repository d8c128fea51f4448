"""Speeds of a study's students: heads by runtime, cross-attention students, all in one run."""

import os
import tempfile
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tqdm import tqdm

from common.data.records import RecordSet
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
from dipair.study.kept import SETS, Kept
from dipair.study.students import Student

RUNTIMES = ('tensorflow', 'litert', 'litert-int8')
INT8 = RUNTIMES[2]
ENCODERS = ('tensorflow', INT8)
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
def encoding(run: FinishedRun, students: Sequence[Kept]) -> dict[str, dict[str, float]]:
  """Texts a second that students encode as they are exported, by runtime, side by side, by name."""
  texts = list(zip(*measure.sample(RecordSet(run.path('data/test'))), strict=True))
  chosen = [student for student in students if isinstance(student, Student)]
  with tempfile.TemporaryDirectory() as folder:
    contenders = {}
    for student in tqdm(chosen, desc='export encoders', unit=' students'):
      path = run.export(os.path.join(folder, str(len(contenders))), student.model())
      for runtime in ENCODERS:
        contenders[student.name, runtime] = _encoder(
          Scorer.load(path, encoder_runtime=runtime), texts
        )
    rates = benchmark.rates(list(contenders.values()), rounds=3, seconds=0) if contenders else []
  found: dict[str, dict[str, float]] = {student.name: {} for student in chosen}
  for (name, runtime), rate in zip(contenders, rates, strict=True):
    found[name][runtime] = rate['pairs_per_second']
  return found


def _encoder(scorer: Scorer, texts: Sequence[Sequence[str]]) -> benchmark.Contender:
  """An export's encoders on the distinct texts of each slot, tokenization included."""
  distinct = {
    slot: list(dict.fromkeys(column)) for slot, column in zip(scorer.slots, texts, strict=True)
  }

  def encode() -> None:
    for slot, of_slot in distinct.items():
      scorer.encode(of_slot, slot)

  return benchmark.Contender('encoder', encode, sum(map(len, distinct.values())))


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
      sides = [
        measure.Side(model.vectors(tf.constant(of), slot).numpy(), index[:, slot])
        for slot, of in enumerate(features)
      ]
      for runtime, row in found.items():
        _, row[name] = measure.judge(judged, scorers[runtime], sides)
    os.makedirs(student.folder, exist_ok=True)
    write_json(path, found, sealed=True)
  return read_json(path)
