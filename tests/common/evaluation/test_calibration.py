"""Calibrations: the temperature of logits that were multiplied by it, and its map of scores."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit, softmax

from common.evaluation import calibration
from common.modeling.calibration import Calibration


@pytest.mark.parametrize('known', [0.25, 1.0, 3.0])
def test_the_temperature_of_logits_that_were_multiplied_by_it_is_found(known):
  """Labels are the chances themselves: their log loss is least at the logits they are made of."""
  logits = np.linspace(-3, 3, 61)[:, None]
  labels = expit(logits[:, 0])
  found = calibration.fit('regression', labels, logits * known)
  assert found.temperature == pytest.approx(known, 1e-4)


def test_the_temperature_of_classes_is_found():
  """Each of 40 logit rows stands once a class and label, as often as softmax says of 1,000."""
  logits = np.random.default_rng(0).normal(size=(40, 3))
  counts = np.round(1000 * softmax(logits, axis=1)).astype(int)
  rows = [(i, c) for i in range(40) for c in range(3) for _ in range(counts[i, c])]
  numbers, labels = np.array(rows).T
  found = calibration.fit('multiclass', labels.astype(float), 2 * logits[numbers])
  assert found.temperature == pytest.approx(2, rel=1e-2)


@pytest.mark.parametrize('temperature', [1.0, 2.0])
def test_the_graph_and_the_logits_hold_the_same_map(temperature):
  made = Calibration(temperature)
  logits = np.array([[-40.0], [-2.0], [0.3], [1.7], [40.0]], np.float32)
  expected = expit(logits / temperature)
  np.testing.assert_allclose(made.scores(tf.constant(logits)).numpy(), expected, atol=1e-6)
  np.testing.assert_allclose(expit(made.logits(logits)), expected, atol=1e-6)
