"""Distils a DiPair student: `python -m dipair.run --flagfile=configs/p2t.flags`."""

import dataclasses
import os
from typing import Any

from common import flags
from common.distillation import experiment
from common.distillation.experiment import ExperimentConfig
from common.distillation.stages.student import TrainedStudent
from common.distillation.trainer import Training
from common.errors import InputError
from dipair import stages
from dipair.config import StudentConfig, TrainConfig
from dipair.scorer import Scorer
from dipair.student import DiPair


@dataclasses.dataclass(frozen=True)
class RunConfig:
  """All flags of a run."""

  experiment: ExperimentConfig = flags.group(ExperimentConfig, heading='run')
  student: StudentConfig = flags.group(StudentConfig)
  train: TrainConfig = flags.group(TrainConfig, heading='training')

  def __post_init__(self):
    columns, texts = self.experiment.data.table.text_columns, len(self.student.output_tokens)
    if len(columns) != texts:
      raise InputError(
        f'--text_columns names {len(columns)} texts, --output_tokens and --max_lengths {texts}'
      )
    table = self.experiment.data.table
    self.train.objective.check(table.task, table.outputs)


# Flags that once were not, with what they then stood at: runs from before stay as they are.
_NEWER = {
  'left_encoder_layers': 0,
  'right_encoder_layers': 0,
  'head_activation': 'gelu',
  'cosine_pooling': 'first',
  'max_sim_reduction': 'mean',
  'lite_widening': 12,
  'poly_codes': 8,
  'alpha': 1.0,
  'loss_temperature': 1.0,
  'loss_margin': 1.0,
}


class DiPairStudent:
  """DiPair, as an experiment wants it."""

  name, title, scorer = 'dipair', 'DiPair', Scorer

  def __init__(self, config: RunConfig):
    self.config = config
    self.takes_labels = 'label' in config.train.objective.build().needs
    self.depends_on = flags.without(
      {**flags.flat(config.student), **flags.flat(config.train)}, _NEWER
    )

  def check(self) -> None:
    """Refuses a checkpoint that is not there or does not fit."""
    DiPair.read_pretrained(self.config.student)

  def train(self, folder: str, training: Training) -> list[dict[str, Any]]:
    """Distils into `folder`, in two stages."""
    return stages.train(self.config.student, self.config.train, folder, training)

  def models(self, folder: str) -> dict[str, TrainedStudent]:
    """The student after each stage."""
    found = {'student': DiPair.load(folder)}
    stage1 = os.path.join(folder, 'stage1')
    if os.path.exists(stage1):
      first = DiPair.load(folder)
      stages.restore(stage1, first[0])
      found = {'student, stage 1': first, **found}
    return found


def main(config: RunConfig) -> None:
  """Runs the experiment."""
  experiment.run(config.experiment, DiPairStudent(config), config)


if __name__ == '__main__':
  flags.command(main, RunConfig)
