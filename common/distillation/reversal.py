"""A ready teacher's first scores beside the labels: whether it has more for less, or classes in another order."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment
from tqdm import tqdm

from common.data.records import RecordSet
from common.distillation.annotate import Labeller
from common.errors import InputError
from common.evaluation import metrics

_ROWS = 512  # at the most: a slow teacher has them in a minute
_LEAST = {'binary': 0.4, 'regression': -0.2}  # of the task's metric
_SURE = 3  # standard deviations of a metric of scores that know nothing of the labels


def check(
  name: str, task: str, classes: Sequence[str], records: RecordSet, labeller: Labeller
) -> None:
  """Prints the task's metric on tuples from all over a labelled set; refuses what is plainly reversed.

  That is an AUC below 0.4, a Pearson correlation below -0.2, or classes of which another order of the
  outputs would be right more than twice as often, a class counting as much as another; each where
  chance does not explain it. A set whose tuples are of one class says nothing.

  Args:
    name: The teacher's.
    task: 'regression', 'binary' or 'multiclass'.
    classes: Names of a multiclass task's classes, in the order of the outputs.
    records: The labelled set.
    labeller: The teacher, of the set's tuples.

  Raises:
    InputError: The scores are not finite, or reversed; one line says what would be right.
  """
  tuples = records.tuples()
  some = slice(None, None, math.ceil(len(tuples) / _ROWS))
  labels = tuples.labels[some]
  seen = metrics.positives(labels) if task == 'binary' else labels
  if seen.min() == seen.max():
    return
  with tqdm(total=len(labels), desc=f'{name} on valid', delay=2, unit=' tuples') as bar:
    logits = np.concatenate(list(labeller(tuples.items[some], bar.update)))
  metric, where = metrics.primary_metric(task), f'{len(labels):,} tuples of {records.folder}'
  try:
    value = metrics.evaluate(task, labels, logits)[metric]
  except InputError as error:
    raise InputError(f'--teacher={name}, {where}: {error}') from error
  print(f'{name}: {metric} {value:.3f} on {where}')
  remedy = ''
  if task == 'multiclass':
    remedy = _other_order(classes, labels.astype(np.int64), logits)
  elif value < _LEAST[task] and _is_sure(task, value, seen):
    remedy = 'its scores fall where labels rise; a teacher is needed whose scores rise with them'
  if remedy:
    raise InputError(f'--teacher={name}: {metric} {value:.3f} on {where}: {remedy}')


def _is_sure(task: str, value: float, seen: np.ndarray) -> bool:
  """Whether an AUC is far from 1/2, or a correlation from 0, for labels of that number."""
  if task == 'regression':
    return value < -_SURE / math.sqrt(len(seen))
  positive = np.count_nonzero(seen)  # the deviation is Mann and Whitney's
  deviation = math.sqrt((len(seen) + 1) / (12 * positive * (len(seen) - positive)))
  return value < 0.5 - _SURE * deviation


def _other_order(classes: Sequence[str], labels: np.ndarray, logits: np.ndarray) -> str:
  """The remedy where the classes [C] are plainly those of other outputs; empty: they are not."""
  chosen = np.argmax(logits, 1)
  counts = np.zeros([len(classes), len(classes)])  # [class, output]
  np.add.at(counts, (labels, chosen), 1)
  of_class = counts.sum(1, keepdims=True)
  shares = counts / np.maximum(of_class, 1)  # so that one class for all is as good in any order
  rows, order = linear_sum_assignment(shares, maximize=True)
  own, best = np.trace(shares), shares[rows, order].sum()
  deviation = math.sqrt((1 / of_class[of_class > 0]).sum())  # of the two's difference, at the most
  if 2 * own >= best or best - own < _SURE * deviation:
    return ''
  # An output stands for the class that it is taken for, whatever the teacher's own order was.
  wrong = [f'{classes[out]} as {classes[of]}' for of, out in enumerate(order) if of != out]
  return (
    f'it would be {np.mean(order[labels] == chosen):.3f} with what it calls {", ".join(wrong)}; put right '
    'the names in id2label of its config.json, the columns of a function, or --classes'
  )
