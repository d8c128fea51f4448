"""Training a DSE student: end to end, or the similarity function alone on frozen encoders (§3.2)."""

import os
from typing import Any

import tensorflow as tf

from common.data.tokenization import Tokenizer
from common.distillation.trainer import Loss, Trainer
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
  **options: Any,
) -> list[dict[str, Any]]:
  """Distils a student into `folder`; resumes what it finds there.

  Args:
    config: Architecture.
    training: The phase and its loss.
    folder: Of the student.
    outputs: C.
    strategy: Where it is trained.
    **options: `distill`, `valid`, `task`, `devices` and `seed`, as for `Trainer`.

  Returns:
    The phase's history, as of `loop.fit`, in a list.
  """
  with strategy.scope():
    model, tokenizer = models.from_pretrained(config, outputs)
  one = trainer(model, tokenizer, training.alpha, strategy=strategy, **options)
  path = os.path.join(folder, 'phase')
  cache_gb = training.cache_gb if training.frozen else 0.0
  history = one.fit('student', training.phase, path, frozen=training.frozen, cache_gb=cache_gb)
  if strategies.is_chief(strategy):
    students.save(folder, model, tokenizer)
  return [history]


def trainer(model: DSE, tokenizer: Tokenizer, alpha: float, **options: Any) -> Trainer:
  """A trainer on the teacher's logits and the labels (Eq. 2)."""
  targets = ('teacher_logits', 'label')
  return Trainer(model, tokenizer, targets=targets, loss=loss(alpha), **options)


def loss(alpha: float) -> Loss:
  """Eq. 2: alpha ||S - T||^2 + (1 - alpha) l(S, R), of logits S, teacher's logits T, labels R.

  The label loss l is softmax cross-entropy for classes (§3.5). A regression's is the squared error
  of the score, sigmoid(S): the teacher's logits here are before a sigmoid, the labels after it.

  Args:
    alpha: From 0, labels alone, to 1, the teacher alone.

  Returns:
    A function of targets [B, 2 C], teacher's logits and then labels, and logits [B, C]; its value
    is [B].
  """

  def of(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    teacher, label = tf.split(targets, 2, axis=1)
    distillation = tf.reduce_sum(tf.square(logits - teacher), 1)
    if logits.shape[-1] == 1:
      hard = tf.square(tf.sigmoid(logits) - label)[:, 0]
    else:
      hard = cross_entropy(label, logits)
    return alpha * distillation + (1 - alpha) * hard

  return of
