"""The teachers that a run scores with: its own, other runs', or a Python function."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common import digests
from common.data.examples import TableConfig
from common.data.records import RecordSet
from common.data.task import Task
from common.data.tuple_set import TupleSet
from common.distillation import function_teacher, teacher
from common.distillation.annotate import Labeller
from common.distillation.config import ExperimentConfig
from common.distillation.function_teacher import Function
from common.errors import InputError
from common.evaluation.evaluation import SetScorer
from common.modeling import saving


@dataclasses.dataclass(frozen=True)
class Teachers:
  """Teachers that teach their mean logits.

  Attributes:
    config: The run; without teachers in it, the run makes its own.
    strategy: Its replicas share the work.
    own: Folder of the teacher that the run makes; empty: it makes none.
    function: The one teacher, where it is a Python function.
  """

  config: ExperimentConfig
  strategy: tf.distribute.Strategy
  own: str = ''
  function: Function | None = None

  @property
  def name(self) -> str:
    """Their name in a manifest."""
    return ', '.join(self.config.teachers) or 'teacher'

  @property
  def depends_on(self) -> dict[str, Any]:
    """Flags that their logits depend on."""
    given = self.config.teachers
    folders = [path for path in given if not function_teacher.is_named(path)]
    ready = [path for path in folders if not saving.is_there(path)]
    length = {'teacher_max_length': self.config.teacher.max_length} if ready else {}
    return {'teachers': given, **length, **digests.contents(*folders)}

  def labeller(self, records: RecordSet, loaded: Sequence[teacher.Teacher]) -> Labeller:
    """Labels a set's tuples with the mean logits of teachers `loaded`, or the function's."""
    if self.function:
      return function_teacher.labeller(self.function, self.config.data.table, records)
    return teacher.labeller(loaded, records, self.strategy)

  def scorers(self) -> dict[str, SetScorer]:
    """The teachers, as of `scorers`."""
    if self.function:
      return function_scorers(self.function, self.config.data.table)
    return scorers(self.load(), self.strategy)

  def load(self) -> list[teacher.Teacher]:
    """Reads those that are models; one that does not fit the task is refused."""
    if self.function:
      return []
    with self.strategy.scope():
      return load(
        self.config.teachers or [self.own], self.config.teacher.max_length, self.config.task
      )


def load(paths: Sequence[str], max_length: int, task: Task) -> list[teacher.Teacher]:
  """Reads teachers; one that does not fit the task is refused. Arguments as for `Teacher.load`."""
  found = []
  for path in paths:
    loaded = teacher.Teacher.load(path, max_length, task)
    _check_outputs(path, loaded.outputs, task)
    found.append(loaded)
  return found


def scorers(
  loaded: Sequence[teacher.Teacher], strategy: tf.distribute.Strategy
) -> dict[str, SetScorer]:
  """The 'teacher', with a progress bar; of several their mean, and then each one.

  The logits of several are computed once a set.
  """
  each = [teacher.scorer_of([one], strategy) for one in loaded]
  if len(each) == 1:
    return {'teacher': each[0]}
  alone = {f'teacher {n}': functools.cache(score) for n, score in enumerate(each, 1)}

  def mean(records: TupleSet) -> np.ndarray:
    return np.mean([score(records) for score in alone.values()], axis=0)

  return {'teacher': mean, **alone}


def function_scorers(function: Function, table: TableConfig) -> dict[str, SetScorer]:
  """A Python function as the 'teacher', with a progress bar."""

  def labeller(records: TupleSet) -> Labeller:
    return function_teacher.labeller(function, table, records)

  return {'teacher': teacher.with_bar(labeller)}


def check(paths: Sequence[str], max_length: int, task: Task) -> None:
  """Refuses a teacher that is not there or not of the task, before a run; arguments as above."""
  for path in paths:
    if function_teacher.is_named(path):
      raise InputError(
        f'--teacher={path}: a Python function, with which the run goes on in Python alone: '
        'distill(teacher=function, …)'
      )
    if saving.is_there(path):
      fields, _ = saving.read(path)
      if (kind := fields.get('kind')) != 'cross_encoder':
        raise InputError(
          f'--teacher={path}: a {kind} student, and no teacher; --pretrained takes its encoder'
        )
      _check_outputs(path, fields.get('outputs'), task)
    else:
      try:
        teacher.read_ready(path, max_length, task)
      except InputError as error:
        flag = '--teacher=' if str(error).startswith(f'{path}: ') else ''  # or it names another
        raise InputError(f'{flag}{error}') from error


def _check_outputs(path: str, outputs: int | None, task: Task) -> None:
  if outputs != task.outputs:
    raise InputError(f'--teacher={path} has {outputs} outputs, --task needs {task.outputs}')
