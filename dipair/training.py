"""The two stages of training (§3.7): first what is new, on frozen encoders, then everything."""

import os
from typing import Any

import tensorflow as tf

from common.data.records import RecordSet
from common.distillation.trainer import Trainer, Training
from common.training import checkpoints
from dipair import frozen_right, initialization
from dipair.config import STARTS, StudentConfig, TrainConfig
from dipair.student import DiPair

STAGES = ('stage1', 'stage2')
_START_ITEMS = 1000  # of a slot
_START_TUPLES = 50_000  # that say which texts a vector goes with


def check(config: StudentConfig, outputs: int) -> None:
  """Refuses a checkpoint, or a run with `--freeze_right`, that is not there or does not fit.

  Args:
    config: Architecture.
    outputs: Outputs of the student.
  """
  DiPair.read_pretrained(config)
  if config.freeze_right:
    frozen_right.read(config, outputs)


def train(
  config: StudentConfig, phases: TrainConfig, folder: str, training: Training
) -> list[dict[str, Any]]:
  """Distils a student into `folder`; resumes unfinished work there.

  Args:
    config: Architecture.
    phases: The loss and the two stages.
    folder: The student's folder.
    training: Data, devices and seed.

  Returns:
    The stages' histories, as of `loop.fit`.
  """
  with training.strategy.scope():
    widths = RecordSet(training.distill).widths
    starts = {} if config.freeze_right else training.starts
    model, tokenizer = DiPair.from_pretrained(config, training.task.outputs, widths, starts)
  trainer = Trainer(model, tokenizer, training, phases.objective.build(training.task))
  histories = []
  for stage, phase in zip(STAGES, (phases.stage1, phases.stage2), strict=True):
    if phase.steps:
      path = os.path.join(folder, stage)
      if not histories and tf.train.latest_checkpoint(os.path.join(path, 'checkpoints')) is None:
        if config.freeze_right:
          frozen_right.start(model, frozen_right.read(config, training.task.outputs))
        else:
          start(model, trainer, phases.head_start)
      frozen, name = stage == 'stage1', stage.replace('stage', 'stage ')
      gb = phases.stage1_cache_gb
      histories.append(trainer.fit(name, phase, path, frozen=frozen, cache_gb=gb))
  model.save(folder, tokenizer)
  return histories


def start(model: DiPair, trainer: Trainer, head_start: str = STARTS[0]) -> None:
  """Sets the new weights' starting point, by what the distillation set begins with.

  At random they stay as they were made; vectors in place of texts still get their units.
  """
  if head_start == 'random':
    if any(model.widths):
      initialization.set_units(model, trainer.first_features(_START_ITEMS))
    return
  slots = initialization.matched_slots(model)
  matches = trainer.first_tuples(_START_TUPLES, slots) if slots else None
  initialization.start(model, trainer.first_features(_START_ITEMS), trainer.seed, matches)


def restore(folder: str, model: DiPair) -> None:
  """Loads the best weights of a stage, from its folder, into a model."""
  checkpoints.restore_best(tf.train.Checkpoint(variables=model.variables), folder)
