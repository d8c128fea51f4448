"""A study's students against the teacher and one another, as `study.json` holds them."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from common.evaluation import metrics, significance
from experiments.finished_run import FinishedRun
from experiments.study.rows import Row
from experiments.study.speeds import Comparisons
from experiments.study.students import SETS, TEACHER, Model

RANKING = 'ndcg@10'  # shown where test has queries with several candidates


def compared(run: FinishedRun, models: Sequence[Model], comparisons: Comparisons) -> dict[str, Any]:
  """Metrics of all students, and their comparisons.

  Args:
    run: The run that they stand on.
    models: The teacher, then the students, all made.
    comparisons: The study's.

  Returns:
    {'teacher': metrics by set, or None; 'students': {name: fields of `Judged`}; 'comparisons':
    {key: {'title', 'timed', 'rows'}}}. A row has its 'name', its 'students', a seed each, and
    whether it is 'cross'. Against the teacher it has 'delta' by set, 'interval' and 'p_value' of
    test. 'closest' is the row next below it on test, with 'p_closest'.
  """
  judge = run.judged('test', ranks=True)
  judged = [model for model in models if model.stage.result.test]  # there may be no teacher
  found = {model.name: dataclasses.asdict(model.stage.result) for model in judged}
  logits = [model.logits() for model in judged]
  if judge.ranked:
    for of_model, z in zip(found.values(), logits, strict=True):
      of_model['test'][RANKING] = float(judge.by_query(z, [RANKING])[RANKING].mean())
  columns = dict(zip(found, judge.resampled(logits), strict=True))
  teacher = found.pop(TEACHER, None)
  return {
    'teacher': teacher and {name: teacher[name] for name in SETS},
    'students': found,
    'comparisons': {
      comparison.key: {
        'title': comparison.title,
        'timed': comparison.timed,
        'rows': _rows(
          comparison.rows,
          [[student.name for student in of] for of in of_rows],
          found,
          teacher,
          columns,
          judge.primary,
        ),
      }
      for comparison, of_rows in comparisons
    },
  }


def _rows(
  rows: Sequence[Row],
  students: Sequence[Sequence[str]],
  judged: dict[str, Any],
  teacher: dict[str, Any] | None,
  columns: dict[str, np.ndarray],
  primary: str,
) -> list[dict[str, Any]]:
  """A comparison's rows; of several seeds the mean of the metric is compared."""
  better = -1 if primary in metrics.LESS_IS_BETTER else 1
  of_rows = [np.mean([columns[name] for name in names], axis=0) for names in students]
  found = []
  for row, names, column in zip(rows, students, of_rows, strict=True):
    made: dict[str, Any] = {'name': row.name, 'cross': row.is_cross, 'students': names}
    if teacher:
      made['delta'] = {
        s: metrics.delta(
          _mean([judged[n][s][primary] for n in names]), _mean([teacher[s][primary]])
        )
        for s in SETS
      }
      against = significance.difference(columns[TEACHER], column)
      made['interval'] = {'test': [against.low, against.high]}
      made['p_value'] = {'test': against.p_value}
    below = [i for i, other in enumerate(of_rows) if better * other[0] < better * column[0]]
    if below:
      closest = max(below, key=lambda i: better * of_rows[i][0])
      made['closest'] = rows[closest].name
      made['p_closest'] = significance.difference(of_rows[closest], column).p_value
    found.append(made)
  return found


def _mean(values: Sequence[float | None]) -> float:
  """Mean of metrics; None, an undefined one, makes it nan."""
  return float(np.mean(np.array(values, float)))
