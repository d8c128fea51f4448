"""Speeds of a study's students: heads by runtime, cross-attention students, all in one run."""

import os
from typing import Any

from common.data.records import RecordSet
from common.distillation import measure
from common.evaluation import benchmark
from common.files import read_json, write_json
from common.scoring.exported import Export
from common.training import strategies
from dipair.finished_run import FinishedRun
from dipair.scorer import Scorer
from dipair.study.cross_students import CrossStudent
from dipair.study.students import Kept, Student

RUNTIMES = ('tensorflow', 'litert', 'litert-int8')
INT8 = RUNTIMES[2]
REAL, BASELINE = 'real lengths', f'{benchmark.BASELINE_TOKENS} tokens'


@strategies.precision()
def measured(run: FinishedRun, students: list[Kept], rounds: int) -> dict[str, Any]:
  """Pairs a second of students, side by side.

  Args:
    run: The run that they are of.
    students: Those to measure; what is not exported yet is.
    rounds: Rounds, of which the median is taken.

  Returns:
    {'base': BERT-base's row of `benchmark.rates`, 'teacher': the run's teachers', if any, on test
    tuples at their real lengths, 'students': {name: {runtime: row}}}. Rows of students have 'ratio', to
    BERT-base, and heads of LiteRT their metric on 'valid' and 'test'. A cross-attention student's
    runtimes are '128 tokens', where BERT-base is measured, and 'real lengths', where the teacher is.
  """
  heads = [student for student in students if isinstance(student, Student)]
  exports = {student.name: Export(student.export()) for student in heads}  # each read once
  worth = {student.name: _worth(run, student, exports[student.name]) for student in heads}
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
      for runtime in RUNTIMES:
        scorer = Scorer.load(exports[student.name], runtime)
        contenders[student.name, runtime] = measure.head(student.name, scorer)
  rates = benchmark.rates(list(contenders.values()), rounds=rounds)
  found: dict[str, Any] = {'students': {}}
  for (name, runtime), rate in zip(contenders, rates, strict=True):
    if not name:
      found[runtime] = rate
      continue
    ratio = rate['pairs_per_second'] / found['base']['pairs_per_second']
    row = {**rate, 'ratio': ratio, **worth.get(name, {}).get(runtime, {})}
    found['students'].setdefault(name, {})[runtime] = row
  return found


def _worth(run: FinishedRun, student: Student, export: Export) -> dict[str, Any]:
  """The primary metric of an export by runtime, measured once."""
  path = os.path.join(student.folder, 'runtimes.json')
  if not os.path.exists(path):
    scorers = {runtime: Scorer.load(export, runtime) for runtime in RUNTIMES[1:]}
    plain = {'tensorflow': Scorer.load(export)}
    task, data = run.table.base_task, run.path('data')
    rows, _, _ = measure.compare(scorers, plain, task, data, run.metric)
    write_json(path, dict(zip(scorers, rows, strict=True)), sealed=True)
  return read_json(path)
