"""The distillation set: the unlabelled tuples with the teacher's scores."""

import contextlib
import dataclasses
import time
from typing import Any

import numpy as np
import tensorflow as tf

from common import flags
from common.data.records import RecordSet
from common.distillation import annotate, function_teacher, reversal, teacher
from common.distillation.annotate import Labeller
from common.distillation.config import RUNTIMES, AnnotationConfig
from common.distillation.converted_teacher import ConvertedTeacher
from common.distillation.teachers import Teachers
from common.training import strategies

_COMPARED = 2048  # tuples that another runtime is compared with the exact one on


@dataclasses.dataclass(frozen=True)
class Annotation:
  """The distillation set.

  Attributes:
    count: Tuples scored.
    seconds: Time it took.
    runtime: What scored them, where it is not TensorFlow.
    logits_deviation: Its logits from the exact ones, the root of the mean square.
    logits_spread: The exact ones' standard deviation.
  """

  count: int
  seconds: float
  runtime: str | None = None
  logits_deviation: float | None = None
  logits_spread: float | None = None


def depends_on(config: AnnotationConfig, teachers: Teachers | None) -> dict[str, Any]:
  """Flags that the distillation set depends on; arguments as of `write`."""
  if teachers is None:
    return {**flags.flat(config), 'teachers': ()}
  found = {**flags.flat(config), **teachers.depends_on}
  # A teacher of the run's own depends on its precision; the scores of others do so here.
  other = not (teachers.own or teachers.function)
  if other and config.annotation_runtime == RUNTIMES[0]:
    found['precision'] = teachers.config.devices.precision
  return found


def write(
  config: AnnotationConfig, teachers: Teachers | None, valid: str, unlabelled: str, folder: str
) -> Annotation:
  """Writes the tuples with soft labels, by the teachers or as the tuples bring their logits.

  Args:
    config: Temperature and runtime.
    teachers: None: the tuples bring their logits.
    valid: A labelled record set, whose labels a given teacher's scores must not run against.
    unlabelled: Record set of the tuples.
    folder: Gets them with their scores; goes on with what an earlier start left.
  """
  started = time.monotonic()
  name, logits_of, differs = 'logits of the file', None, {}
  if teachers:
    name = teachers.name
    logits_of, differs = _labeller(
      teachers, config.annotation_runtime, valid, RecordSet(unlabelled)
    )
  manifest = annotate.annotate(
    unlabelled, folder, logits_of, temperature=config.temperature, info={'teacher': name}
  )
  return Annotation(manifest.count, round(time.monotonic() - started, 1), **differs)


def _labeller(
  teachers: Teachers, runtime: str, valid: str, records: RecordSet
) -> tuple[Labeller, dict[str, Any]]:
  """The labeller of a set's tuples, and fields of `Annotation` that say how far it is from exact.

  A teacher from outside the run is refused if its scores contradict the labels of `valid`.
  """
  if teachers.function:
    function_teacher.check(teachers.function, teachers.config.data.table, records)
  with strategies.precision() if runtime != RUNTIMES[0] else contextlib.nullcontext():
    loaded = teachers.load()
  if not teachers.own:
    judging, given = RecordSet(valid), teachers.config.teachers
    alone = {path: [one] for path, one in zip(given, loaded, strict=False)}
    for name, one in (alone or {teachers.name: []}).items():
      reversal.check(name, teachers.config.task, judging, teachers.labeller(judging, one))
  exact = teachers.labeller(records, loaded)
  if runtime == RUNTIMES[0]:
    if loaded and not tf.config.list_logical_devices('GPU'):
      print('TensorFlow annotates; on CPUs --annotation_runtime=litert-int8 is a few times faster')
    return exact, {}
  converted = [ConvertedTeacher(one) for one in loaded]
  labeller = teacher.labeller(converted, records, teachers.strategy)
  deviation, spread = _deviation(exact, labeller, records.tuples().items)
  share = f'{deviation / spread:.2%} of ' if spread else ''  # of one tuple there is none
  print(f'{runtime}: logits deviate by {deviation:.3g}, {share}their spread {spread:.3g}')
  return labeller, {'runtime': runtime, 'logits_deviation': deviation, 'logits_spread': spread}


def _deviation(exact: Labeller, other: Labeller, items: np.ndarray) -> tuple[float, float]:
  """Deviation and spread, as of `Annotation`, on tuples from all over the set."""
  some = items[:: -(-len(items) // _COMPARED)]
  expected, found = (
    np.concatenate(list(labeller(some, lambda count: None))) for labeller in (exact, other)
  )
  return float(np.sqrt(np.mean((found - expected) ** 2))), float(expected.std())
