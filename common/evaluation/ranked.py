"""Rankings by a run's models: metrics, the worst queries, TREC files.

Dimensions: c candidates, q queries.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from common.data import trec
from common.data.texts import Item
from common.data.tuple_set import TupleSet
from common.evaluation import ranking, significance
from common.evaluation.judged_set import JudgedSet
from common.evaluation.ranking import Candidates

_WORST = 10  # queries shown
_TEXTS = 5  # candidates shown of each
_SCALES = (1, 2, 3, 4, 5, 6, 10, 100, 1000)  # labels times one of these are TREC's whole grades

ByModel = Mapping[str, np.ndarray]  # the teacher first, if there is one


def of_sets(
  sets: Mapping[str, tuple[TupleSet, JudgedSet]],
  logits: Mapping[str, Mapping[str, np.ndarray]],
  student: str,
  folder: str,
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
  """Metrics and worst queries of each set with something to rank.

  Args:
    sets: The sets by name.
    logits: By model, then set; the first model is the teacher, if one is.
    student: The model that is exported.
    folder: Gets TREC's files of test.

  Returns:
    {model: {set: {metric: {'value', 'interval'}}}}, the mean over queries; of others than the
    teacher also 'delta', 'delta_interval' and 'p_value'. Intervals are of 95%, by bootstrap over
    queries. And {set: counts of queries}, with 'worst' and 'trec' of test.
  """
  of_models: dict[str, dict[str, Any]] = {model: {} for model in logits}
  found: dict[str, Any] = {}
  for name, (records, judged) in sets.items():
    if judged.ranked is None:
      continue
    rows, candidates = judged.ranked
    metrics = list(dict.fromkeys([*judged.rankings, *ranking.SHOWN]))
    values = {model: judged.by_query(of[name], metrics) for model, of in logits.items()}
    for metric in metrics:
      compared = _compared({model: of[metric] for model, of in values.items()})
      for model, own in compared.items():
        of_models[model].setdefault(name, {})[metric] = own
    found[name] = _counts(candidates, len(np.unique(records.tuples().items[:, 0])))
    if name == 'test':
      shown = ({'teacher': 'teacher'} if 'teacher' in logits else {}) | {'student': student}
      scores = {label: logits[model][name][rows, 0] for label, model in shown.items()}
      first = {label: values[model][metrics[0]] for label, model in shown.items()}
      worst = _worst(records, rows, candidates, scores, first)
      found[name] |= {
        'trec': _write_trec(records, rows, candidates, scores, folder),
        'worst': {'metric': metrics[0], 'queries': worst},
      }
  return of_models, found


def _compared(values: ByModel) -> dict[str, dict[str, Any]]:
  """A metric's mean over queries by model, from values [q], as `of_sets` has it."""
  columns = ranking.resampled(list(values.values()))
  return significance.compared(dict(zip(values, columns, strict=True)))


def _counts(candidates: Candidates, queries: int) -> dict[str, int]:
  """Queries of a set: those ranked, their candidates, what is left out, what counts 0."""
  judged = candidates.judged
  return {
    'queries': judged.count,
    'candidates': len(judged.queries),
    'one_candidate': queries - judged.count,
    'none_relevant': int((judged.relevants == 0).sum()),
  }


def _worst(
  records: TupleSet,
  rows: np.ndarray,
  candidates: Candidates,
  scores: ByModel,
  values: ByModel,
) -> list[dict[str, Any]]:
  """Queries that the student ranks worse than the teacher by most; without one, ranks worst.

  Args:
    records: The set.
    rows: [c] the candidates' tuples.
    candidates: Queries and grades of these.
    scores: The models', [c].
    values: The metric's, [q].

  Returns:
    Queries: 'text', the metric by model, 'candidates', the best labels first ('text', 'label' and
    ranks by model), and how many 'more' there are than shown.
  """
  good = np.bincount(candidates.queries, candidates.grades > 0) > 0
  gaps = np.where(good, values.get('teacher', 1) - values['student'], 0)
  order = np.argsort(-gaps, kind='stable')[:_WORST]
  ranks = {}
  for model, of_model in scores.items():
    ranked, places = candidates.ranked(of_model)
    ranks[model] = np.empty(len(rows), np.int64)
    ranks[model][ranked] = places + 1
  found = []
  for query in (number for number in order if gaps[number] > 0):
    own = np.flatnonzero(candidates.queries == query)
    own = own[np.lexsort((ranks['student'][own], -candidates.grades[own]))]
    texts = records.texts(rows[own[:_TEXTS]])
    shown = [
      {
        'text': _shown(text[1]),
        'label': float(candidates.grades[i]),
        **{model: int(of[i]) for model, of in ranks.items()},
      }
      for text, i in zip(texts, own, strict=False)
    ]
    found.append(
      {
        'text': _shown(texts[0][0]),
        **{model: float(of[query]) for model, of in values.items()},
        'candidates': shown,
        'more': len(own) - len(shown),
      }
    )
  return found


def _shown(item: Item) -> str:
  return item if isinstance(item, str) else f'a vector of {len(item)} numbers'


def _write_trec(
  records: TupleSet, rows: np.ndarray, candidates: Candidates, scores: ByModel, folder: str
) -> dict[str, int]:
  """Writes `test.qrels` and a run a model, `test.<model>.run`, of the queries that are ranked.

  Returns:
    'grade_of_1', the factor from labels to whole grades, and 'relevant_from', the least grade of a
    relevant text: `trec_eval -l`.
  """
  pairs = records.tuples().items[rows]
  queries, texts = records.items(0).keys(), records.items(1).keys()
  scaled = ((n, candidates.grades * n) for n in _SCALES)
  scale = next((n for n, wide in scaled if np.allclose(wide, wide.round(), atol=1e-4)), 1000)
  grades = np.round(candidates.grades * scale).astype(int)
  judgements = zip(pairs[:, 0], pairs[:, 1], grades.tolist(), strict=True)
  trec.write_qrels(
    os.path.join(folder, 'test.qrels'), ((queries[q], texts[t], g) for q, t, g in judgements)
  )
  for model, of_model in scores.items():
    order, places = candidates.ranked(of_model)
    lists = np.split(order, np.flatnonzero(places == 0)[1:])
    trec.write_run(
      os.path.join(folder, f'test.{model}.run'),
      (queries[pairs[one[0], 0]] for one in lists),
      (([texts[t] for t in pairs[one, 1]], of_model[one].tolist()) for one in lists),
      model,
    )
  return {'grade_of_1': scale, 'relevant_from': -(-scale // 2)}
