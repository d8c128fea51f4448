"""Quality of logits against labels, for the three kinds of task; and the paper's Delta.

`METRICS` lists each task's metrics; `evaluate` takes logits, before any activation. Data that make
a metric impossible (one class only, constant labels, a label out of range) are refused. An
untrained model's constant scores give nan, so that an early evaluation does not end a run.
"""

from collections.abc import Callable

import numpy as np
from scipy import stats
from scipy.special import expit, logsumexp
from sklearn.metrics import f1_score

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


def spearman(labels: np.ndarray, scores: np.ndarray) -> float:
  """Spearman correlation: Pearson of the ranks, ties ranked by their mean; nan as `pearson`."""
  return pearson(stats.rankdata(labels), stats.rankdata(scores))


def positives(labels: np.ndarray) -> np.ndarray:
  """Mask of a binary task's positive labels, [n] bool: 0.5 and more."""
  return np.asarray(labels) >= 0.5


def auc_roc(labels: np.ndarray, scores: np.ndarray) -> float:
  """P(a positive row outscores a negative one), ties counted half.

  By Mann and Whitney's ranks: quick enough for thousands of resamples.
  """
  positive = positives(labels)
  one = positive.all() or not positive.any()
  _refuse(one, f'AUC-ROC needs both classes; all {len(positive)} labels are of one')
  ranks, count = stats.rankdata(scores)[positive], np.count_nonzero(positive)
  below = ranks.sum() - count * (count + 1) / 2  # pairs of a negative below a positive
  return float(below / (count * (len(positive) - count)))


def log_loss(labels: np.ndarray, logits: np.ndarray) -> float:
  """Cross-entropy of sigmoid(logits), the mean over rows where the paper's Eq. 1 is the sum.

    -mean_i(y_i log p_i + (1 - y_i) log(1 - p_i)) = mean_i(log(1 + exp(z_i)) - y_i z_i)

  Args:
    labels: y, [n], in [0, 1].
    logits: z, [n]; the right-hand side stays finite where p_i rounds to 0 or 1.
  """
  return float(np.mean(np.logaddexp(0, logits) - labels * logits))


def delta(student: float, teacher: float) -> float:
  """Relative change from the teacher, (s - t) / |t|: the Delta of the paper's Tables 2 and 3.

  The paper's t is positive. A better student is above 0 for a negative t too; nan if t is 0.

  >>> round(delta(0.731, 0.757), 3)
  -0.034
  """
  return (student - teacher) / abs(teacher) if teacher else float('nan')


def _accuracy(labels: np.ndarray, logits: np.ndarray) -> float:
  return float(np.mean(positives(labels) == (logits >= 0)))


def _f1(labels: np.ndarray, logits: np.ndarray) -> float:
  return float(f1_score(positives(labels), logits >= 0, zero_division=0))


def _class_accuracy(labels: np.ndarray, logits: np.ndarray) -> float:
  return float(np.mean(np.argmax(logits, axis=1) == labels))


def _class_f1(labels: np.ndarray, logits: np.ndarray) -> float:
  average = 'binary' if logits.shape[1] == 2 else 'macro'
  return float(f1_score(labels, np.argmax(logits, axis=1), average=average, zero_division=0))


def _class_log_loss(labels: np.ndarray, logits: np.ndarray) -> float:
  chosen = logits[np.arange(len(labels)), labels]  # [n]
  return float(np.mean(logsumexp(logits, axis=1) - chosen))


# Functions from labels [n] and logits ([n], or [n, C] for classes) to a number. A task's first
# metric is its primary one; more of it is better.
METRICS: dict[str, dict[str, Callable[[np.ndarray, np.ndarray], float]]] = {
  'regression': {
    'pearson': lambda labels, logits: pearson(labels, expit(logits)),
    'spearman': spearman,  # ranks alone: a saturated sigmoid would make ties
    'log_loss': log_loss,
  },
  'binary': {'auc_roc': auc_roc, 'accuracy': _accuracy, 'f1': _f1, 'log_loss': log_loss},
  'multiclass': {
    'accuracy': _class_accuracy,
    'f1': _class_f1,
    'log_loss': _class_log_loss,
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
