"""What a study found, as `study.json` holds it: every student, and each table's and figure's rows."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common import digests
from common.data.records import RecordSet
from common.distillation.teacher import scorer_of
from common.evaluation import metrics, significance
from common.files import whole
from common.training import strategies
from dipair.finished_run import FinishedRun
from dipair.study.kept import SETS, Kept, teacher_path
from dipair.study.plan import Plan
from dipair.study.rows import Row

RANKING = 'ndcg@10'  # shown where test has queries of several candidates


def collect(plan: Plan) -> dict[str, Any]:
  """Metrics of all students, and comparisons of them.

  Returns:
    {'teacher': metrics by set, or None; 'students': {name: as of `Kept.result`}; 'comparisons':
    {key: {'title', 'axis', 'timed', 'encoders', 'rows'}}}. A row has its 'name', the 'students' it is
    of, a seed each, whether it is 'cross', 'delta' to the teacher by set and, on test, 'interval' and
    'p_value' as a run's models have them; and 'closest', the row next below it on test, with 'p_closest'.
  """
  run, judges = plan.run, {name: plan.run.judged(name, ranks=name == 'test') for name in SETS}
  students = {student.name: student.result() for student in plan.students}
  teacher = _teacher(run, plan.root)
  found = {name: judges[name].evaluate(teacher[name]) for name in teacher}
  logits = {student.name: student.logits('test') for student in plan.students}
  if teacher:
    logits['teacher'] = teacher['test']
  if judges['test'].ranked:
    for name, of_model in logits.items():
      model = found if name == 'teacher' else students[name]
      by_query = judges['test'].by_query(of_model, [RANKING])
      model['test'] = {**model['test'], RANKING: float(by_query[RANKING].mean())}
  columns = dict(zip(logits, judges['test'].resampled(list(logits.values())), strict=True))
  comparisons = {
    comparison.key: {
      'title': comparison.title,
      'axis': comparison.axis,
      'timed': comparison.timed,
      'encoders': comparison.encoders,
      'rows': _rows(plan.rows[comparison], students, found, columns, judges['test'].primary),
    }
    for comparison in plan.rows
  }
  return {'teacher': found or None, 'students': students, 'comparisons': comparisons}


def _rows(
  rows: Sequence[tuple[Row, Sequence[Kept]]],
  students: dict[str, Any],
  teacher: dict[str, dict[str, float]],
  columns: dict[str, np.ndarray],
  primary: str,
) -> list[dict[str, Any]]:
  """A comparison's rows; of several seeds the metric's mean is compared."""
  better = -1 if primary in metrics.LESS_IS_BETTER else 1
  of_rows = [np.mean([columns[student.name] for student in of], axis=0) for _, of in rows]
  found = []
  for (row, of), column in zip(rows, of_rows, strict=True):
    names = [student.name for student in of]
    made: dict[str, Any] = {'name': row.name, 'cross': row.is_cross, 'students': names}
    if teacher:
      of_sets = {s: np.array([students[n][s][primary] for n in names], float) for s in SETS}
      mean = {name: float(values.mean()) for name, values in of_sets.items()}  # None is nan
      made['delta'] = {n: metrics.delta(mean[n], teacher[n][primary]) for n in SETS}
      against = significance.difference(columns['teacher'], column)
      made['interval'] = {'test': [against.low, against.high]}
      made['p_value'] = {'test': against.p_value}
    below = [i for i, other in enumerate(of_rows) if better * other[0] < better * column[0]]
    if below:
      closest = max(below, key=lambda i: better * of_rows[i][0])
      made['closest'] = rows[closest][0].name
      made['p_closest'] = significance.difference(of_rows[closest], column).p_value
    found.append(made)
  return found


def _teacher(run: FinishedRun, root: str) -> dict[str, np.ndarray]:
  """The teacher's logits by set, computed once; none where the run had no scores of these sets."""
  found: dict[str, np.ndarray] = {}
  score = None
  for name in SETS:
    records = RecordSet(run.path(f'data/{name}'))
    path = teacher_path(root, name)
    brought = records.tuples().teacher_logits
    if brought is not None:
      found[name] = np.asarray(brought)
    elif os.path.exists(path):
      found[name] = digests.read_arrays(path, 'delete it and study again')
    else:
      with strategies.precision():
        if score is None and (teachers := run.teachers()):
          score = scorer_of(teachers, tf.distribute.get_strategy())
        if score is None:
          return {}
        found[name] = score(records)
      with whole(path) as temporary, open(temporary, 'wb') as file:
        np.save(file, found[name])
      digests.write(root, [os.path.basename(path)])
  return found
