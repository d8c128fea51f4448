"""The teacher that a run fine-tunes, and the teachers that it scores with."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import tf_keras

from common import digests, flags
from common.data.examples import TableConfig
from common.data.records import RecordSet
from common.distillation import function_teacher, teacher
from common.distillation.annotate import Labeller
from common.distillation.function_teacher import Function
from common.distillation.results import SetScorer
from common.distillation.run_folder import Stage
from common.distillation.stages.data import Data
from common.distillation.stages.run import Run, Trained
from common.distillation.teacher import TeacherConfig
from common.errors import InputError
from common.modeling import checkpoints, saving
from common.training import strategies
from common.training.optimization import PhaseConfig


class TeacherTraining(Stage[Trained]):
  """A cross-encoder, fine-tuned on the labelled sets."""

  name, result, collective = 'teacher', Trained, True

  def __init__(self, shared: Run, config: TeacherConfig, phase: PhaseConfig, data: Data):
    own = {**flags.flat(config, 'teacher_'), **flags.flat(phase, 'teacher_')}
    own |= digests.contents(config.pretrained)
    super().__init__(shared.folder, [data], {**own, **shared.training_flags})
    self.shared, self.config, self.phase, self.data = shared, config, phase, data

  def run(self, folder: str) -> Trained:
    shared, config = self.shared, self.config
    shared.check_sets(self.data.folder, teaches=True)
    tf_keras.utils.set_random_seed(shared.seed)
    training = shared.training(
      os.path.join(self.data.folder, 'train'), os.path.join(self.data.folder, 'valid')
    )
    pretrained = checkpoints.read(config.pretrained)
    return Trained([teacher.fine_tune(pretrained, config.max_length, self.phase, training, folder)])


@dataclasses.dataclass(frozen=True)
class Teachers:
  """The teachers whose mean logits are taught.

  Attributes:
    shared: The run.
    given: Folders of other runs' teachers, or of classifiers; none: the run's own.
    max_length: Most tokens of a packed tuple, for classifiers.
    own: The stage that makes it, if the run has one.
    function: The one teacher, where it is a Python function.
  """

  shared: Run
  given: tuple[str, ...]
  max_length: int
  own: TeacherTraining | None
  function: Function | None = None

  @property
  def name(self) -> str:
    """Their name in a manifest."""
    return ', '.join(self.given) or 'teacher'

  @property
  def depends_on(self) -> dict[str, Any]:
    """Flags that their logits depend on."""
    folders = [path for path in self.given if not function_teacher.is_named(path)]
    ready = [path for path in folders if not saving.is_there(path)]
    length = {'teacher_max_length': self.max_length} if ready else {}
    return {'teachers': self.given, **length, **digests.contents(*folders)}

  def labeller(self, records: RecordSet, loaded: Sequence[teacher.Teacher]) -> Labeller:
    """Labels a record set's tuples with the mean logits of teachers that are `loaded`, or the function's."""
    if self.function:
      return function_teacher.labeller(self.function, self.shared.table, records)
    return teacher.labeller(loaded, records, self.shared.strategy)

  def scorers(self) -> list[SetScorer]:
    """A function of record sets to logits for each teacher alone, with a progress bar."""
    if self.function:
      return [teacher.with_bar(lambda records: self.labeller(records, []))]
    return [teacher.scorer_of([one], self.shared.strategy) for one in self.load()]

  def load(self) -> list[teacher.Teacher]:
    """Reads those that are models; one that does not fit the task is refused."""
    if self.function:
      return []
    paths = self.given or ([self.own.folder] if self.own else [])
    table, teachers = self.shared.table, []
    with strategies.scope_of_one(self.shared.strategy):
      for path in paths:
        loaded = teacher.Teacher.load(path, self.max_length, table.base_task, table.class_names)
        _check_outputs(path, loaded.outputs, table)
        teachers.append(loaded)
    return teachers


def check(paths: Sequence[str], max_length: int, table: TableConfig) -> None:
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
      _check_outputs(path, fields.get('outputs'), table)
    else:
      try:
        teacher.read_ready(path, max_length, table.base_task, table.class_names)
      except InputError as error:
        flag = '--teacher=' if str(error).startswith(f'{path}: ') else ''  # or it names another
        raise InputError(f'{flag}{error}') from error


def _check_outputs(path: str, outputs: int | None, table: TableConfig) -> None:
  if outputs != table.outputs:
    raise InputError(f'--teacher={path} has {outputs} outputs, --task needs {table.outputs}')
