"""Distils DSE students: `python -m dse.run --flagfile=configs/mrpc.flags`."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from common import extras

with extras.needed('train'):
  import tensorflow  # noqa: F401

from common import flags
from common.distillation import distilled, run
from common.distillation.config import ExperimentConfig, on_labels_alone
from common.distillation.dataset import DataConfig
from common.distillation.distilled import Distilled, GivenTeacher, Path
from common.distillation.pairing import PairingConfig
from common.distillation.student import TrainedStudent
from common.distillation.trainer import Training
from common.errors import InputError
from common.modeling import encoders
from common.training.loop import Callback
from dse import training
from dse.config import StudentConfig, TrainConfig
from dse.embedder import Embedder
from dse.student import DSE

FIRST = (  # flags that a newcomer needs
  *('run_dir', 'train_file', 'valid_file', 'test_file', 'text_columns', 'label_column', 'task'),
  *('data_dir', 'teachers', 'pretrained', 'variants', 'precision'),
)


@dataclasses.dataclass(frozen=True)
class RunConfig:
  """Flags of a run; the distillation set is the training set unless flags say otherwise."""

  experiment: ExperimentConfig = flags.group(
    ExperimentConfig, heading='run', data=DataConfig(pairing=PairingConfig(distillation_pairs=0))
  )
  student: StudentConfig = flags.group(StudentConfig)
  train: TrainConfig = flags.group(TrainConfig, heading='training')

  def __post_init__(self):
    data = self.experiment.data
    if self.experiment.labels_alone:
      object.__setattr__(self, 'train', on_labels_alone(self))
    self.train.objective.check(self.experiment.task)
    self.train.objective.check_settings()
    if len(data.table.text_columns) != 2:
      raise InputError(f'--text_columns names {len(data.table.text_columns)} texts; DSE takes two')
    if data.table.vector_columns:
      raise InputError(
        f'--vector_columns={",".join(data.table.vector_columns)}: DSE takes texts; dipair.run '
        'takes vectors too'
      )


class DSEStudent:
  """DSE, as an experiment wants it."""

  name, title, scorer = 'dse', 'DSE', Embedder

  def __init__(self, config: RunConfig):
    self.config = config
    self.depends_on = {**flags.flat(config.student), **flags.flat(config.train)}
    self.depends_on |= encoders.contents(config.student.pretrained)
    self.losses = [
      config.train.loss_of(name, config.experiment.task) for name in config.train.variants
    ]
    self.batch_sizes = config.train.batch_sizes

  def check(self) -> None:
    """Refuses a checkpoint that is not there or does not fit."""
    DSE.read_pretrained(self.config.student)

  def train(self, folder: str, data: Training) -> list[dict[str, Any]]:
    """Distils every variant into its folder."""
    return training.train(self.config.student, self.config.train, folder, data)

  def models(self, folder: str) -> dict[str, TrainedStudent]:
    """Models of the variants, the first one last."""
    train = self.config.train
    return {
      training.title(train, variant): DSE.load(training.path(folder, train, variant))
      for variant in reversed(train.variants)
    }


def main(config: RunConfig) -> None:
  """Runs the experiment."""
  run.run(config, DSEStudent)


def distill(
  train: Any = None,
  valid: Any = None,
  test: Any = None,
  *,
  run_dir: Path,
  distillation: Any = None,
  teacher: GivenTeacher | None = None,
  callbacks: Sequence[Callback] = (),
  **flags: Any,
) -> Distilled[Embedder]:
  """Distils a DSE student: `python -m dse.run` from Python; arguments as of `dipair.distill`.

  Without a `distillation` the training tuples are what the student learns from. The stages that
  `callbacks` hear of are 'teacher', 'student' and 'student, VARIANT'.
  """
  tables = {'train': train, 'valid': valid, 'test': test, 'distillation': distillation}
  return distilled.distill(
    RunConfig, DSEStudent, Embedder, tables, run_dir, teacher, callbacks, flags
  )


if __name__ == '__main__':
  flags.command(main, RunConfig, first=FIRST)
