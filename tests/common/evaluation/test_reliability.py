"""Reliability of scores and thresholds, worked out by hand."""

import numpy as np
import pytest
from scipy.special import logit

from common.evaluation import reliability

SCORES = np.array([0.12, 0.18, 0.65, 0.68, 0.72, 0.97, 1 - 1e-12])


def test_the_calibration_error_of_seven_pairs():
  """Of 7: two in 0.1 to 0.2, |1/2 - 0.15|; two in 0.6 to 0.7, |1 - 0.665|; one of 0.72, negative;
  two from 0.9 up, |1/2 - 0.985|. (2 x 0.35 + 2 x 0.335 + 0.72 + 2 x 0.485) / 7."""
  labels = np.array([0, 1, 1, 1, 0, 1, 0.2])
  found = reliability.of_logits('binary', labels, logit(SCORES)[:, None])
  assert found['ece'] == pytest.approx((0.7 + 0.67 + 0.72 + 0.97) / 7)
  bins = [(row['from'], row['to'], row['count'], row['outcome']) for row in found['bins']]
  assert bins == [(0.1, 0.2, 2, 0.5), (0.6, 0.7, 2, 1), (0.7, 0.8, 1, 0), (0.9, 1.0, 2, 0.5)]
  assert found['bins'][0]['score'] == pytest.approx(0.15)
  asked = found['asked']  # 0.65, 0.68 and 0.72
  assert (asked['from'], asked['to'], asked['count']) == (0.65, 0.75, 3)
  assert asked['outcome'] == pytest.approx(2 / 3)


def test_a_regressions_bins_have_mean_labels():
  labels = np.array([0, 0.4, 0.5, 0.7, 0.3, 0.9, 1])
  found = reliability.of_logits('regression', labels, logit(SCORES)[:, None])
  assert [row['outcome'] for row in found['bins']] == pytest.approx([0.2, 0.6, 0.3, 0.95])


def test_classes_have_the_likeliest_ones_score_and_whether_it_is_right():
  chances = np.array([[0.71, 0.19, 0.1], [0.1, 0.72, 0.18], [0.3, 0.3, 0.4]])
  found = reliability.of_logits('multiclass', np.array([0, 2, 2]), np.log(chances))
  counts = [(row['from'], row['count'], row['outcome']) for row in found['bins']]
  assert counts == [(0.4, 1, 1), (0.7, 2, 0.5)]
  assert found['ece'] == pytest.approx((abs(1 - 0.4) + 2 * abs(0.5 - 0.715)) / 3)


def test_where_nothing_is_scored_there_is_no_outcome():
  found = reliability.of_logits('binary', np.array([0, 1]), np.array([[0.0], [0.0]]))
  assert (found['asked']['count'], found['asked']['outcome']) == (0, None)


def test_thresholds_and_the_one_that_valid_chooses():
  """Valid's F1 is best at 0.6: its 3 of 4 positives among 4. On test from 0.6: 2 of 3, all 2."""
  valid = np.array([1, 0, 1, 0, 1, 1, 0]), np.array([0.05, 0.5, 0.6, 0.65, 0.75, 0.8, 0.2])
  test = np.array([0, 1, 1, 0]), np.array([0.2, 0.62, 0.71, 0.75])
  as_logits = [(labels, logit(scores)[:, None]) for labels, scores in (test, valid)]
  rows = reliability.thresholds(*as_logits)
  assert [row['best_on_valid'] for row in rows] == [False] * 5 + [True]
  assert [row['threshold'] for row in rows] == [0.1, 0.3, 0.5, 0.7, 0.9, pytest.approx(0.6)]
  by_hand = [
    (4, 1 / 2, 1, 2 / 3),
    (3, 2 / 3, 1, 4 / 5),
    (3, 2 / 3, 1, 4 / 5),
    (2, 1 / 2, 1 / 2, 1 / 2),
    (0, None, 0, 0),
    (3, 2 / 3, 1, 4 / 5),
  ]
  for row, expected in zip(rows, by_hand, strict=True):
    found = [row[name] for name in ('count', 'precision', 'recall', 'f1')]
    assert found == [None if value is None else pytest.approx(value) for value in expected]
