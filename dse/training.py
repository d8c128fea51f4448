"""Training DSE students: end to end, or the similarity function alone on frozen encoders (§3.2)."""

import os
from typing import Any

import tensorflow as tf
import tf_keras

from common.data import records
from common.data.tokenization import Tokenizer
from common.distillation.trainer import Loss, Trainer
from common.errors import InputError
from common.modeling import students
from common.modeling.losses import cross_entropy
from common.training import strategies
from dse import model as models
from dse.config import StudentConfig, TrainConfig
from dse.model import DSE


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
  if training.least_alpha < 1:
    _check_labels(options['distill'], training.least_alpha)
  histories = []
  for variant in training.variants:
    tf_keras.utils.set_random_seed(seed)
    frozen = variant == 'frozen'
    with strategy.scope():
      model, tokenizer = models.from_pretrained(config, outputs)
      if teacher:
        students.start_from_teacher(model, teacher)
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
      students.save(path(folder, training, variant), model, tokenizer)
  return histories


def path(folder: str, training: TrainConfig, variant: str) -> str:
  """A variant's folder: the first one's is the student's, the others' are in it."""
  return folder if variant == training.variants[0] else os.path.join(folder, variant)


def title(training: TrainConfig, variant: str) -> str:
  """A variant's name in reports: the first one is the student."""
  return 'student' if variant == training.variants[0] else f'student, {variant}'


def trainer(model: DSE, tokenizer: Tokenizer, alpha: float, **options: Any) -> Trainer:
  """A trainer on the teacher's logits and, with an alpha below 1, the labels (Eq. 2)."""
  targets = ('teacher_logits', 'label') if alpha < 1 else ('teacher_logits',)
  return Trainer(model, tokenizer, targets=targets, loss=loss(alpha), **options)


def _check_labels(distill: str, alpha: float) -> None:
  """Refuses a tuple without a label, as where an --alpha of 1 did not ask for them before."""
  for example in records.read(distill):
    if example.label is None:
      raise InputError(
        f'{distill}: tuple {example.id!r} has no label, and alpha {alpha:g} takes labels: '
        '--alpha=1, or a --distillation_file with labels'
      )


def loss(alpha: float) -> Loss:
  """Eq. 2: alpha ||S - T||^2 + (1 - alpha) l(S, R), of logits S, teacher's logits T, labels R.

  The label loss l is softmax cross-entropy for classes (§3.5). A regression's is the squared error
  of the score, sigmoid(S): the teacher's logits here are before a sigmoid, the labels after it.

  Args:
    alpha: From 0, labels alone, to 1, the teacher alone.

  Returns:
    A function of targets [B, 2 C], teacher's logits and then labels (with alpha 1, [B, C]: no
    labels), and logits [B, C]; its value is [B].
  """

  def of(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    outputs = logits.shape[-1]
    teacher, label = targets[:, :outputs], targets[:, outputs:]
    distillation = tf.reduce_sum(tf.square(logits - teacher), 1)
    if alpha == 1:
      return distillation
    if outputs == 1:
      hard = tf.square(tf.sigmoid(logits) - label)[:, 0]
    else:
      hard = cross_entropy(label, logits)
    return alpha * distillation + (1 - alpha) * hard

  return of
