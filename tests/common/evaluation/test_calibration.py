"""Calibration: the temperature of logits that were multiplied by it."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from common.evaluation import calibration


@pytest.mark.parametrize('known', [0.25, 1.0, 3.0])
def test_the_temperature_of_logits_that_were_multiplied_by_it_is_found(known):
  """Labels are the chances themselves: their log loss is least at the logits they are made of."""
  logits = np.linspace(-3, 3, 61)[:, None]
  labels = expit(logits[:, 0])
  found = calibration.fit('regression', labels, logits * known)
  assert found == pytest.approx(known, 1e-4)


def test_the_temperature_of_classes_is_found():
  """Each of 40 logit rows stands once a class and label, as often as softmax says of 1,000."""
  logits = np.random.default_rng(0).normal(size=(40, 3))
  counts = np.round(1000 * softmax(logits, axis=1)).astype(int)
  rows = [(i, c) for i in range(40) for c in range(3) for _ in range(counts[i, c])]
  numbers, labels = np.array(rows).T
  found = calibration.fit('multiclass', labels.astype(float), 2 * logits[numbers])
  assert found == pytest.approx(2, rel=1e-2)
