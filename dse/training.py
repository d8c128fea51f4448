"""Training DSE students: end to end, or the similarity function on frozen encoders (§3.2)."""

import os
from typing import Any

import tf_keras

from common.distillation.trainer import Trainer, Training
from dse.config import StudentConfig, TrainConfig
from dse.student import DSE

_START_ITEMS = 1000  # of a slot


def train(
  config: StudentConfig,
  variants: TrainConfig,
  folder: str,
  training: Training,
) -> list[dict[str, Any]]:
  """Distils each variant of a student into its folder (see `path`); resumes unfinished work.

  Args:
    config: Architecture.
    variants: Variants, loss and phases.
    folder: The students' folder.
    training: Data, devices and seed, the same for each variant.

  Returns:
    The variants' histories, as of `loop.fit`.
  """
  histories = []
  for variant in variants.variants:
    tf_keras.utils.set_random_seed(training.seed)
    frozen = variant == 'frozen'
    with training.strategy.scope():
      model, tokenizer = DSE.from_pretrained(config, training.task.outputs, starts=training.starts)
    trainer = Trainer(model, tokenizer, training, variants.loss_of(variant, training.task))
    if config.similarity == 'cosine':
      # An encoder's learning rate hardly moves a scale and a bias: they start where texts say.
      model.head.start(trainer.first_features(_START_ITEMS), training.seed)
    history = trainer.fit(
      title(variants, variant),
      variants.frozen_phase if frozen else variants.phase,
      os.path.join(path(folder, variants, variant), 'phase'),
      frozen=frozen,
      cache_gb=variants.cache_gb,
    )
    histories.append(history)
    model.save(path(folder, variants, variant), tokenizer)
  return histories


def path(folder: str, training: TrainConfig, variant: str) -> str:
  """A variant's folder: the first one's is the student's, the others' are in it."""
  return folder if variant == training.variants[0] else os.path.join(folder, variant)


def title(training: TrainConfig, variant: str) -> str:
  """A variant's name in reports: the first one is the student."""
  return 'student' if variant == training.variants[0] else f'student, {variant}'
