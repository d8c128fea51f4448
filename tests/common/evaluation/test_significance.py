"""The paired bootstrap on cases whose answer is known."""

import math

import numpy as np
import pytest

from common.errors import InputError
from common.evaluation import metrics
from common.evaluation.significance import difference, resampled


def _accuracy(labels, scores):
  return np.mean(labels == scores)


def _difference(metric_fn, labels, a, b, **options):
  return difference(*resampled(metric_fn, labels, [a, b], **options).T)


def _rows(n: int = 300):
  random = np.random.default_rng(1)
  labels = random.random(n)
  return labels, labels + random.normal(0, 0.5, n), labels + random.normal(0, 0.1, n)


def test_a_plain_gain_is_significant_and_so_is_its_reverse():
  labels, worse, better = _rows()
  gain, loss = (
    _difference(metrics.pearson, labels, *pair) for pair in ((worse, better), (better, worse))
  )
  assert gain.p_value == loss.p_value == 0
  expected = metrics.delta(metrics.pearson(labels, better), metrics.pearson(labels, worse))
  assert gain.delta == pytest.approx(expected)
  assert 0 < gain.low < gain.delta < gain.high and loss.high < 0


def test_no_gap_is_no_gain():
  labels, a, _ = _rows()
  assert _difference(metrics.pearson, labels, a, a, samples=50) == (0, 0, 0, 1)


def test_by_the_binomial_distribution():
  # Four rows, b right where a is wrong on one: gap 1/4, and a resample's gap is k / 4 with
  # k ~ B(4, 1/4). |k - 1| >= 1 unless k = 1: 1 - 4 (1/4) (3/4)^3 = 37 / 64.
  labels, a, b = np.ones(4), np.array([1, 1, 1, 0]), np.ones(4)
  found = _difference(_accuracy, labels, a, b, samples=20_000)
  assert found.p_value == pytest.approx(37 / 64, abs=0.014)  # four standard errors
  # Delta of a resample is k / (4 - k): P(k = 0) = 0.32, P(k >= 3) = 13 / 256 = 0.051.
  assert (found.delta, found.low, found.high) == pytest.approx((1 / 3, 0, 3))


def test_the_seed_decides():
  labels, a, _ = _rows(40)
  b = a + np.random.default_rng(2).normal(0, 0.01, 40)
  first, again, other = (
    _difference(metrics.pearson, labels, a, b, samples=200, seed=s) for s in (3, 3, 4)
  )
  assert first == again != other and 0 < first.p_value < 1


def test_rows_of_a_group_are_drawn_together():
  labels, a, b = _rows(30)
  twice = [np.tile(values, 2) for values in (labels, a, b)]
  groups = np.tile(np.arange(30)[::-1], 2)
  singly = resampled(metrics.pearson, labels, [a, b], samples=50)
  together = resampled(metrics.pearson, twice[0], twice[1:], groups, samples=50)
  np.testing.assert_allclose(together, singly, rtol=1e-12)  # a row twice says no more than once
  of_one = resampled(metrics.pearson, labels, [a, b], np.zeros(30), samples=50)
  np.testing.assert_array_equal(of_one, singly)


def test_a_resample_without_a_metric_counts_as_a_large_difference():
  labels, a, b = np.array([0, 1]), np.array([1.0, 0.0]), np.array([0.0, 1.0])
  auc_roc = metrics.METRICS['binary']['auc_roc']
  found = _difference(auc_roc, labels, a, b, samples=2000)  # half of them of one class
  assert found.p_value == pytest.approx(0.5, abs=0.05)
  assert math.isnan(found.delta)  # the baseline's AUC is 0


@pytest.mark.parametrize(
  'a, samples, message',
  [
    (np.zeros(2), 10, 'rows do not match: 3 labels, 2, 3 scores'),
    (np.array([1, 2, 3]), 0, 'samples is 0'),
  ],
)
def test_refusals(a, samples, message):
  with pytest.raises(InputError, match=message):
    resampled(metrics.pearson, np.array([1, 2, 3]), [a, np.array([1, 2, 4])], samples=samples)
