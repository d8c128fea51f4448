"""Folder, table, devices and seed, which all stages of a run share."""

import dataclasses
from typing import Any

import tensorflow as tf

from common.data.examples import TableConfig
from common.distillation import judged_set
from common.distillation.trainer import Training
from common.evaluation import metrics
from common.training.loop import Callback
from common.training.strategies import DeviceConfig


@dataclasses.dataclass(frozen=True)
class Run:
  """A run, as its stages see it.

  Attributes:
    folder: The run's folder.
    table: Columns of a tuple, and what its label is.
    devices: Devices and arithmetic.
    strategy: Made from `devices`.
    seed: Seed of data, initial weights, dropout and shuffling.
    metric: The metric that decides; empty: the task's own.
    callbacks: Called at each evaluation of a training.
  """

  folder: str
  table: TableConfig
  devices: DeviceConfig
  strategy: tf.distribute.Strategy
  seed: int
  metric: str = ''
  callbacks: tuple[Callback, ...] = ()

  @property
  def seed_flags(self) -> dict[str, Any]:
    """Flags that a stage with random numbers depends on."""
    return {'seed': self.seed}

  @property
  def training_flags(self) -> dict[str, Any]:
    """Flags that a stage with training depends on."""
    watched = {'primary_metric': self.metric}
    if self.metric in ('', metrics.primary_metric(self.table.base_task)):
      watched = {}  # as in runs from before the flag
    return {**self.seed_flags, 'precision': self.devices.precision, **watched}

  def check_sets(self, data: str, *, teaches: bool = False) -> None:
    """Refuses labelled sets in `data` that could not judge what is trained, before it is.

    Args:
      data: The sets' folder.
      teaches: Whether a teacher is fine-tuned on `train`, which is checked then too.
    """
    table = self.table
    judged_set.check(data, table.base_task, self.metric, table.outputs)
    if teaches:
      judged_set.check_learnt(data)

  def training(self, targets: str, valid: str) -> Training:
    """Training on a record set with targets, judged on a labelled one."""
    return Training(
      distill=targets,
      valid=valid,
      task=self.table.base_task,
      outputs=self.table.outputs,
      devices=self.devices,
      strategy=self.strategy,
      seed=self.seed,
      metric=self.metric,
      callbacks=self.callbacks,
    )


@dataclasses.dataclass(frozen=True)
class Trained:
  """Histories of a training's phases, as from `loop.fit`."""

  phases: list[dict[str, Any]]
