"""The synthetic catalog: relevance by hand on the paper's example, splits by their contract."""

import dataclasses
import hashlib
import itertools
import json

import pytest

from common.data import catalog
from common.errors import InputError

SHOES = catalog.Product(
  'Black Sport Nike Shoes for Boys Size Wide',
  {
    'kind': 'shoes',
    'brand': 'nike',
    'color': 'black',
    'style': 'sport',
    'audience': 'boys',
    'size': 'wide',
  },
)


@pytest.fixture(scope='module')
def rows() -> dict[str, list[catalog.Pair]]:
  return catalog.splits()


def products(pairs: list[catalog.Pair]) -> set[str]:
  return {pair.product for pair in pairs}


@pytest.mark.parametrize('term', ['black', 'wide footwear', 'nike shoes', 'kids shoes', 'Onyx'])
def test_relevance_is_high_where_each_facet_is_met(term):
  assert catalog.relevance(term, SHOES) >= 0.5


@pytest.mark.parametrize(
  'term', ['red', 'red nike shoes', 'narrow shoes', 'queen blanket', 'size', 'dog food', 'redwood']
)
def test_relevance_is_low_where_a_facet_is_contradicted_bare_or_off_topic(term):
  assert catalog.relevance(term, SHOES) <= 0.25


@pytest.mark.parametrize(
  ('term', 'expected'),
  [
    ('black', 0.72),
    ('wide footwear', (1 - 0.18 * (1 - 0.9 * 0.85)) * (0.05 + 0.95 * 0.85)),
    ('red shoes', 0.9 * 0.2),
    ('leather', 0.75 * 0.15 * (0.25 + 0.75 * 0.15)),
    ('size', 0.15),
  ],
)
def test_relevance_is_the_formula_worked_out_by_hand(term, expected):
  assert catalog.relevance(term, SHOES) == pytest.approx(expected)


def test_a_value_in_the_description_or_in_passing_counts_for_less():
  boots = {'kind': 'boots', 'color': 'black'}
  passing = catalog.Product('Boots.', boots, frozenset({'color'}), {('color', 'red'): 0.35})
  black, red, pink = (catalog.relevance(term, passing) for term in ('black', 'red', 'pink'))
  assert (black, pink) == (pytest.approx(0.72 * 0.8 * (0.2 + 0.8 * 0.8)), 0.0)
  assert red == pytest.approx(0.72 * 0.35 * (0.2 + 0.8 * 0.35))


def test_a_seed_gives_the_same_rows_everywhere(rows):
  text = json.dumps({split: list(map(dataclasses.astuple, of)) for split, of in rows.items()})
  digest = '4f58dd4d62bf447ca151020a0c210eead6e3bee9a584d1f1774430fc36f0d087'
  assert hashlib.sha256(text.encode()).hexdigest() == digest  # runs are compared across versions
  other = catalog.splits(seed=8, train=0, valid=0, distillation=0)['test']
  assert other != rows['test']
  assert rows['test'][0] == catalog.Pair(
    'test-000000',
    'faux leather',
    'Tangerine Adidas Shoes For Women. Style: everyday. Size: roomy. Material: leather. '
    'Contains no canvas. Looks great and you will love it every day.',
    1 / 12,
  )


def test_valid_and_test_keep_their_rows_when_the_others_grow(rows):
  smaller = catalog.splits(train=90, distillation=512)
  assert (smaller['valid'], smaller['test']) == (rows['valid'], rows['test'])


def test_sizes_are_exact_and_ids_unique(rows):
  sizes = {split: len(pairs) for split, pairs in rows.items()}
  assert sizes == {'train': 8000, 'valid': 1000, 'test': 2000, 'distillation': 79 * 512}
  ids = [pair.id for pairs in rows.values() for pair in pairs]
  assert len(set(ids)) == len(ids)


def test_no_product_is_in_two_rated_splits_and_distillation_knows_trains_alone(rows):
  for one, other in itertools.combinations(('train', 'valid', 'test'), 2):
    assert not products(rows[one]) & products(rows[other])
  distilled = products(rows['distillation'])
  assert not distilled & (products(rows['valid']) | products(rows['test']))
  assert 0 < len(distilled & products(rows['train'])) < len(distilled) / 2


def test_ratings_are_means_of_three_quarter_grades_and_spread_over_the_range(rows):
  twelfths = [pair.relevance * 12 for split in ('train', 'valid', 'test') for pair in rows[split]]
  assert all(0 <= value <= 12 and abs(value - round(value)) < 1e-9 for value in twelfths)
  bins = [sum(low <= value < low + 3 for value in twelfths) for low in (0, 3, 6, 9)]
  bins[-1] += sum(round(value) == 12 for value in twelfths)
  assert all(0.1 < count / len(twelfths) < 0.5 for count in bins)


def test_empty_splits_are_empty_and_negative_sizes_refused():
  assert catalog.splits(train=0, valid=0, test=0, distillation=0) == {
    'train': [],
    'valid': [],
    'test': [],
    'distillation': [],
  }
  with pytest.raises(InputError, match='-1'):
    catalog.splits(valid=-1)
