"""Reliability of scores: outcomes of tuples with similar scores; and thresholds.

A binary task's score is the chance of a positive label (0.5 and more). A regression's score is the
mean of the labels, which are in [0, 1]. A multiclass score is the chance that the likeliest class
is right.

Dimensions: n tuples, C classes.
"""

from typing import Any

import numpy as np
from scipy.special import expit, softmax

from common.evaluation import metrics

BINS = 10
THRESHOLDS = (0.1, 0.3, 0.5, 0.7, 0.9)
_ASKED, _AROUND = 0.7, 0.05  # 'what does 0.7 mean': what came of 0.65 to 0.75


def of_logits(task: str, labels: np.ndarray, logits: np.ndarray) -> dict[str, Any]:
  """Expected calibration error, and outcomes of the tuples by bin of their score.

    ECE = sum over bins b of n_b / n |mean outcome of b - mean score of b|

  (Guo et al., 2017, Eq. 3).

  Args:
    task: 'regression', 'binary' or 'multiclass'.
    labels: [n], as `metrics.evaluate` takes them.
    logits: [n, 1], or [n, C].

  Returns:
    {'ece', 'bins': rows of the ten bins that are not empty, 'asked': the row of scores around 0.7}.
    A row is {'from', 'to', 'count', 'score', 'outcome'}; score and outcome are means, None if the
    count is 0.
  """
  scores, outcomes = scores_of(logits), labels.astype(np.float64)
  if task == 'multiclass':
    outcomes = (logits.argmax(1) == labels).astype(np.float64)
  elif task == 'binary':
    outcomes = metrics.positives(labels).astype(np.float64)
  numbers = np.digitize(scores, np.arange(1, BINS) / BINS)
  bins = [
    _row(number / BINS, (number + 1) / BINS, scores, outcomes, numbers == number)
    for number in np.unique(numbers).tolist()
  ]
  low, high = round(_ASKED - _AROUND, 6), round(_ASKED + _AROUND, 6)
  return {
    'ece': sum(row['count'] * abs(row['outcome'] - row['score']) for row in bins) / len(scores),
    'bins': bins,
    'asked': _row(low, high, scores, outcomes, (scores >= low) & (scores < high)),
  }


def thresholds(
  test: tuple[np.ndarray, np.ndarray], valid: tuple[np.ndarray, np.ndarray] | None = None
) -> list[dict[str, Any]]:
  """Quality of a binary task's tuples with at least a threshold's score, a row per threshold.

  Args:
    test: Labels [n], positive from 0.5 up, and logits [n, 1], of the set that is judged.
    valid: The same of a set that chooses one more threshold: that of its best F1.

  Returns:
    [{'threshold', 'best_on_valid', 'count', 'precision', 'recall', 'f1'}]; precision is None where
    the count is 0.
  """
  positive, scores = metrics.positives(test[0]), scores_of(test[1])
  best = [] if valid is None else [_best_threshold(*valid)]
  rows = []
  for number, threshold in enumerate((*THRESHOLDS, *best)):
    found = scores >= threshold
    right, count = int((positive & found).sum()), int(found.sum())
    rows.append(
      {
        'threshold': threshold,
        'best_on_valid': number == len(THRESHOLDS),
        'count': count,
        'precision': right / count if count else None,
        'recall': right / int(positive.sum()),
        'f1': metrics.f1(positive, found),
      }
    )
  return rows


def _best_threshold(labels: np.ndarray, logits: np.ndarray) -> float:
  """The threshold of the best F1."""
  from sklearn.metrics import precision_recall_curve  # of a run's valid set alone

  precision, recall, places = precision_recall_curve(metrics.positives(labels), scores_of(logits))
  both = np.maximum(precision + recall, 1e-12)[:-1]  # the last point has no threshold
  return float(places[np.argmax((precision * recall)[:-1] / both)])


def scores_of(logits: np.ndarray) -> np.ndarray:
  """[n] float64: the score of one output, or of the likeliest class."""
  logits = logits.astype(np.float64)
  return expit(logits[:, 0]) if logits.shape[1] == 1 else softmax(logits, axis=1).max(1)


def _row(
  low: float, high: float, scores: np.ndarray, outcomes: np.ndarray, of: np.ndarray
) -> dict[str, Any]:
  count = int(of.sum())
  means = [float(values[of].mean()) if count else None for values in (scores, outcomes)]
  return {'from': low, 'to': high, 'count': count, 'score': means[0], 'outcome': means[1]}
