"""Length buckets, worked out by hand."""

import numpy as np
import pytest

from common.data import batching


def test_buckets_ascend():
  assert list(batching.BUCKETS) == sorted(set(batching.BUCKETS))


@pytest.mark.parametrize(
  ('max_length', 'bucketed', 'expected'),
  [
    (20, True, (8, 12, 16, 20)),
    (16, True, (8, 12, 16)),
    (8, True, (8,)),
    (5, True, (5,)),
    (600, True, (8, 12, 16, 24, 600)),
    (20, False, (20,)),
  ],
)
def test_bucket_lengths(max_length, bucketed, expected, monkeypatch):
  monkeypatch.setattr(batching, 'BUCKETS', (8, 12, 16, 24))
  assert batching.bucket_lengths(max_length, bucketed) == expected


@pytest.mark.parametrize(
  ('max_length', 'expected'),
  [(16, (16,)), (48, (16, 32, 48)), (64, (16, 32, 48, 64)), (100, (32, 64, 96, 100)), (5, (5,))],
)
def test_few_buckets_are_four_at_the_most(max_length, expected):
  assert batching.few_bucket_lengths(max_length) == expected


def test_length_sorted_by_hand():
  batches = [tuple(map(list, of)) for of in batching.length_sorted(['a', 'bbb', '', 'c', 'ddd'], 2)]
  assert batches == [([1, 4], ['bbb', 'ddd']), ([0, 3], ['a', 'c']), ([2], [''])]


@pytest.mark.parametrize('batch_size', [1, 7, 100])
def test_length_sorted_takes_each_row_once_longest_first(batch_size):
  lengths = np.random.default_rng(0).integers(0, 20, 50)
  texts = ['x' * length for length in lengths]
  order = np.concatenate([rows for rows, _ in batching.length_sorted(texts, batch_size)])
  assert sorted(order) == list(range(50))
  assert (np.diff(lengths[order]) <= 0).all()


def test_length_sorted_without_rows():
  assert list(batching.length_sorted([], 4)) == []
