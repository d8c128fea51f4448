"""Calibration: a temperature by which a score of 0.7 is right 7 times in 10.

  score = sigmoid(z / T), or softmax(z / T) of classes (Guo et al., 2017, §4.2)

It rises strictly, so the order of scores stays.

Dimensions: n tuples, C classes.
"""

import math

import numpy as np
from scipy import optimize

from common.evaluation import metrics

NONE, TEMPERATURE = METHODS = ('none', 'temperature')
_MOST_LOG = math.log(100)  # T is between 0.01 and 100


def fit(task: str, labels: np.ndarray, logits: np.ndarray) -> float:
  """T with the least log loss of logits / T on valid, which has one minimum in 1 / T.

  Args:
    task: Kind of the labels: 'regression', 'binary' or 'multiclass'.
    labels: [n], as `metrics.evaluate` takes them.
    logits: [n, 1], or [n, C].
  """
  loss = metrics.METRICS[task]['log_loss']
  if task == 'multiclass':
    labels = labels.astype(np.int64)
  else:
    logits = logits[:, 0]
  if task == 'binary':
    labels = metrics.positives(labels).astype(np.float64)
  logits = logits.astype(np.float64)
  found = optimize.minimize_scalar(
    lambda log: loss(labels, logits / math.exp(log)),
    bounds=(-_MOST_LOG, _MOST_LOG),
    method='bounded',
  )
  return math.exp(found.x)
