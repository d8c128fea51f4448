"""Rankings by a run's models: metrics, also by query length, the worst queries, TREC files."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from common.data import trec
from common.data.items import Item
from common.data.records import RecordSet
from common.distillation.judged_set import JudgedSet
from common.evaluation import ranking, significance

_WORST = 10  # queries shown
_TEXTS = 5  # candidates shown of each
_LENGTHS = 4  # groups of queries by their words, at the most
_SCALES = (1, 2, 3, 4, 5, 6, 10, 100, 1000)  # labels times one of these are TREC's whole grades


def compare(judged: JudgedSet, logits: Mapping[str, np.ndarray]) -> dict[str, dict[str, Any]]:
  """Metrics of ranking of each model, the mean over queries, and its change from the teacher.

  Args:
    judged: A set with something to rank.
    logits: By model; the first one is the teacher, if one is.

  Returns:
    {model: {metric: {'value', 'interval'}}}; of others than the teacher also 'delta',
    'delta_interval' and 'p_value'. Intervals are of 95%, by bootstrap over queries.
  """
  names = list(dict.fromkeys([*judged.rankings, *ranking.SHOWN]))
  values = {model: judged.by_query(z, names) for model, z in logits.items()}
  found: dict[str, dict[str, Any]] = {model: {} for model in logits}
  for name in names:
    of_models = _compared({model: of_model[name] for model, of_model in values.items()})
    for model, own in of_models.items():
      found[model][name] = own
  return found


def _compared(values: Mapping[str, np.ndarray]) -> dict[str, dict[str, Any]]:
  """A metric's mean over queries by model, from values [q], as `compare` has it; teacher first."""
  columns = ranking.resampled(list(values.values()))
  return significance.compared(dict(zip(values, columns, strict=True)))


def by_length(
  records: RecordSet, judged: JudgedSet, logits: Mapping[str, np.ndarray]
) -> dict[str, Any]:
  """The metric of queries of few words, of more, …: groups of about as many queries each.

  Returns:
    'metric' and 'groups', shortest queries first. Each group has 'words' (least and most of a
    query), 'queries' (how many) and, by model, a metric's entry of `compare`. There are no groups
    for vectors, or if all queries have one length.
  """
  assert judged.ranked is not None
  rows, candidates = judged.ranked
  metric = next(iter(judged.rankings), ranking.SHOWN[0])
  firsts = np.unique(candidates.queries, return_index=True)[1]
  texts = [item for item, *_ in records.texts(rows[firsts])]
  words = np.array([len(text.split()) if isinstance(text, str) else 0 for text in texts])
  borders = np.quantile(words, np.arange(1, _LENGTHS) / _LENGTHS, method='inverted_cdf')
  group = np.searchsorted(np.unique(borders), words)
  values = {model: judged.by_query(z, [metric])[metric] for model, z in logits.items()}
  groups: list[dict[str, Any]] = []
  for number in np.unique(group):
    own = group == number
    span = [int(words[own].min()), int(words[own].max())]
    found = _compared({model: of[own] for model, of in values.items()})
    groups.append({'words': span, 'queries': int(own.sum()), **found})
  return {'metric': metric, 'groups': groups if len(groups) > 1 else []}


def counts(judged: JudgedSet, queries: int) -> dict[str, int]:
  """Queries of a set: those ranked, their candidates, what is left out, what counts 0."""
  assert judged.ranked is not None
  of = judged.ranked[1].judged
  return {
    'queries': of.count,
    'candidates': len(of.queries),
    'one_candidate': queries - of.count,
    'none_relevant': int((of.relevants == 0).sum()),
  }


