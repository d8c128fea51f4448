"""A ready teacher's first scores beside the labels: whether they fall where labels rise."""

import math

import numpy as np
from tqdm import tqdm

from common.data.records import RecordSet
from common.data.task import Task
from common.distillation.annotate import Labeller
from common.errors import InputError
from common.evaluation import metrics

_ROWS = 512  # at the most: a slow teacher has them in a minute
_LEAST = {'binary': 0.4, 'regression': -0.2}  # of the task's metric
_SURE = 3  # standard deviations of a metric of scores that know nothing of the labels


def check(name: str, task: Task, records: RecordSet, labeller: Labeller) -> None:
  """Prints the task's metric on tuples from all over a labelled set; refuses reversed scores.

  That is an AUC below 0.4 or a Pearson correlation below -0.2, where chance does not explain it. A
  set whose tuples are of one class says nothing.

  Args:
    name: The teacher's.
    task: Kind of the labels.
    records: The labelled set.
    labeller: The teacher, of the set's tuples.

  Raises:
    InputError: The scores are not finite, or reversed; one line says what would be right.
  """
  tuples, kind = records.tuples(), task.kind
  some = slice(None, None, math.ceil(len(tuples) / _ROWS))
  labels = tuples.labels[some]
  seen = metrics.positives(labels) if kind == 'binary' else labels
  if seen.min() == seen.max():
    return
  with tqdm(total=len(labels), desc=f'{name} on valid', delay=2, unit=' tuples') as bar:
    logits = np.concatenate(list(labeller(tuples.items[some], bar.update)))
  metric, where = metrics.primary_metric(kind), f'{len(labels):,} tuples of {records.folder}'
  try:
    value = metrics.evaluate(kind, labels, logits)[metric]
  except InputError as error:
    raise InputError(f'--teacher={name}, {where}: {error}') from error
  print(f'{name}: {metric} {value:.3f} on {where}')
  if kind != 'multiclass' and value < _LEAST[kind] and _is_sure(kind, value, seen):
    raise InputError(
      f'--teacher={name}: {metric} {value:.3f} on {where}: its scores fall where labels rise; '
      'use a teacher with scores that rise with the labels'
    )


def _is_sure(kind: str, value: float, seen: np.ndarray) -> bool:
  """Whether an AUC is far from 1/2, or a correlation from 0, for labels of that number."""
  if kind == 'regression':
    return value < -_SURE / math.sqrt(len(seen))
  positive = np.count_nonzero(seen)  # the deviation is Mann and Whitney's
  deviation = math.sqrt((len(seen) + 1) / (12 * positive * (len(seen) - positive)))
  return value < 0.5 - _SURE * deviation
