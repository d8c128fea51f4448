"""The distillation set: the unlabelled tuples with the teacher's scores."""

import dataclasses
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from common import flags
from common.data.records import RecordSet
from common.distillation import annotate, function_teacher, reversal, teacher
from common.distillation.annotate import Labeller
from common.distillation.quantized_teacher import QuantizedTeacher
from common.distillation.run_folder import Stage
from common.distillation.stages.data import Data, Unlabelled
from common.distillation.stages.run import Run
from common.distillation.stages.teacher import Teachers
from common.training import strategies

RUNTIMES = ('tensorflow', 'litert-int8')
_COMPARED = 2048  # tuples that another runtime is compared with the exact one on


@dataclasses.dataclass(frozen=True)
class AnnotationConfig:
  """Temperature of the soft labels, and what computes the teacher's logits."""

  temperature: float = flags.option(1.0, 'T: soft labels are sigmoid(z/T)', bounds=(0.001, 1000))
  annotation_runtime: str = flags.option(
    RUNTIMES[0],
    "what scores the distillation set; litert-int8 is a few times as fast on CPUs, and the teacher's "
    'logits are then near the exact ones',
    RUNTIMES,
  )


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


class Distill(Stage[Annotation]):
  """Soft labels of the unlabelled tuples, by the teachers or as the tuples bring them.

  Args:
    shared: The run.
    config: Temperature and runtime.
    data: The labelled sets, whose items the unlabelled tuples may be of.
    unlabelled: The tuples.
    teachers: None: the tuples bring their logits.
  """

  name, result = 'distill', Annotation

  def __init__(
    self,
    shared: Run,
    config: AnnotationConfig,
    data: Data,
    unlabelled: Unlabelled,
    teachers: Teachers | None,
  ):
    own = [teachers.own] if teachers and teachers.own else []
    given: dict[str, Any] = teachers.depends_on if teachers else {'teachers': ()}
    depends_on = {**flags.flat(config), **given}
    if (
      config.annotation_runtime == RUNTIMES[0]
      and teachers
      and not (teachers.own or teachers.function)
      and (of := shared.devices.precision) != 'float32'
    ):
      depends_on['precision'] = of  # of a teacher of its own it is the teacher's
    super().__init__(shared.folder, [data, *own, unlabelled], depends_on)
    self.shared, self.temperature = shared, config.temperature
    self.runtime = config.annotation_runtime
    self.data, self.unlabelled, self.teachers = data, unlabelled, teachers

  def run(self, folder: str) -> Annotation:
    shared = self.shared
    shared.check_sets(self.data.folder)
    name, logits_of = 'logits of the file', None
    differs: dict[str, Any] = {}
    started = time.monotonic()
    if self.teachers:
      name, records = self.teachers.name, RecordSet(self.unlabelled.folder)
      strategy = self.shared.strategy
      if self.runtime == RUNTIMES[0]:
        if self.teachers.function:
          function_teacher.check(self.teachers.function, shared.table, records)
        loaded = self.teachers.load()
        self._check_given(loaded)
        logits_of = self.teachers.labeller(records, loaded)
      else:
        with strategies.precision():
          loaded = self.teachers.load()
        self._check_given(loaded)
        exact = self.teachers.labeller(records, loaded)
        quantized = [QuantizedTeacher(one) for one in loaded]
        logits_of = teacher.labeller(quantized, records, strategy)
        deviation, spread = _deviation(exact, logits_of, records.tuples().items)
        print(
          f'{self.runtime}: logits deviate by {deviation:.3g}; their own spread is {spread:.3g}'
        )
        differs = {'runtime': self.runtime, 'logits_deviation': deviation, 'logits_spread': spread}
    info = {'teacher': name}
    manifest = annotate.annotate(
      self.unlabelled.folder, folder, logits_of, temperature=self.temperature, info=info
    )
    return Annotation(manifest.count, round(time.monotonic() - started, 1), **differs)

  def _check_given(self, loaded: Sequence[teacher.Teacher]) -> None:
    """Refuses a teacher that the run did not train, whose scores run against the labels of `valid`."""
    assert self.teachers is not None
    if self.teachers.own:
      return
    valid, table = RecordSet(os.path.join(self.data.folder, 'valid')), self.shared.table
    each = {path: [one] for path, one in zip(self.teachers.given, loaded, strict=False)}
    for name, alone in (each or {self.teachers.name: []}).items():
      labeller = self.teachers.labeller(valid, alone)
      reversal.check(name, table.base_task, table.class_names, valid, labeller)


def _deviation(exact: Labeller, other: Labeller, items: np.ndarray) -> tuple[float, float]:
  """Deviation and spread, as of `Annotation`, on tuples from all over the set."""
  some = items[:: -(-len(items) // _COMPARED)]
  expected, found = (
    np.concatenate(list(labeller(some, lambda count: None))) for labeller in (exact, other)
  )
  return float(np.sqrt(np.mean((found - expected) ** 2))), float(expected.std())
