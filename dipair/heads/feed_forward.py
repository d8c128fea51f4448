"""DiPairFFNN (§4.2): the kept tokens laid end to end, through a few dense ReLU layers.

The first layer's rows split by text, W [x, y] = W_x x + W_y y: a text's part is W_x x.

With one token a text, as wide as the encoder's (`--output_tokens=1,1 --projection_dim=0`), it is
the paper's DE-FFNN: both [CLS] outputs, there 768 + 768 numbers, through the same layers.

Dimensions: U texts, B tuples, k_i kept tokens of slot i, D their width, R units of the first layer,
O outputs.
"""

import dataclasses
import functools
from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from common import flags
from common.modeling.head import Head


@dataclasses.dataclass(frozen=True)
class FeedForwardConfig:
  """Widths of its hidden layers."""

  dims: tuple[int, ...] = flags.option(
    (128, 128), "FFNN head's layer widths", bounds=(1, 65_536), may_be_empty=True
  )


class FeedForwardHead(Head):
  """The head.

  Args:
    config: Widths.
    tokens: k_i, a slot.
    dim: D.
    outputs: O.
    dropout: Rate, after each hidden layer.
  """

  def __init__(
    self, config: FeedForwardConfig, tokens: Sequence[int], dim: int, outputs: int, dropout: float
  ):
    super().__init__('feed_forward_head')
    self.tokens, self.dim = tuple(tokens), dim
    self.hidden = [
      tf_keras.layers.Dense(units, 'relu', name=f'hidden_{i}')
      for i, units in enumerate(config.dims)
    ]
    self.dropout = tf_keras.layers.Dropout(dropout)
    self.classifier = tf_keras.layers.Dense(outputs, dtype=tf.float32, name='classifier')
    self.first, *self.rest = [*self.hidden, self.classifier]
    self.first.build([None, sum(tokens) * dim])

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    """The text's share of the first layer: [U, k_i, D] to [U, R]."""
    start, width = sum(self.tokens[:slot]) * self.dim, self.tokens[slot] * self.dim
    return tf.reshape(vectors, [-1, width]) @ self.first.kernel[start : start + width]

  def logits(
    self,
    parts: Sequence[tf.Tensor],
    vectors: Sequence[tf.Tensor] = (),
    training: bool | None = None,
  ) -> tf.Tensor:
    """Maps parts, [B, R] a slot, to logits [B, O] float32."""
    del vectors
    x = self.first.activation(functools.reduce(tf.add, parts) + self.first.bias)
    for layer in self.rest:
      x = layer(self.dropout(x, training=training))
    return x

  def exported(self) -> 'RestructuredFeedForward':
    """This head with the first layer's rows split once, not at each call."""
    return RestructuredFeedForward(self)


class RestructuredFeedForward(tf.Module):
  """A `FeedForwardHead` as it is exported; later changes of the trained one are not seen."""

  takes_vectors, multiplies = False, False

  def __init__(self, head: FeedForwardHead):
    super().__init__(name='feed_forward')
    sizes = [k * head.dim for k in head.tokens]
    self.kernels = [tf.Variable(rows) for rows in tf.split(head.first.kernel, sizes)]
    self.bias = tf.Variable(head.first.bias)
    self.rest = [[tf.Variable(v) for v in layer.variables] for layer in head.rest]

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    kernel = self.kernels[slot]
    return tf.reshape(vectors, [-1, kernel.shape[0]]) @ kernel

  def logits(self, parts: Sequence[tf.Tensor], vectors: Sequence[tf.Tensor] = ()) -> tf.Tensor:
    del vectors
    x = self.bias + functools.reduce(tf.add, parts)
    for kernel, bias in self.rest:
      x = tf.nn.relu(x) @ kernel + bias
    return x
