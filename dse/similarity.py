"""The similarity function f(u, v) = w^T ReLU(W [u, v, u*v, |u - v|]) (Eq. 3).

W h is computed split: W = [W1, W2, W3, W4], so W1 u and W2 v are computed once per text and only
W3 (u * v) + W4 |u - v| per pair. It is the same sum, in another order.

Dimensions: B pairs, d width of a vector, r rows of W, C outputs.
"""

import tensorflow as tf
import tf_keras


class Similarity(tf_keras.layers.Layer):
  """Eq. 3, with C columns of w for C outputs.

  Args:
    dim: d.
    rows: r.
    outputs: C.
  """

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
    u, v = vectors
    return self.of_pairs(u, v, u @ self.left, v @ self.right)

  def of_pairs(self, u: tf.Tensor, v: tf.Tensor, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Logits [B, C], with W1 u and W2 v, [B, r] each, given; they and u may be of one row."""
    hidden = left + right + (u * v) @ self.product + tf.abs(u - v) @ self.difference
    return tf.cast(tf.nn.relu(hidden) @ self.output_weights, tf.float32)
