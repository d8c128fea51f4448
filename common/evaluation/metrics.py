"""Quality of logits against labels, for the three kinds of task; and the paper's Delta.

`METRICS` lists each task's metrics; `evaluate` takes logits, before any activation. Data that make
a metric impossible (one class only, constant labels, a label out of range) are refused. An
untrained model's constant scores give nan, so that an early evaluation does not end a run.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy.special import expit, logsumexp

from common.errors import InputError


def primary_metric(task: str) -> str:
  """The metric that decides which checkpoint of a `task` is best; more is better in each."""
  if task not in METRICS:
    raise InputError(f'task {task!r} is not one of {", ".join(METRICS)}')
  return next(iter(METRICS[task]))


def evaluate(task: str, labels: np.ndarray, logits: np.ndarray) -> dict[str, float]:
  """Values of a task's metrics, the primary one first.

  Args:
    task: One of `METRICS`. A multiclass f1 is the macro average over the classes seen in labels or
      predictions; of two classes it is the second's, as GLUE reports it.
    labels: [n], in [0, 1] for regression and binary (positive from 0.5 up), else classes from 0.
    logits: [n, 1], or [n, classes] for multiclass, before activation. A pair's score is
      sigmoid(logit): Pearson is of the score, not of the logit; it predicts positive from 0.5 up.

  Returns:
    {metric: value}; pearson and spearman are nan where the scores are constant.

  Raises:
    InputError: the shapes do not fit, a value is not finite or out of range, the labels are
      constant (regression) or of one class (binary).

  >>> evaluate('binary', np.array([0, 1]), np.array([[-2.0], [3.0]]))['auc_roc']
  1.0
  """
  primary_metric(task)  # refuses an unknown task
  labels = np.asarray(labels, np.float64)
  logits = np.asarray(logits, np.float64)
  _check(task, labels, logits)
  if task == 'multiclass':
    labels = labels.astype(np.int64)
  else:
    logits = logits[:, 0]
  return {name: metric(labels, logits) for name, metric in METRICS[task].items()}


def pearson(labels: np.ndarray, scores: np.ndarray) -> float:
  """Pearson correlation of two [n] arrays; nan where one is constant."""
  if np.ptp(labels) == 0 or np.ptp(scores) == 0:
    return float('nan')
  x = labels - np.mean(labels, dtype=np.float64)
  y = scores - np.mean(scores, dtype=np.float64)
  return float(np.clip(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)), -1, 1))


def positives(labels: np.ndarray) -> np.ndarray:
  """Mask of a binary task's positive labels, [n] bool: 0.5 and more."""
  return np.asarray(labels) >= 0.5


def delta(student: float, teacher: float) -> float:
  """Relative change from the teacher, (s - t) / |t|: the Delta of the paper's Tables 2 and 3.

  The paper's t is positive. A better student is above 0 for a negative t too; nan if t is 0.

  >>> round(delta(0.731, 0.757), 3)
  -0.034
  """
  return (student - teacher) / abs(teacher) if teacher else float('nan')


Rows = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Metric:
  """A number of labels [n] and logits, [n] or [n, C] for classes.

  Thousands of resamples draw the rows anew. What is costly is computed once, of each row.

  Attributes:
    of: The number, of two arrays that `prepared` gives, or of some of their rows.
    prepared: Labels and logits as two arrays of n rows.
  """

  of: Callable[[np.ndarray, np.ndarray], float]
  prepared: Callable[[np.ndarray, np.ndarray], Rows] = lambda labels, logits: (labels, logits)

  def __call__(self, labels: np.ndarray, logits: np.ndarray) -> float:
    return self.of(*self.prepared(labels, logits))


def _codes(values: np.ndarray) -> np.ndarray:
  """Places of values among the distinct ones, from 0: [n] int."""
  return np.unique(values, return_inverse=True)[1].reshape(-1)


def _ranks(codes: np.ndarray) -> np.ndarray:
  """Ranks [n] from 1 of rows by their codes, equal ones by their mean; counted, not sorted."""
  counts = np.bincount(codes)
  return (np.cumsum(counts) - (counts - 1) / 2)[codes]


def _spearman(labels: np.ndarray, scores: np.ndarray) -> float:
  """Pearson of the ranks of codes [n], ties ranked by their mean; nan as `pearson`."""
  return pearson(_ranks(labels), _ranks(scores))


def _auc_roc(positive: np.ndarray, scores: np.ndarray) -> float:
  """P(a positive row outscores a negative one), ties half: Mann and Whitney's, of codes [n]."""
  one = positive.all() or not positive.any()
  _refuse(one, f'AUC-ROC needs both classes; all {len(positive)} labels are of one')
  ranks, count = _ranks(scores)[positive], np.count_nonzero(positive)
  below = ranks.sum() - count * (count + 1) / 2  # pairs of a negative below a positive
  return float(below / (count * (len(positive) - count)))


