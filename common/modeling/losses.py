"""Losses: the tuples of a whole batch and their logits in, a loss a tuple out.

Dimensions: B tuples, O outputs.
"""

import dataclasses
from typing import Protocol

import tensorflow as tf

Tuples = dict[str, tf.Tensor]


class Loss(Protocol):
  """A loss over a batch; one tuple's may depend on the others' (pairwise, listwise).

  Attributes:
    needs: Targets that it reads: of 'label', 'soft_labels' and 'teacher_logits'.
  """

  @property
  def needs(self) -> tuple[str, ...]:
    """As above."""

  def __call__(self, tuples: Tuples, logits: tf.Tensor) -> tf.Tensor:
    """The loss of each tuple: [B].

    Args:
      tuples: Each target of `needs`, [B, O] float32 (labels one-hot where O > 1), and 'items',
        [B, slots] int32: the number of each slot's item, the same for the same item in a batch.
      logits: [B, O] float32.
    """


@dataclasses.dataclass(frozen=True)
class CrossEntropy:
  """Eq. 1 (DiPair): `cross_entropy` of a target.

  Args:
    target: 'soft_labels' or 'label'.
  """

  target: str = 'soft_labels'

  @property
  def needs(self) -> tuple[str, ...]:
    """The target alone."""
    return (self.target,)

  def __call__(self, tuples: Tuples, logits: tf.Tensor) -> tf.Tensor:
    """[B], in nats."""
    return cross_entropy(tuples[self.target], logits)


LOSSES: dict[str, Loss] = {'cross_entropy': CrossEntropy()}


def cross_entropy(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  """Cross-entropy with labels, soft or hard (DiPair, Eq. 1).

  One output: -(y log p + (1 - y) log(1 - p)), p = sigmoid(z), for regression on [0, 1], binary
  classes and soft labels sigmoid(z_teacher / T) alike. More outputs: -Σ_c y_c log softmax(z)_c.

  Args:
    targets: [batch, outputs] in [0, 1]; rows sum to one where outputs > 1.
    logits: [batch, outputs], before the activation.

  Returns:
    [batch], in nats.
  """
  logits = tf.cast(logits, tf.float32)
  if logits.shape[-1] == 1:
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
    return tf.squeeze(losses, -1)
  return tf.nn.softmax_cross_entropy_with_logits(labels=targets, logits=logits)


def probabilities(logits: tf.Tensor, temperature: float = 1.0) -> tf.Tensor:
  """Soft labels (§4.3): sigmoid(z / T) for one output, softmax(z / T) for more.

  Args:
    logits: [batch, outputs].
    temperature: T > 0; higher is softer.

  Returns:
    [batch, outputs] in [0, 1].
  """
  scaled = tf.cast(logits, tf.float32) / temperature
  return tf.sigmoid(scaled) if logits.shape[-1] == 1 else tf.nn.softmax(scaled)
