"""The similarity function f(u, v) = w^T ReLU(W [u, v, u*v, |u - v|]) (Eq. 3).

W h is computed split: W = [W1, W2, W3, W4], so W1 u and W2 v are computed once per text and only
W3 (u * v) + W4 |u - v| per pair. It is the same sum, in another order.

Dimensions: B pairs, d width of a vector, r rows of W, C outputs.
"""

from collections.abc import Sequence

import tensorflow as tf
import tf_keras


class Similarity(tf_keras.layers.Layer):
  """Eq. 3, with C columns of w for C outputs.

  Args:
    dim: d.
    rows: r.
    outputs: C.
  """

  pairs_take_vectors, attends = True, False

  def __init__(self, dim: int, rows: int, outputs: int):
    super().__init__(name='similarity')
    # Glorot's uniform for W as a whole, [4 d, r], of which each part is a quarter.
    limit = (6.0 / (4 * dim + rows)) ** 0.5
    uniform = tf_keras.initializers.RandomUniform
    self.left, self.right, self.product, self.difference = (
      self.add_weight(f'w_{name}', [dim, rows], initializer=uniform(-limit, limit))
      for name in ('left', 'right', 'product', 'difference')
    )
    self.output_weights = self.add_weight('w', [rows, outputs], initializer='glorot_uniform')

  def call(self, vectors: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
    """Logits [B, C] of vectors u and v, [B, d] each."""
    return self.of_parts([self.part(x, number) for number, x in enumerate(vectors)], vectors)

  def part_shape(self, text: int) -> tuple[int, ...]:
    """Of W1 u, or W2 v: r."""
    del text
    return (self.product.shape[1],)

  def part(self, vectors: tf.Tensor, text: int) -> tf.Tensor:
    """W1 u of left texts, W2 v of right ones: [B, d] to [B, r]."""
    return vectors @ (self.left, self.right)[text]

  def of_parts(self, parts: Sequence[tf.Tensor], vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Logits [B, C] of parts and vectors of both sides; a side of one row goes with all others."""
    u, v = vectors
    hidden = parts[0] + parts[1] + (u * v) @ self.product + tf.abs(u - v) @ self.difference
    return tf.cast(tf.nn.relu(hidden) @ self.output_weights, tf.float32)
