"""Training DSE students: end to end, or the similarity function alone on frozen encoders (§3.2)."""

import os
from typing import Any

import tensorflow as tf
import tf_keras

from common.data.tokenization import Tokenizer
from common.distillation.trainer import Trainer
from common.training import strategies
from dse.config import StudentConfig, TrainConfig
from dse.loss import DistillationLoss
from dse.student import DSE


def train(
  config: StudentConfig,
  training: TrainConfig,
  folder: str,
  *,
  outputs: int,
  strategy: tf.distribute.Strategy,
  seed: int,
  teacher: str = '',
  **options: Any,
) -> list[dict[str, Any]]:
  """Distils each variant of a student into its folder (see `path`); resumes what it finds there.

  Args:
    config: Architecture.
    training: Variants, loss and phases.
    folder: Of the students.
    outputs: C.
    strategy: Where they are trained.
    seed: Of initial weights, dropout and shuffling; the same for each variant.
    teacher: Folder of the teacher that the encoder starts from; empty: the checkpoint.
    **options: `distill`, `valid`, `task` and `devices`, as for `Trainer`.

  Returns:
    The variants' histories, as of `loop.fit`.
  """
  histories = []
  for variant in training.variants:
    tf_keras.utils.set_random_seed(seed)
    frozen = variant == 'frozen'
    with strategy.scope():
      model, tokenizer = DSE.from_pretrained(config, outputs)
      if teacher:
        model.start_from_teacher(teacher)
    one = trainer(
      model, tokenizer, training.alpha_of(variant), strategy=strategy, seed=seed, **options
    )
    history = one.fit(
      title(training, variant),
      training.frozen_phase if frozen else training.phase,
      os.path.join(path(folder, training, variant), 'phase'),
      frozen=frozen,
      cache_gb=training.cache_gb,
    )
    histories.append(history)
    if strategies.is_chief(strategy):
      model.save(path(folder, training, variant), tokenizer)
  return histories


def path(folder: str, training: TrainConfig, variant: str) -> str:
  """A variant's folder: the first one's is the student's, the others' are in it."""
  return folder if variant == training.variants[0] else os.path.join(folder, variant)


def title(training: TrainConfig, variant: str) -> str:
  """A variant's name in reports: the first one is the student."""
  return 'student' if variant == training.variants[0] else f'student, {variant}'


def trainer(model: DSE, tokenizer: Tokenizer, alpha: float, **options: Any) -> Trainer:
  """A trainer on the teacher's logits and the labels (Eq. 2)."""
  return Trainer(model, tokenizer, loss=DistillationLoss(alpha), **options)
