"""The teacher that a run fine-tunes, and the teachers that it scores with."""

import dataclasses
import os

import tf_keras

from common import flags
from common.distillation import teacher
from common.distillation.run_folder import Stage
from common.distillation.stages.data import Data
from common.distillation.stages.run import Run, Trained
from common.distillation.teacher import TeacherConfig
from common.errors import InputError
from common.modeling import checkpoints
from common.training import strategies
from common.training.optimization import PhaseConfig


class Teacher(Stage[Trained]):
  """A cross-encoder, fine-tuned on the labelled sets."""

  name, result, collective = 'teacher', Trained, True

  def __init__(self, shared: Run, config: TeacherConfig, phase: PhaseConfig, data: Data):
    own = {**flags.flat(config, 'teacher_'), **flags.flat(phase, 'teacher_')}
    super().__init__(shared.folder, [data], {**own, **shared.training_flags})
    self.shared, self.config, self.phase, self.data = shared, config, phase, data

  def run(self, folder: str) -> Trained:
    shared, config = self.shared, self.config
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
    given: Folders of other runs' teachers; none: the run's own.
    own: The stage that makes it, if the run has one.
  """

  shared: Run
  given: tuple[str, ...]
  own: Teacher | None

  @property
  def name(self) -> str:
    """Their name in a manifest."""
    return ', '.join(self.given) or 'teacher'

  def load(self) -> list[teacher.Teacher]:
    """Reads them; one that does not fit the task is refused."""
    paths = self.given or ([self.own.folder] if self.own else [])
    with strategies.scope_of_one(self.shared.strategy):
      teachers = [teacher.Teacher.load(path) for path in paths]
    outputs = self.shared.table.outputs
    for path, loaded in zip(paths, teachers, strict=True):
      if loaded.outputs != outputs:
        raise InputError(f'--teacher={path} has {loaded.outputs} outputs, --task needs {outputs}')
    return teachers