def _average_precision(positive: np.ndarray, scores: np.ndarray) -> float:
  """The sum of (R_k - R_k-1) P_k, by codes [n]; rows of one score are taken together."""
  _refuse(
    not positive.any(), f'average precision needs a positive; {len(positive)} labels have none'
  )
  of_score = np.bincount(scores, positive)[::-1]
  rows = np.maximum(np.cumsum(np.bincount(scores)[::-1]), 1)  # a draw may lack the highest scores
  return float(of_score @ (np.cumsum(of_score) / rows) / of_score.sum())


def _losses(labels: np.ndarray, logits: np.ndarray) -> np.ndarray:
  """Cross-entropy of sigmoid(z): log(1 + exp(z)) - y z, finite where the sigmoid rounds to 1.

  Eq. 1 of the paper is the sum over rows; the metric is the mean.
  """
  return np.logaddexp(0, logits) - labels * logits


def _class_losses(labels: np.ndarray, logits: np.ndarray) -> np.ndarray:
  chosen = logits[np.arange(len(labels)), labels]  # [n]
  return logsumexp(logits, axis=1) - chosen


def _classes(labels: np.ndarray, logits: np.ndarray) -> Rows:
  """Labels and likeliest classes, [n] each; of two classes, whether they are the second."""
  found = logits.argmax(1)
  return (labels == 1, found == 1) if logits.shape[1] == 2 else (labels, found)


def _mean(_: np.ndarray, values: np.ndarray) -> float:
  return float(np.mean(values))


def f1(positive: np.ndarray, found: np.ndarray) -> float:
  """F1 of two masks; 0 where both are empty."""
  both = np.count_nonzero(positive) + np.count_nonzero(found)
  return 2 * np.count_nonzero(positive & found) / both if both else 0.0


def _class_f1(labels: np.ndarray, found: np.ndarray) -> float:
  """F1 of two masks; of classes [n] the mean over those that stand in either array."""
  if labels.dtype == bool:
    return f1(labels, found)
  most = max(labels.max(), found.max()) + 1
  right, of_labels, of_found = (
    np.bincount(rows, minlength=most) for rows in (labels[labels == found], labels, found)
  )
  there = (both := of_labels + of_found) > 0
  return float(np.mean(2 * right[there] / both[there]))


# A task's first metric is its primary one; more of it is better.
METRICS: dict[str, dict[str, Metric]] = {
  'regression': {
    'pearson': Metric(pearson, lambda labels, logits: (labels, expit(logits))),
    # Of logits: a saturated sigmoid would make ties.
    'spearman': Metric(_spearman, lambda labels, logits: (_codes(labels), _codes(logits))),
    'log_loss': Metric(_mean, lambda labels, logits: (labels, _losses(labels, logits))),
  },
  'binary': {
    'auc_roc': Metric(_auc_roc, lambda labels, logits: (positives(labels), _codes(logits))),
    'average_precision': Metric(
      _average_precision, lambda labels, logits: (positives(labels), _codes(logits))
    ),
    'accuracy': Metric(_mean, lambda labels, logits: (labels, positives(labels) == (logits >= 0))),
    'f1': Metric(f1, lambda labels, logits: (positives(labels), logits >= 0)),
    'log_loss': Metric(_mean, lambda labels, logits: (labels, _losses(labels, logits))),
  },
  'multiclass': {
    'accuracy': Metric(_mean, lambda labels, logits: (labels, logits.argmax(1) == labels)),
    'f1': Metric(_class_f1, _classes),
    'log_loss': Metric(_mean, lambda labels, logits: (labels, _class_losses(labels, logits))),
  },
}

LESS_IS_BETTER = ('log_loss',)


def _check(task: str, labels: np.ndarray, logits: np.ndarray) -> None:
  shapes = f'labels {list(labels.shape)}, logits {list(logits.shape)}'
  fit = labels.ndim == 1 and logits.ndim == 2 and len(labels) == len(logits) > 0
  _refuse(not fit, f'{shapes} should be [n] and [n, outputs], n at least 1')
  one = logits.shape[1] == 1
  _refuse(one == (task == 'multiclass'), f'{shapes}: wrong number of outputs for {task}')
  for name, values in (('labels', labels), ('logits', logits)):
    bad = np.count_nonzero(~np.isfinite(values))
    _refuse(bad > 0, f'{bad} of {values.size} {name} are not finite')
  if task == 'multiclass':
    classes = logits.shape[1]
    wrong = (labels != np.floor(labels)) | (labels < 0) | (labels >= classes)
    right = f'a class from 0 to {classes - 1}'
  else:
    wrong, right = (labels < 0) | (labels > 1), 'in [0, 1]'
  if wrong.any():
    row = int(np.argmax(wrong))
    raise InputError(f'label {labels[row]:g} of row {row} is not {right}')
  constant = task == 'regression' and np.ptp(labels) == 0
  _refuse(constant, f'regression needs labels that differ; all are {labels[0]:g}')


def _refuse(wrong: bool | np.bool_, message: str) -> None:
  if wrong:
    raise InputError(message)
