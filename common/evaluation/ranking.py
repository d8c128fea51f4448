"""Ranking quality of scored candidates, query by query, exactly as trec_eval has it.

Ranks: by score in float32, the higher first; of equal scores the higher id first. A query without a
relevant text counts 0; of a run and its qrels, queries count that stand in both. NDCG's gain is the
grade itself (linear; a negative one gains nothing), its discount log2(1 + rank). The others know
relevant and not; recall and MAP are of all relevant texts that are judged, found or not, and
precision@k divides by k however few candidates there are.

Dimensions: q queries, n candidates, m judgements.
"""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from common.errors import InputError
from common.evaluation import metrics, significance

SHOWN = ('ndcg@10', 'mrr@10', 'map', 'recall@10', 'precision@10')
NAMES = 'ndcg@K, mrr@K, map, recall@K, precision@K'
_NAME = re.compile(r'(ndcg|mrr|recall|precision)@([1-9]\d*)|map')


def is_metric(name: str) -> bool:
  """Whether a metric of ranking has that name: one of `NAMES`, K a number from 1."""
  return _NAME.fullmatch(name) is not None


@dataclasses.dataclass(frozen=True)
class Judged:
  """Texts judged for each query, and how many are good: what rankings are measured by.

  Attributes:
    queries: [m] int, the query's number, from 0, of each judgement.
    grades: [m] float, NDCG's gain.
    relevant: [m] bool.
    count: q.
  """

  queries: np.ndarray
  grades: np.ndarray
  relevant: np.ndarray
  count: int

  @property
  def relevants(self) -> np.ndarray:
    """Relevant texts of each query: [q] int."""
    return np.bincount(self.queries[self.relevant], minlength=self.count)


@dataclasses.dataclass(frozen=True)
class Candidates:
  """Candidates of queries, which models score; one that is not judged has grade 0.

  Attributes:
    queries: [n] int, the query's number of each candidate.
    ties: [n] int, which rise with the candidates' ids: order of equal scores.
    grades: [n] float.
    relevant: [n] bool.
    judged: What was judged, among the candidates or not.
  """

  queries: np.ndarray
  ties: np.ndarray
  grades: np.ndarray
  relevant: np.ndarray
  judged: Judged

  def ranked(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Candidates [n] by query, each query's best first, and their places in it from 0, [n]."""
    order = np.lexsort((-self.ties, -scores.astype(np.float32), self.queries))
    return order, _places(self.queries[order])

  def evaluate(self, scores: np.ndarray, names: Sequence[str] = SHOWN) -> dict[str, np.ndarray]:
    """Metrics by name of scores [n]: a value a query, [q] float64.

    Raises:
      InputError: If a name is none of `NAMES`.
    """
    order, places = self.ranked(scores)
    queries, grades, relevant = self.queries[order], self.grades[order], self.relevant[order]
    return {name: self._metric(name, queries, places, grades, relevant) for name in names}

  def _metric(
    self,
    name: str,
    queries: np.ndarray,
    places: np.ndarray,
    grades: np.ndarray,
    relevant: np.ndarray,
  ) -> np.ndarray:
    match = _NAME.fullmatch(name)
    if match is None:
      raise InputError(f'{name!r} is no metric of ranking: {NAMES}')
    kind, judged = match[1] or name, self.judged
    cut = int(match[2]) if match[2] else len(places)
    top = places < cut
    if kind == 'ndcg':
      best = np.lexsort((-judged.grades, judged.queries))
      ideal_queries = judged.queries[best]
      ideal = self._gained(ideal_queries, _places(ideal_queries), judged.grades[best], cut)
      return _divided(self._gained(queries, places, grades, cut), ideal)
    found = top & relevant
    if kind == 'mrr':
      values = np.zeros(judged.count)
      having, firsts = np.unique(queries[found], return_index=True)
      values[having] = 1 / (1 + places[found][firsts])
      return values
    if kind == 'map':
      before = np.cumsum(relevant)
      starts = np.flatnonzero(places == 0)
      lengths = np.diff([*starts, len(places)])
      before = before - np.repeat((before - relevant)[starts], lengths)  # of the same query
      precision = np.where(found, before / (1 + places), 0)
      return _divided(np.bincount(queries, precision, judged.count), judged.relevants)
    hits = np.bincount(queries[found], minlength=judged.count)
    return hits / cut if kind == 'precision' else _divided(hits, judged.relevants)

  def _gained(
    self, queries: np.ndarray, places: np.ndarray, grades: np.ndarray, cut: int
  ) -> np.ndarray:
    """Discounted gain of the first `cut` places, [q]."""
    gains = np.where(places < cut, np.maximum(grades, 0) / np.log2(places + 2), 0)
    return np.bincount(queries, gains, self.judged.count)


def of_pairs(
  queries: np.ndarray,
  texts: np.ndarray,
  labels: np.ndarray,
  ties: np.ndarray,
) -> tuple[np.ndarray, Candidates] | None:
  """Candidates of the queries of a labelled set that have several; None where there is none.

  A pair that stands in the set twice counts once, with its first label.

  Args:
    queries: [pairs] int, whichever numbers tell queries apart.
    texts: [pairs] int, numbers of the candidates' texts.
    labels: [pairs] in [0, 1]; relevant from 0.5 up. They are the grades: the lowest label gains
      nothing, and NDCG is the same whatever unit they are in.
    ties: A number a text that rises with its id.

  Returns:
    The rows of the set that are candidates, and they.
  """
  order = np.lexsort((texts, queries))  # stable: the first of equal pairs comes first
  same = np.zeros(len(order), bool)
  sorted_queries, sorted_texts = queries[order], texts[order]
  same[1:] = (np.diff(sorted_queries) == 0) & (np.diff(sorted_texts) == 0)
  rows = order[~same]
  _, numbers, sizes = np.unique(queries[rows], return_inverse=True, return_counts=True)
  rows = rows[sizes[numbers] > 1]
  if not len(rows):
    return None
  _, numbers = np.unique(queries[rows], return_inverse=True)
  grades = labels[rows].astype(np.float64)
  relevant = metrics.positives(grades)
  judged = Judged(numbers, grades, relevant, int(numbers.max()) + 1)
  return rows, Candidates(numbers, ties[texts[rows]], grades, relevant, judged)


def resampled(models: Sequence[np.ndarray]) -> np.ndarray:
  """Means of models' values a query, [q] each, as of `significance.resampled`, over queries.

  Returns:
    [models, 1 + samples]: a column of `significance.difference` a model.
  """
  queries = np.zeros(len(models[0]))
  return significance.resampled(lambda _, values: float(values.mean()), queries, models).T


def _places(queries: np.ndarray) -> np.ndarray:
  """Place of each row within its query, [n] from 0; a query's rows stand together."""
  new = np.ones(len(queries), bool)
  new[1:] = queries[1:] != queries[:-1]
  starts = np.flatnonzero(new)
  return np.arange(len(queries)) - np.repeat(starts, np.diff([*starts, len(queries)]))


def _divided(values: np.ndarray, by: np.ndarray) -> np.ndarray:
  """values / by, 0 where there is nothing to divide by."""
  return np.divide(values, by, out=np.zeros(len(by)), where=by > 0)
