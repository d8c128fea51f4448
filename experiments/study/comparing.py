"""A study's students against the teacher and one another, as `study.json` holds them."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from common.evaluation import metrics, significance
from experiments.study.plan import Plan
from experiments.study.rows import Row
from experiments.study.students import SETS, TEACHER

RANKING = 'ndcg@10'  # shown where test has queries with several candidates


def compared(plan: Plan) -> dict[str, Any]:
  """Metrics of all students, and their comparisons.

  Args:
    plan: The students, made.

  Returns:
    {'teacher': metrics by set, or None; 'students': {name: fields of `Judged`}; 'comparisons':
    {key: {'title', 'timed', 'rows'}}}. A row has its 'name', its 'students', a seed each, and
    whether it is 'cross'. Against the teacher it has 'delta' by set, 'interval' and 'p_value' of
    test. 'closest' is the row next below it on test, with 'p_closest'.
  """
  judge = plan.run.judged('test', ranks=True)
  judged = {name: stage.result for name, stage in plan.stages.items()}
  if not judged[TEACHER].test:
    del judged[TEACHER]
  found = {name: dataclasses.asdict(of) for name, of in judged.items()}
  logits = {name: plan.logits(name) for name in found}
  if judge.ranked:
    for name, of_model in logits.items():
      found[name]['test'][RANKING] = float(judge.by_query(of_model, [RANKING])[RANKING].mean())
  columns = dict(zip(logits, judge.resampled(list(logits.values())), strict=True))
  teacher = found.pop(TEACHER, None)
  return {
    'teacher': teacher and {name: teacher[name] for name in SETS},
    'students': found,
    'comparisons': {
      comparison.key: {
        'title': comparison.title,
        'timed': comparison.timed and bool(plan.config.rounds),
        'rows': _rows(comparison.rows, names, found, teacher, columns, judge.primary),
      }
      for comparison, names in plan.comparisons
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
