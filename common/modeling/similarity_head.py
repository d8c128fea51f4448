"""Base class of heads that score a pair by one number, its similarity s: logits = scale * s + bias.

Dimensions: U texts, B pairs, O outputs.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
import tensorflow as tf
import tf_keras

from common.modeling.head import Head

_SCALE = 5.0  # before `start`
_MOST_SCALE = 20.0  # at the start
_START_PAIRS = 1000
_LEAST = 1e-12  # added to a squared length


class SimilarityHead(Head):
  """A head with a scale and a bias an output; a subclass has `part` and `similarity`.

  More outputs than one are no more than as many slopes and offsets of the one number.

  Args:
    name: The layer's.
    outputs: O.
  """

  pairs_only = True

  def __init__(self, name: str, outputs: int):
    super().__init__(name)
    constant = tf_keras.initializers.Constant
    self.scale = self.add_weight('scale', [outputs], initializer=constant(_SCALE))
    self.bias = self.add_weight('bias', [outputs], initializer=constant(0.0))

  def similarity(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Similarity of a part a slot: [B, ...] each to [B]; a single row goes with all the other's."""
    raise NotImplementedError

  def logits(
    self,
    parts: Sequence[tf.Tensor],
    vectors: Sequence[tf.Tensor] = (),
    training: bool | None = None,
  ) -> tf.Tensor:
    """Maps parts to logits [B, O] float32; a slot of one row goes with all others."""
    del vectors, training
    return self.similarity(*parts)[:, None] * self.scale + self.bias

  def start(self, vectors: Sequence[np.ndarray], seed: int) -> None:
    """Starts where logits of texts paired at random have mean 0 and deviation 1.

    Args:
      vectors: [U_i, *vector_shape] a slot, of some texts.
      seed: Seed of the pairs.
    """
    rng = np.random.default_rng(seed)
    drawn = [x[rng.integers(len(x), size=_START_PAIRS)] for x in vectors]
    parts = [self.part(tf.constant(x, tf.float32), slot) for slot, x in enumerate(drawn)]
    found = self.similarity(*parts).numpy()
    scale = min(_MOST_SCALE, 1 / max(found.std(), 1e-6))
    self.scale.assign(np.full(self.scale.shape, scale))
    self.bias.assign(np.full(self.bias.shape, -scale * found.mean()))

  def exported(self) -> Self:
    """The head itself: its part already holds the computation per text."""
    return self


class Cosine(SimilarityHead):
  """The cosine between one vector a text: logits = scale * cos(u, v) + bias.

  Args:
    name: The layer's.
    outputs: O.
  """

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    """Vectors of length 1: [U, D] to the same; an all-zero one stays all-zero."""
    del slot
    return unit(vectors)

  def similarity(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Cosines: [B, D] each to [B]."""
    return tf.reduce_sum(left * right, axis=-1)


def unit(x: tf.Tensor) -> tf.Tensor:
  """The last axis with length 1; all-zero rows stay all-zero."""
  # Written out: `l2_normalize` would be an operation of its own in LiteRT.
  return x * tf.math.rsqrt(tf.reduce_sum(tf.square(x), axis=-1, keepdims=True) + _LEAST)


def cosines(products: tf.Tensor, squares: tf.Tensor) -> tf.Tensor:
  """Products [B, M, N] with vectors of squared lengths [B, M] as they are with their `unit`."""
  return products * tf.math.rsqrt(squares + _LEAST)[..., None]
