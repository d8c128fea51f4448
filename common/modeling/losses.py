"""Losses, example by example: tensors in, tensors out."""

import tensorflow as tf


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
