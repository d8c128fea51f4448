"""The paired bootstrap on cases whose answer is known."""

import math

import numpy as np
import pytest

from common.errors import InputError
from common.evaluation import metrics
from common.evaluation.significance import paired_bootstrap


def _accuracy(labels, scores):
  return np.mean(labels == scores)


def _rows(n: int = 300):
  random = np.random.default_rng(1)
  labels = random.random(n)
  return labels, labels + random.normal(0, 0.5, n), labels + random.normal(0, 0.1, n)


def test_a_plain_gain_is_significant_and_its_reverse_is_not():
  labels, worse, better = _rows()
  assert paired_bootstrap(metrics.pearson, labels, worse, better) < 0.01
  assert paired_bootstrap(metrics.pearson, labels, better, worse) == 1


def test_no_gap_is_no_gain():
  labels, a, _ = _rows()
  assert paired_bootstrap(metrics.pearson, labels, a, a) == 1


def test_by_the_binomial_distribution():
  # Four rows, b right where a is wrong on one: gap 1/4, and a resample's gap is k / 4 with
  # k ~ B(4, 1/4). P(k > 2) = 4 (1/4)^3 (3/4) + (1/4)^4 = 13 / 256.
  labels, a, b = np.ones(4), np.array([1, 1, 1, 0]), np.ones(4)
  p = paired_bootstrap(_accuracy, labels, a, b, samples=20_000)
  assert p == pytest.approx(13 / 256, abs=0.006)  # four standard errors


def test_the_seed_decides():
  labels, a, _ = _rows(40)
  b = a + np.random.default_rng(2).normal(0, 0.01, 40)
  a, b = sorted((a, b), key=lambda scores: metrics.pearson(labels, scores))
  first, again, other = (paired_bootstrap(metrics.pearson, labels, a, b, 200, s) for s in (3, 3, 4))
  assert first == again
  assert 0 < first < 1 and first != other


def test_an_undefined_resample_counts_against_the_gain():
  calls = []

  def metric(labels, scores):
    calls.append(scores)
    return float(scores[0]) if len(calls) <= 2 else math.nan

  assert paired_bootstrap(metric, np.ones(2), np.zeros(2), np.ones(2), samples=5) == 1


@pytest.mark.parametrize(
  'a, samples, message',
  [
    (np.zeros(2), 10, 'rows do not match: 3 labels, 2 of a, 3 of b'),
    (np.array([1, 2, 3]), 0, 'samples is 0'),
    (np.zeros(3), 10, 'is nan'),
  ],
)
def test_refusals(a, samples, message):
  with pytest.raises(InputError, match=message):
    paired_bootstrap(metrics.pearson, np.array([1, 2, 3]), a, np.array([1, 2, 4]), samples)
