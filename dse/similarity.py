"""Heads from sentence vectors u, v to logits: DSE's own, and the two of SBERT.

DSE: f(u, v) = w^T ReLU(W [u, v, u*v, |u - v|]) (Eq. 3). W h is computed split: W = [W1, W2, W3,
W4], so W1 u and W2 v are computed once per text and only W3 (u * v) + W4 |u - v| per pair. It is
the same sum, in another order.

SBERT (Reimers and Gurevych, 2019, §3): its classification objective is `Concatenation` with
cross-entropy. Its regression objective is `Cosine` with squared error: a cos(u, v) + b, as a score
here is a sigmoid; SBERT takes the cosine itself.

Dimensions: B pairs, d width of a vector, r rows of W, C outputs.
"""

from collections.abc import Callable, Sequence
from typing import Self

import tensorflow as tf
import tf_keras

from common.modeling.head import Head
from common.modeling.similarity_head import Cosine


class SplitHead(Head):
  """A head with kernels `left` and `right`, [d, r], for each text alone; a subclass makes them."""

  takes_vectors = True
  left: tf.Variable
  right: tf.Variable

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    """W1 u of left texts, W2 v of right ones: [B, d] to [B, r]."""
    return vectors @ (self.left, self.right)[slot]

  def exported(self) -> Self:
    """The head itself, which is split already."""
    return self


class Similarity(SplitHead):
  """Eq. 3, with C columns of w for C outputs.

  Args:
    dim: d.
    rows: r.
    outputs: C.
  """

  def __init__(self, dim: int, rows: int, outputs: int):
    super().__init__('similarity')
    # Glorot's uniform for W as a whole, [4 d, r], of which each kernel is a quarter.
    limit = (6.0 / (4 * dim + rows)) ** 0.5
    uniform = tf_keras.initializers.RandomUniform
    self.left, self.right, self.product, self.difference = (
      self.add_weight(f'w_{name}', [dim, rows], initializer=uniform(-limit, limit))
      for name in ('left', 'right', 'product', 'difference')
    )
    self.output_weights = self.add_weight('w', [rows, outputs], initializer='glorot_uniform')

  def logits(
    self,
    parts: Sequence[tf.Tensor],
    vectors: Sequence[tf.Tensor] = (),
    training: bool | None = None,
  ) -> tf.Tensor:
    """Logits [B, C] of parts and vectors of both slots; a slot of one row goes with all others."""
    del training
    u, v = vectors
    hidden = parts[0] + parts[1] + (u * v) @ self.product + tf.abs(u - v) @ self.difference
    return tf.cast(tf.nn.relu(hidden) @ self.output_weights, tf.float32)


class Concatenation(SplitHead):
  """f(u, v) = W [u, v, |u - v|], before the softmax; W u and W v once per text.

  Args:
    dim: d.
    outputs: C, which is r too.
  """

  def __init__(self, dim: int, outputs: int):
    super().__init__('concatenation')
    self.left, self.right, self.difference = (
      self.add_weight(f'w_{name}', [dim, outputs], initializer='glorot_uniform')
      for name in ('left', 'right', 'difference')
    )

  def logits(
    self,
    parts: Sequence[tf.Tensor],
    vectors: Sequence[tf.Tensor] = (),
    training: bool | None = None,
  ) -> tf.Tensor:
    """Logits [B, C] of parts and vectors of both slots; a slot of one row goes with all others."""
    del training
    u, v = vectors
    return tf.cast(parts[0] + parts[1] + tf.abs(u - v) @ self.difference, tf.float32)


# A head is made of (width of a vector, rows of DSE's W, outputs).
SIMILARITIES: dict[str, Callable[[int, int, int], Head]] = {
  'dse': Similarity,
  'concat': lambda dim, rows, outputs: Concatenation(dim, outputs),
  'cosine': lambda dim, rows, outputs: Cosine('cosine', outputs),
}
