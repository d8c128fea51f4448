"""Ranking metrics: against ir_measures (trec_eval), and worked out by hand."""

import math

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, RR, P, R, nDCG

from common.errors import InputError
from common.evaluation import ranking, significance

MEASURES = {
  'ndcg@10': nDCG @ 10,
  'ndcg@3': nDCG @ 3,
  'mrr@100': RR,
  'map': AP,
  'recall@10': R @ 10,
  'precision@10': P @ 10,
  'precision@1': P @ 1,
}


def test_every_query_is_as_trec_eval_has_it():
  """On graded judgements with ties, texts that were not found, and queries without a good one."""
  random = np.random.default_rng(0)
  qrels, run, rows = [], [], []
  for query in range(60):
    judged = {f'd{i}': int(random.integers(-1, 4)) for i in range(random.integers(1, 25))}
    if query % 7 == 0:
      judged = dict.fromkeys(judged, 0)
    qrels += [ir_measures.Qrel(f'q{query}', key, grade) for key, grade in judged.items()]
    found = random.choice(30, random.integers(2, 25), replace=False)
    for key in (f'd{i}' for i in found):
      score = float(np.float32(random.integers(0, 8) / 7))
      run.append(ir_measures.ScoredDoc(f'q{query}', key, score))
      rows.append((query, key, judged.get(key, 0), score))
  numbers, keys, grades, scores = (np.array(column) for column in zip(*rows, strict=True))
  every = [(int(r.query_id[1:]), r.relevance) for r in qrels]
  of, given = (np.array(column) for column in zip(*every, strict=True))
  ties = np.unique(keys, return_inverse=True)[1]
  judged = ranking.Judged(of, given.astype(float), given >= 1, 60)
  ranked = ranking.Candidates(numbers, ties, grades.astype(float), grades >= 1, judged)
  ours = ranked.evaluate(scores, list(MEASURES))
  names = {str(measure): name for name, measure in MEASURES.items()}
  theirs = {name: np.full(60, np.nan) for name in MEASURES}
  for value in ir_measures.iter_calc(list(MEASURES.values()), qrels, run):
    theirs[names[str(value.measure)]][int(value.query_id[1:])] = value.value
  for name in MEASURES:
    np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-12, err_msg=name)
  cut = np.where(theirs['mrr@100'] >= 1 / 2, theirs['mrr@100'], 0)  # trec_eval's has no cut
  np.testing.assert_array_equal(ranked.evaluate(scores, ['mrr@2'])['mrr@2'], cut)


def test_a_labelled_set_by_hand():
  """Query 4 has three candidates, one of them twice; 7 has one alone; 9 has no good one."""
  queries = np.array([4, 7, 4, 9, 4, 9, 4])
  texts = np.array([0, 0, 1, 1, 2, 2, 1])
  labels = np.array([1.0, 1, 0, 0, 0.5, 0, 1])
  rows, found = ranking.of_pairs(queries, texts, labels, np.arange(3))
  assert rows.tolist() == [0, 2, 4, 3, 5]
  scores = np.array([0.2, 0.9, 0.2, 0.1, 0.1])  # text 1, then 2 (the higher id), then 0
  assert found.ranked(scores)[0].tolist() == [1, 2, 0, 4, 3]
  values = found.evaluate(scores, ['ndcg@2', 'mrr@10', 'mrr@1', 'map', 'recall@2', 'precision@5'])
  log3 = math.log2(3)
  assert {name: of.tolist() for name, of in values.items()} == {
    'ndcg@2': pytest.approx([(0.5 / log3) / (1 + 0.5 / log3), 0]),  # grades 0, 0.5, 1
    'mrr@10': [0.5, 0],
    'mrr@1': [0, 0],
    'map': pytest.approx([(1 / 2 + 2 / 3) / 2, 0]),
    'recall@2': [0.5, 0],
    'precision@5': [0.4, 0],
  }


def test_the_bootstrap_draws_queries():
  teacher, student = np.array([1.0, 0.5, 1.0, 0.5]), np.array([0.5, 0.25, 0.5, 0.25])
  columns = ranking.resampled([teacher, student])
  assert columns[:, 0].tolist() == [0.75, 0.375]
  assert set(columns[0]) == {0.5, 0.625, 0.75, 0.875, 1.0}  # means of four queries
  assert significance.difference(*columns)[:3] == (-0.5, -0.5, -0.5)  # paired: half, whatever drawn


def test_no_several_candidates_and_no_such_metric():
  assert ranking.of_pairs(np.arange(3), np.arange(3), np.ones(3), np.arange(3)) is None
  _, one = ranking.of_pairs(np.zeros(2), np.arange(2), np.ones(2), np.arange(2))
  with pytest.raises(InputError, match=r"'ndcg' is no metric of ranking: ndcg@K, .*, precision@K"):
    one.evaluate(np.ones(2), ['ndcg'])
  assert not ranking.is_metric('mrr@0') and ranking.is_metric('map')