def worst(
  records: RecordSet, judged: JudgedSet, student: np.ndarray, teacher: np.ndarray | None
) -> dict[str, Any]:
  """Queries that the student ranks worse than the teacher by most; without one, ranks worst.

  Returns:
    'metric', 'more' (how many more candidates there are than shown is in each) and 'queries': each
    with 'text', 'student', 'teacher' and 'candidates', the best labels first: 'text', 'label' and
    ranks by model.
  """
  assert judged.ranked is not None
  rows, candidates = judged.ranked
  metric = next(iter(judged.rankings), ranking.SHOWN[0])
  models = {'student': student} | ({} if teacher is None else {'teacher': teacher})
  values = {name: judged.by_query(z, [metric])[metric] for name, z in models.items()}
  good = np.bincount(candidates.queries, candidates.grades > 0) > 0
  gaps = np.where(good, values.get('teacher', 1) - values['student'], 0)
  order = np.argsort(-gaps, kind='stable')[:_WORST]
  ranks = {}
  for name, z in models.items():
    ranked, places = candidates.ranked(z[rows, 0])
    ranks[name] = np.empty(len(rows), np.int64)
    ranks[name][ranked] = places + 1
  found = []
  for query in (number for number in order if gaps[number] > 0):
    own = np.flatnonzero(candidates.queries == query)
    own = own[np.lexsort((ranks['student'][own], -candidates.grades[own]))]
    texts = records.texts(rows[own[:_TEXTS]])
    shown = [
      {
        'text': _shown(text[1]),
        'label': float(candidates.grades[i]),
        **{name: int(of[i]) for name, of in ranks.items()},
      }
      for text, i in zip(texts, own, strict=False)
    ]
    values_here = {name: float(of[query]) for name, of in values.items()}
    found.append(
      {
        'text': _shown(texts[0][0]),
        **values_here,
        'candidates': shown,
        'more': len(own) - len(shown),
      }
    )
  return {'metric': metric, 'queries': found}


def _shown(item: Item) -> str:
  return item if isinstance(item, str) else f'a vector of {len(item)} numbers'


def write_trec(
  records: RecordSet, judged: JudgedSet, logits: Mapping[str, np.ndarray], folder: str
) -> dict[str, int]:
  """Writes `test.qrels` and a run a model, `test.<model>.run`, of the queries that are ranked.

  Returns:
    'grade_of_1', the factor from labels to whole grades, and 'relevant_from', the least grade of a
    relevant text: `trec_eval -l`.
  """
  assert judged.ranked is not None
  rows, candidates = judged.ranked
  pairs = records.tuples().items[rows]
  queries, texts = records.items(0).keys(), records.items(1).keys()
  scaled = ((n, candidates.grades * n) for n in _SCALES)
  scale = next((n for n, wide in scaled if np.allclose(wide, wide.round(), atol=1e-4)), 1000)
  grades = np.round(candidates.grades * scale).astype(int)
  judgements = zip(pairs[:, 0], pairs[:, 1], grades.tolist(), strict=True)
  trec.write_qrels(
    os.path.join(folder, 'test.qrels'), ((queries[q], texts[t], g) for q, t, g in judgements)
  )
  for model, z in logits.items():
    scores = z[rows, 0]
    order, places = candidates.ranked(scores)
    starts = np.flatnonzero(places == 0)
    lists = np.split(order, starts[1:])
    trec.write_run(
      os.path.join(folder, f'test.{model}.run'),
      (queries[pairs[one[0], 0]] for one in lists),
      (([texts[t] for t in pairs[one, 1]], scores[one].tolist()) for one in lists),
      model,
    )
  return {'grade_of_1': scale, 'relevant_from': -(-scale // 2)}


def of_sets(
  sets: Mapping[str, tuple[RecordSet, JudgedSet]],
  logits: Mapping[str, Mapping[str, np.ndarray]],
  student: str,
  folder: str,
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
  """Metrics, metrics by query length and worst queries of each set with something to rank.

  Args:
    sets: The sets by name.
    logits: By model, then set.
    student: The model that is exported.
    folder: Gets TREC's files of test.

  Returns:
    {model: {set: as of `compare`}}, and {set: as of `counts`}, with 'worst', 'by_length' and 'trec'
    of test.
  """
  of_models: dict[str, dict[str, Any]] = {model: {} for model in logits}
  found: dict[str, Any] = {}
  for name, (records, judged) in sets.items():
    if judged.ranked is None:
      continue
    here: dict[str, np.ndarray] = {model: of[name] for model, of in logits.items()}
    found[name] = counts(judged, len(np.unique(records.tuples().items[:, 0])))
    for model, values in compare(judged, here).items():
      of_models[model][name] = values
    if name == 'test':
      teacher = here.get('teacher')
      named = ({} if teacher is None else {'teacher': teacher}) | {'student': here[student]}
      found[name]['trec'] = write_trec(records, judged, named, folder)
      found[name]['worst'] = worst(records, judged, here[student], teacher)
      found[name]['by_length'] = by_length(records, judged, named)
  return of_models, found
