"""What reranking did to a run, by its qrels: metrics before and after."""

import numpy as np

from common.data.trec import Pairs
from common.errors import InputError
from common.evaluation import ranking, report, significance
from common.evaluation.cells import chance, label, metric, moved
from common.evaluation.ranking import Candidates, Judged
from common.evaluation.tables import Table


def judgements(run: Pairs, qrels: Pairs) -> tuple[np.ndarray, Candidates]:
  """Lines of the run [n] whose query is judged, and their candidates; grades from 1 are relevant.

  Raises:
    InputError: If no query of the run is judged.
  """
  numbers = {key: number for number, key in enumerate(run.queries)}
  query = np.array([numbers.get(key, -1) for key in qrels.queries])[qrels.query]
  numbers = {key: number for number, key in enumerate(run.documents)}
  unknown = len(run.documents)  # and further ones: judged, and not in the run
  document = np.array([numbers.get(key, unknown + i) for i, key in enumerate(qrels.documents)])[
    qrels.document
  ]
  here, among = np.unique(query[query >= 0], return_inverse=True)
  if not len(here):
    raise InputError(f'{qrels.path}: judges no query of {run.path}')
  of = query >= 0
  judged = Judged(among, qrels.values[of], qrels.values[of] >= 1, len(here))
  place = np.full(len(run.queries), -1)
  place[here] = np.arange(len(here))
  lines = np.flatnonzero(place[run.query] >= 0)
  wide = unknown + len(qrels.documents)
  keys = query[of].astype(np.int64) * wide + document[of]
  order = np.argsort(keys)
  asked = run.query[lines].astype(np.int64) * wide + run.document[lines]
  found = order[np.minimum(np.searchsorted(keys[order], asked), len(keys) - 1)]
  grades = np.where(keys[found] == asked, judged.grades[found], 0)
  queries = place[run.query[lines]]
  return lines, Candidates(queries, run.ties()[run.document[lines]], grades, grades >= 1, judged)


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
  return report.grid(Table(note, ['Metric', 'before', 'after', 'Change', 'p'], rows))
