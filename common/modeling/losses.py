"""Losses: the targets of a batch's tuples and logits in, a loss each out."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import tensorflow as tf


class Loss(Protocol):
  """A loss of a batch's tuples.

  Attributes:
    needs: Which of 'label', 'teacher_logits' and 'soft_labels' it reads.
  """

  needs: Sequence[str]

  def __call__(self, tuples: Mapping[str, tf.Tensor], logits: tf.Tensor) -> tf.Tensor:
    """Maps {'items': [B, slots] int32, target: [B, O]} and logits [B, O] to losses [B]."""


class CrossEntropy:
  """Cross-entropy with one target (DiPair, Eq. 1).

  Args:
    target: 'soft_labels', or 'label'.
  """

  def __init__(self, target: str = 'soft_labels'):
    self.needs = (target,)

  def __call__(self, tuples: Mapping[str, tf.Tensor], logits: tf.Tensor) -> tf.Tensor:
    return cross_entropy(tuples[self.needs[0]], logits)


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
