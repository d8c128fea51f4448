"""Eq. 2: the loss of DSE students.

Dimensions: B pairs, C outputs.
"""

import dataclasses

import tensorflow as tf

from common.modeling.losses import Tuples, cross_entropy


@dataclasses.dataclass(frozen=True)
class DistillationLoss:
  """alpha ||S - T||^2 + (1 - alpha) l(S, R), of logits S, teacher's logits T and labels R.

  The label loss l is softmax cross-entropy for classes (§3.5). A regression's is the squared error
  of the score, sigmoid(S): the teacher's logits here are before a sigmoid, the labels after it.

  Args:
    alpha: Weight of the teacher: 0 takes the labels alone, 1 the teacher alone.
  """

  alpha: float

  @property
  def needs(self) -> tuple[str, ...]:
    """The teacher's logits and the labels, but for what has no weight."""
    return (('teacher_logits',) if self.alpha > 0 else ()) + (('label',) if self.alpha < 1 else ())

  def __call__(self, tuples: Tuples, logits: tf.Tensor) -> tf.Tensor:
    """[B], of the needed targets, [B, C] each, and logits [B, C]."""
    loss = tf.zeros_like(logits[:, 0])
    if self.alpha > 0:
      squared = tf.square(logits - tuples['teacher_logits'])
      loss += self.alpha * tf.reduce_sum(squared, axis=1)
    if self.alpha < 1:
      loss += (1 - self.alpha) * _label_loss(tuples['label'], logits)
    return loss


def _label_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  if logits.shape[-1] == 1:
    return tf.square(tf.sigmoid(logits) - labels)[:, 0]
  return cross_entropy(labels, logits)
