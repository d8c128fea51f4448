"""The two stages of training (§3.7): first what is new, on frozen encoders, then everything."""

import os
from typing import Any

import tensorflow as tf

from common.data.tokenization import Tokenizer
from common.distillation.trainer import Trainer
from common.modeling.losses import CrossEntropy
from common.training import strategies
from dipair import initialization
from dipair.config import StudentConfig, TrainConfig
from dipair.student import DiPair

STAGES = ('stage1', 'stage2')
_START_TEXTS = 1000  # of a slot


def train(
  config: StudentConfig,
  phases: TrainConfig,
  folder: str,
  *,
  outputs: int,
  strategy: tf.distribute.Strategy,
  **training: Any,
) -> list[dict[str, Any]]:
  """Distils a student into `folder`; resumes what it finds there.

  Args:
    config: Architecture.
    phases: The two stages.
    folder: Of the student.
    outputs: O.
    strategy: Where it is trained.
    **training: `distill`, `valid`, `task`, `devices` and `seed`, as for `Trainer`.

  Returns:
    The stages' histories, as of `loop.fit`.
  """
  with strategy.scope():
    model, tokenizer = DiPair.from_pretrained(config, outputs)
  one = trainer(model, tokenizer, strategy=strategy, **training)
  histories = []
  for stage, phase in zip(STAGES, (phases.stage1, phases.stage2), strict=True):
    if phase.steps:
      path = os.path.join(folder, stage)
      if not histories and tf.train.latest_checkpoint(os.path.join(path, 'checkpoints')) is None:
        start(model, one)
      frozen, name = stage == 'stage1', stage.replace('stage', 'stage ')
      history = one.fit(name, phase, path, frozen=frozen, cache_gb=phases.stage1_cache_gb)
      histories.append(history)
  if strategies.is_chief(strategy):
    model.save(folder, tokenizer)
  return histories


def trainer(model: DiPair, tokenizer: Tokenizer, **training: Any) -> Trainer:
  """A trainer on the teacher's soft labels, by cross-entropy (Eq. 1)."""
  return Trainer(model, tokenizer, loss=CrossEntropy(), **training)


def start(model: DiPair, one: Trainer) -> None:
  """Sets the new weights' starting point, by the first texts of its trainer's distillation set."""
  texts = one.first_texts(_START_TEXTS)
  features = [one.scorer.features(some, slot) for slot, some in enumerate(texts)]
  initialization.start(model, features, one.seed)


def restore(folder: str, model: DiPair) -> None:
  """Puts the best weights of a stage, in its folder, into a model."""
  best = tf.train.latest_checkpoint(os.path.join(folder, 'best'))
  tf.train.Checkpoint(variables=model.variables).restore(best).assert_consumed()
