"""Fitting a calibration: a temperature or an isotonic regression, on labels and logits of valid.

Dimensions: n tuples, C classes.
"""

import math

import numpy as np
from scipy import optimize
from scipy.special import expit

from common.errors import InputError
from common.evaluation import metrics
from common.modeling.calibration import Calibration

NONE, TEMPERATURE, ISOTONIC = METHODS = ('none', 'temperature', 'isotonic')
_MOST_LOG = math.log(100)  # T is between 0.01 and 100
_STEEPEST = 20.0  # lines between knots: what float32 rounds off grows by as much
_END = 1e-6  # least distance of a block from the scores' ends


def check(method: str, task: str) -> None:
  """Refuses a method that a task cannot have."""
  if method == ISOTONIC and task == 'multiclass':
    raise InputError(
      '--calibration=isotonic is of one output, and --task=multiclass has several: '
      '--calibration=temperature'
    )


def fit(method: str, task: str, labels: np.ndarray, logits: np.ndarray) -> Calibration:
  """The calibration of a model.

  Args:
    method: One of `METHODS`.
    task: What a label is: 'regression', 'binary' or 'multiclass'.
    labels: [n], as `metrics.evaluate` takes them.
    logits: [n, 1], or [n, C].
  """
  check(method, task)
  if task == 'binary':
    labels = metrics.positives(labels).astype(np.float64)
  if method == TEMPERATURE:
    return Calibration(temperature=temperature(task, labels, logits))
  if method == ISOTONIC:
    return Calibration(knots=isotonic(labels, expit(logits[:, 0].astype(np.float64))))
  return Calibration()


def temperature(task: str, labels: np.ndarray, logits: np.ndarray) -> float:
  """T of the least log loss of logits / T (Guo et al., 2017, §4.2), which has one minimum in 1 / T."""
  loss = metrics.METRICS[task]['log_loss']
  if task == 'multiclass':
    labels = labels.astype(np.int64)
  else:
    logits = logits[:, 0]
  logits = logits.astype(np.float64)
  found = optimize.minimize_scalar(
    lambda log: loss(labels, logits / math.exp(log)),
    bounds=(-_MOST_LOG, _MOST_LOG),
    method='bounded',
  )
  return math.exp(found.x)


def isotonic(labels: np.ndarray, scores: np.ndarray) -> list[tuple[float, float]]:
  """Knots of centred isotonic regression (Oron and Flournoy, 2017): it rises strictly.

  A block of isotonic regression becomes one knot: the mean of its scores, and of its labels. One
  positive more at the lowest score and one negative more at the highest keep these inside (0, 1).
  Neighbours with a line between them that is too steep for float32 become one block.

  Args:
    labels: [n] in [0, 1].
    scores: [n] in [0, 1].

  Returns:
    (score, calibrated score), rising in both, the first at 0, the last at 1.
  """
  scores = np.clip(np.append(scores, [scores.min(), scores.max()]), _END, 1 - _END)
  places, rows, counts = np.unique(scores, return_inverse=True, return_counts=True)
  means = np.bincount(rows, np.append(labels, [1, 0])) / counts
  fitted = optimize.isotonic_regression(means, weights=counts)
  starts = fitted.blocks[:-1]
  centres = np.add.reduceat(places * counts, starts) / fitted.weights
  blocks: list[tuple[float, float, float]] = []  # centre, value, weight
  for block in zip(centres, fitted.x[starts], fitted.weights, strict=True):
    blocks.append(block)
    while len(blocks) > 1 and not _rises(*blocks[-2:]):
      blocks.append(_pooled(blocks.pop(), blocks.pop()))
  (first, low, _), (last, high, _) = blocks[0], blocks[-1]
  ends = max(0.0, low - _STEEPEST * first), min(1.0, high + _STEEPEST * (1 - last))
  knots = [(0.0, ends[0]), *((place, value) for place, value, _ in blocks), (1.0, ends[1])]
  return [(float(place), float(value)) for place, value in knots]


def _rises(below: tuple[float, ...], above: tuple[float, ...]) -> bool:
  """Whether the line between two blocks rises, and not too steeply; in float32, as it is applied, too."""
  if not np.float32(above[0]) > np.float32(below[0]):
    return False
  return 0 < above[1] - below[1] <= _STEEPEST * (above[0] - below[0])


def _pooled(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, float, float]:
  place, value = np.average([one[:2], other[:2]], axis=0, weights=[one[2], other[2]])
  return place, value, one[2] + other[2]
