"""Metrics against values worked out by hand."""

import math

import numpy as np
import pytest
import sklearn.metrics
from scipy import stats

from common.errors import InputError
from common.evaluation import metrics


def _logits(*scores: float) -> np.ndarray:
  return np.array([[math.log(p / (1 - p))] for p in scores])


@pytest.mark.parametrize(
  'task, primary', [('regression', 'pearson'), ('binary', 'auc_roc'), ('multiclass', 'accuracy')]
)
def test_the_primary_metric_leads(task, primary):
  labels, logits = np.array([0, 1]), np.eye(2) if task == 'multiclass' else np.array([[-1.0], [1]])
  assert metrics.primary_metric(task) == primary
  assert next(iter(metrics.evaluate(task, labels, logits))) == primary


def test_unknown_task_names_the_choices():
  with pytest.raises(InputError, match="'ranking' is not one of regression, binary, multiclass"):
    metrics.primary_metric('ranking')


def test_regression_takes_pearson_of_the_score():
  # 10 x - 2.5 = -1.5 -.5 .5 1.5; 10 y - 2.5 = -.5 -1.5 1.5 .5; their product is 4 * .75 = 3; 3 / 5.
  labels = np.array([0.1, 0.2, 0.3, 0.4])
  result = metrics.evaluate('regression', labels, _logits(0.2, 0.1, 0.4, 0.3))
  assert result['pearson'] == pytest.approx(0.6)
  assert result['spearman'] == pytest.approx(0.6)  # the ranks are 2 1 4 3


def test_spearman_survives_a_saturated_sigmoid():
  result = metrics.evaluate('regression', np.array([0, 0.5, 1]), np.array([[50.0], [60], [70]]))
  assert result['spearman'] == pytest.approx(1)


def test_log_loss_is_the_mean_of_equation_1():
  # -(log .8 + (.5 log .25 + .5 log .75)) / 2
  expected = -(math.log(0.8) + 0.5 * math.log(0.25) + 0.5 * math.log(0.75)) / 2
  labels = np.array([1, 0.5])
  found = metrics.METRICS['regression']['log_loss'](labels, _logits(0.8, 0.25)[:, 0])
  assert found == pytest.approx(expected)


def test_log_loss_stays_finite_where_the_probability_rounds():
  found = metrics.METRICS['binary']['log_loss'](np.array([0, 1]), np.array([1000.0, 1000.0]))
  assert found == pytest.approx(500)


def test_binary_by_hand():
  # Predicted 1 1 0 0 1 for 1 0 1 0 .5 (positive): 2 hits, 1 false, 1 missed; f1 = 4 / 6.
  logits = np.array([[2.0], [1], [-1], [-2], [0]])
  result = metrics.evaluate('binary', np.array([1, 0, 1, 0, 0.5]), logits)
  assert result['accuracy'] == pytest.approx(3 / 5)
  assert result['f1'] == pytest.approx(2 / 3)
  assert result['auc_roc'] == pytest.approx(4 / 6)  # 2 beats both, -1 and 0 beat one each


def test_multiclass_by_hand():
  # Predicted 0 1 1 for 0 1 2: f1 is 1, 2/3 and 0.
  logits = np.log([[0.5, 0.25, 0.25], [0.2, 0.6, 0.2], [0.1, 0.8, 0.1]])
  result = metrics.evaluate('multiclass', np.array([0, 1, 2]), logits)
  assert result['accuracy'] == pytest.approx(2 / 3)
  assert result['f1'] == pytest.approx(5 / 9)
  assert result['log_loss'] == pytest.approx(-math.log(0.5 * 0.6 * 0.1) / 3)


def test_constant_scores_are_nan_not_an_error():
  result = metrics.evaluate('regression', np.array([0, 0.5, 1]), np.zeros((3, 1)))
  assert math.isnan(result['pearson']) and math.isnan(result['spearman'])
  assert result['log_loss'] == pytest.approx(math.log(2))
  binary = metrics.evaluate('binary', np.array([0, 1]), np.zeros((2, 1)))
  assert binary['auc_roc'] == pytest.approx(0.5)


@pytest.mark.parametrize(
  'task, labels, logits, message',
  [
    ('binary', [1, 1], [[0], [1]], 'both classes; all 2 labels'),
    ('regression', [0.5, 0.5], [[0], [1]], 'labels that differ; all are 0.5'),
    ('regression', [0, 3], [[0], [1]], r'label 3 of row 1 is not in \[0, 1\]'),
    ('multiclass', [0, 2], [[0, 1], [1, 0]], 'label 2 of row 1 is not a class from 0 to 1'),
    ('multiclass', [0, 0.5], [[0, 1], [1, 0]], 'label 0.5 of row 1'),
    ('multiclass', [0, 0], [[0], [1]], 'wrong number of outputs for multiclass'),
    ('binary', [0, 1], [[0, 1], [1, 0]], 'wrong number of outputs for binary'),
    ('binary', [0, 1], [0, 1], r'labels \[2\], logits \[2\] should be'),
    ('binary', [0, 1, 1], [[0], [1]], r'labels \[3\], logits \[2, 1\] should be'),
    ('binary', [], np.zeros((0, 1)), 'n at least 1'),
    ('binary', [0, 1], [[0], [math.nan]], '1 of 2 logits are not finite'),
  ],
)
def test_wrong_data_are_refused(task, labels, logits, message):
  with pytest.raises(InputError, match=message):
    metrics.evaluate(task, np.array(labels), np.array(logits))


def test_delta_as_in_table_2():
  assert metrics.delta(0.731, 0.757) == pytest.approx(-0.0343, abs=1e-4)  # the paper's -3.4%
  assert math.isnan(metrics.delta(0.5, 0.0))
  assert metrics.delta(0.1, -0.1) == 2 and metrics.delta(-0.2, -0.1) == -1  # better, worse


def test_metrics_of_equal_and_absent_values_are_those_of_other_libraries():
  random, pairs = (
    np.random.default_rng(0),
    {**metrics.METRICS['regression'], **metrics.METRICS['binary']},
  )
  for _ in range(20):
    labels, logits = random.integers(0, 5, 50) / 4, np.round(random.normal(size=50), 1)
    rank = stats.spearmanr(labels, logits)[0]
    assert pairs['spearman'](labels, logits) == pytest.approx(rank)
    auc = sklearn.metrics.roc_auc_score(labels >= 0.5, logits)
    assert pairs['auc_roc'](labels, logits) == pytest.approx(auc)
    precision = sklearn.metrics.average_precision_score(labels >= 0.5, logits)
    assert pairs['average_precision'](labels, logits) == pytest.approx(precision)
    for classes, average in ((2, 'binary'), (3, 'macro'), (9, 'macro')):
      truth, found = random.integers(0, classes - 1, 12), random.normal(size=[12, classes])
      of = sklearn.metrics.f1_score(truth, found.argmax(1), average=average, zero_division=0)
      assert metrics.METRICS['multiclass']['f1'](truth, found) == pytest.approx(of)
