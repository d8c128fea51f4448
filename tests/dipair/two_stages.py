"""Training of tiny students in two short stages, of one distillation set."""

import dataclasses

import tf_keras

from common.data.task import Task
from common.distillation.trainer import Training
from common.training import strategies
from common.training.optimization import PhaseConfig
from dipair import training
from dipair.config import TrainConfig

PHASE = PhaseConfig(learning_rate=1e-2, batch_size=20, steps=3, warmup_steps=1, eval_every=1)
PHASES = TrainConfig(stage1=PHASE, stage2=dataclasses.replace(PHASE, learning_rate=1e-3))


def train(config, folder, distill, phases=PHASES, **devices):
  devices = strategies.DeviceConfig(**devices)
  strategy = strategies.create(devices)
  tf_keras.utils.set_random_seed(3)
  return training.train(
    config,
    phases,
    str(folder),
    Training(distill, distill, Task(), devices, strategy, seed=1),
  )


def losses(histories):
  return [entry['loss'] for history in histories for entry in history['history'][1:]]
