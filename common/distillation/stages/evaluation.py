"""Metrics of the teacher and of the student's models, and the export's speed and quality."""

import dataclasses
import functools
import os
from typing import Any

import numpy as np
import tensorflow as tf

from common.distillation import measure, results
from common.distillation.inference import TupleScorer
from common.distillation.results import SetScorer
from common.distillation.run_folder import Stage
from common.distillation.stages.data import Data
from common.distillation.stages.distill import Distill
from common.distillation.stages.export import Export
from common.distillation.stages.run import Run
from common.distillation.stages.student import StudentTraining
from common.distillation.stages.teacher import Teachers
from common.distillation.student import StudentPackage
from common.evaluation import calibration
from common.modeling.calibration import Calibration
from common.training import strategies


@dataclasses.dataclass(frozen=True)
class Evaluated:
  """Metrics, calibration, significance and ranking, as from `results.evaluate`."""

  models: list[dict[str, Any]]
  significance: dict[str, Any] | None = None
  against_one: list[dict[str, Any]] | None = None
  ranking: dict[str, Any] | None = None
  unseen: list[dict[str, Any]] = dataclasses.field(default_factory=list)
  calibration: dict[str, Any] | None = None


class Evaluation(Stage[Evaluated]):
  """Metrics on valid, test and what other test set there is; of the student as it is exported."""

  name, result = 'evaluation', Evaluated

  def __init__(
    self,
    shared: Run,
    data: Data,
    distill: Distill,
    training: StudentTraining,
    export: Export,
    teachers: Teachers | None,
  ):
    self.calibrates = export.method != calibration.NONE  # then alone the export changes a score
    super().__init__(shared.folder, [training, *([export] if self.calibrates else [])], {})
    self.shared, self.data, self.training, self.teachers = shared, data, training, teachers
    self.distill, self.export = distill, export

  @strategies.precision()
  def run(self, folder: str) -> Evaluated:
    scorers = self._teachers()
    alone = [name for name in scorers if name != 'teacher']
    for name, trained in self.training.models().items():
      scorers[name] = TupleScorer(*trained, tf.distribute.get_strategy()).of_set
    task = self.shared.table.base_task
    fitted = self.export.calibration if self.calibrates else Calibration()
    data, metric = self.data.folder, self.shared.metric
    learnt = {'train': os.path.join(data, 'train'), 'distillation': self.distill.folder}
    return Evaluated(**results.evaluate(scorers, task, data, folder, metric, fitted, alone, learnt))

  def _teachers(self) -> dict[str, SetScorer]:
    """The 'teacher'; of several their mean, and each one, whose logits are computed once a set."""
    each = self.teachers.scorers() if self.teachers else []
    if len(each) < 2:
      return {'teacher': each[0]} if each else {}
    alone = {f'teacher {n}': functools.cache(score) for n, score in enumerate(each, 1)}
    mean = lambda records: np.mean([score(records) for score in alone.values()], axis=0)  # noqa: E731
    return {'teacher': mean, **alone}


@dataclasses.dataclass(frozen=True)
class Benchmarked:
  """Rows by runtime, vector dtype and runtime of the encoders, as from `measure.of_export`."""

  rates: list[dict[str, Any]]
  stored: list[dict[str, Any]]
  encoders: list[dict[str, Any]]


class Benchmark(Stage[Benchmarked]):
  """Speed and quality of the export, by runtime and by vector dtype."""

  name, result = 'benchmark', Benchmarked

  def __init__(
    self, shared: Run, student: StudentPackage, export: Export, teachers: Teachers | None
  ):
    super().__init__(shared.folder, [export], {})
    self.shared, self.student, self.export, self.teachers = shared, student, export, teachers

  @strategies.precision()
  def run(self, folder: str) -> Benchmarked:
    del folder
    student, shared = self.student, self.shared
    teachers, task = self.teachers.load() if self.teachers else [], shared.table.base_task
    function = self.teachers.function if self.teachers else None
    found = measure.of_export(
      student.scorer,
      student.title,
      self.export.folder,
      self.export.data.folder,
      task,
      teachers,
      shared.metric,
      function,
    )
    return Benchmarked(**found)
