"""Whose speed a row is."""

import pytest

from common.evaluation import speeds
from common.evaluation.results import Results


def _results(rows):
  models = [{'name': 'teacher'}, {'name': 'DSE (alpha = 0.5)'}]
  return Results('', 'dse', 'regression', 'pearson', models, speed=rows)


def _row(name, rate, **more):
  return {'name': name, 'pairs_per_second': rate, 'ratio': rate / 10, **more}


@pytest.mark.parametrize(
  ('title', 'models'),
  [
    ('Tower of two', ({'model': 'BERT-base'}, {'model': 'teacher'}, {'model': 'student'})),
    ('DSE', ({}, {}, {})),  # of an earlier run
  ],
)
def test_a_head_is_the_students_whatever_its_title(title, models):
  names = ('BERT-base cross-encoder, 128 tokens', 'teacher', f'{title} head, litert')
  rows = [_row(n, r, **of) for n, r, of in zip(names, (10, 20, 4000), models, strict=True)]
  results = _results(rows)
  assert speeds.by_model(results) == {'teacher': rows[1], 'DSE (alpha = 0.5)': rows[2]}
  assert speeds.heads(results) == rows[2:]
  assert speeds.multiples(results, rows[2]) == (200, 400)
