"""What all stages of a run share."""

import dataclasses
from typing import Any

import tensorflow as tf

from common.data.examples import TableConfig
from common.training.strategies import DeviceConfig


@dataclasses.dataclass(frozen=True)
class Run:
  """A run, as its stages see it.

  Attributes:
    folder: The run's folder.
    table: What a tuple and its label are.
    devices: Devices and arithmetic.
    strategy: Made from `devices`.
    seed: Seed of data, initial weights, dropout and shuffling.
  """

  folder: str
  table: TableConfig
  devices: DeviceConfig
  strategy: tf.distribute.Strategy
  seed: int

  @property
  def seed_flags(self) -> dict[str, Any]:
    """What a stage that draws depends on."""
    return {'seed': self.seed}

  @property
  def training_flags(self) -> dict[str, Any]:
    """What a stage that trains depends on."""
    return {**self.seed_flags, 'precision': self.devices.precision}


@dataclasses.dataclass(frozen=True)
class Trained:
  """What a training came to: its phases' histories, as of `loop.fit`."""

  phases: list[dict[str, Any]]
