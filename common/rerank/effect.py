"""Metrics of a run by its qrels, before and after it is reranked."""

from collections.abc import Sequence

import numpy as np

from common.data.trec import Pairs
from common.errors import InputError
from common.evaluation import ranking, significance
from common.evaluation.cells import chance, label, metric, moved
from common.evaluation.ranking import Candidates, Judged
from common.evaluation.tables import Table


def judgements(run: Pairs, qrels: Pairs) -> tuple[np.ndarray, Candidates]:
  """Lines of the run whose query is judged, and their candidates; grades from 1 are relevant.

  Raises:
    InputError: If no query of the run is judged.
  """
  query = _numbers(qrels.queries, run.queries)[qrels.query]
  document = _numbers(qrels.documents, run.documents)[qrels.document]
  there = query >= 0
  queries, among = np.unique(query[there], return_inverse=True)
  if not len(queries):
    raise InputError(f'{qrels.path}: judges no query of {run.path}')
  grades = qrels.values[there]
  judged = Judged(among, grades, grades >= 1, len(queries))
  known = there & (document >= 0)
  pairs = query[known] * len(run.documents) + document[known]
  grade_of = dict(zip(pairs.tolist(), qrels.values[known].tolist(), strict=True))
  lines = np.flatnonzero(np.isin(run.query, queries))
  asked = run.query[lines].astype(np.int64) * len(run.documents) + run.document[lines]
  found = np.array([grade_of.get(key, 0.0) for key in asked.tolist()])
  number = np.searchsorted(queries, run.query[lines])
  return lines, Candidates(number, run.ties[run.document[lines]], found, found >= 1, judged)


def _numbers(ids: Sequence[str], among: Sequence[str]) -> np.ndarray:
  """Places of ids among others: int64; -1 where one is not there."""
  places = {key: place for place, key in enumerate(among)}
  return np.array([places.get(key, -1) for key in ids], np.int64)


def table(judged: tuple[np.ndarray, Candidates], before: np.ndarray, after: np.ndarray) -> str:
  """Metrics of a run's scores [lines], before and after, with 95% intervals and p, as text."""
  lines, candidates = judged
  values = [candidates.evaluate(scores[lines]) for scores in (before, after)]
  rows = []
  for name in ranking.SHOWN:
    columns = ranking.resampled([of[name] for of in values])
    change = significance.difference(*columns)
    shown = []
    for column in columns:
      low, high = significance.interval(column[1:])
      shown.append(f'{metric(float(column[0]))} [{metric(low)}, {metric(high)}]')
    changed = moved(change.delta, change.low, change.high)
    rows.append([label(name), *shown, changed, chance(change.p_value)])
  of = candidates.judged
  note = (
    f'{of.count:,} judged queries, {int((of.relevants == 0).sum()):,} of them without a relevant '
    'document (they count 0); 95% intervals: bootstrap over queries'
  )
  return str(Table(note, ['Metric', 'before', 'after', 'Change', 'p'], rows))
