"""Table, task, devices and seed, which all stages of a run share."""

import dataclasses
from typing import Any

import tensorflow as tf

from common.data.examples import TableConfig
from common.data.task import Task
from common.distillation import judged_set
from common.distillation.trainer import Training
from common.training.loop import Callback
from common.training.strategies import DeviceConfig


@dataclasses.dataclass(frozen=True)
class Shared:
  """Values shared by all stages of a run.

  Attributes:
    table: Columns of a tuple.
    task: Kind of the labels, and the metric that decides.
    devices: Devices and arithmetic.
    strategy: Made from `devices`.
    seed: Seed of data, initial weights, dropout and shuffling.
    callbacks: Called at each evaluation of a training.
  """

  table: TableConfig
  task: Task
  devices: DeviceConfig
  strategy: tf.distribute.Strategy
  seed: int
  callbacks: tuple[Callback, ...] = ()

  @property
  def training_flags(self) -> dict[str, Any]:
    """Flags that a stage with training depends on."""
    primary = judged_set.primary(self.task)
    return {'seed': self.seed, 'precision': self.devices.precision, 'primary_metric': primary}

  def training(self, targets: str, valid: str) -> Training:
    """Training on a record set with targets, judged on a labelled one."""
    return Training(
      distill=targets,
      valid=valid,
      task=self.task,
      devices=self.devices,
      strategy=self.strategy,
      seed=self.seed,
      callbacks=self.callbacks,
    )


@dataclasses.dataclass(frozen=True)
class Trained:
  """Histories of a training's phases, as from `loop.fit`."""

  phases: list[dict[str, Any]]
