"""MaxSim, the late interaction of ColBERT (Khattab and Zaharia 2020, §3.3), on the kept tokens.

s = mean_i max_j cos(x_i, y_j) over a left text's tokens x_i and a right one's tokens y_j. ColBERT
sums over queries of a fixed 32 tokens; of as many as a text has, the mean keeps scores of short and
long texts comparable.

Dimensions: U texts, B pairs, k_i kept tokens of slot i (N left, M right), D their width, O outputs.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from common.modeling.similarity_head import SimilarityHead, cosines, unit
from dipair.encoder import present


class MaxSimHead(SimilarityHead):
  """The head: logits = scale * s + bias.

  Parts are such that padding needs no mask. A padded left token is all zeros, so its maximum is 0.
  A right token that is not there, at the end or before it, is a copy of the text's first one that
  is, which changes no maximum.

  Args:
    config: None.
    tokens: k_i, a slot.
    dim: D.
    outputs: O.
    dropout: Not used.
  """

  multiplies = True

  def __init__(self, config: None, tokens: Sequence[int], dim: int, outputs: int, dropout: float):
    del config, dim, dropout
    super().__init__('max_sim_head', outputs)
    self.tokens = tuple(tokens)

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    """Tokens of length 1, left ones divided by their number: [U, k_i, D] to the same."""
    tokens, there = unit(vectors), present(vectors)[..., None]
    if slot == 1:
      # The first that is there has the highest place, the others one less or more.
      places = there * np.arange(self.tokens[1], 0, -1, dtype=np.float32)[:, None]  # [U, M, 1]
      first = there * tf.nn.relu(1.0 + places - tf.reduce_max(places, axis=1, keepdims=True))
      return tokens + (1.0 - there) * tf.reduce_sum(first * tokens, axis=1, keepdims=True)
    return tokens / tf.maximum(1.0, tf.reduce_sum(there, axis=1, keepdims=True))

  def similarity(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Maps [B, N, D] and [B, M, D] to [B]."""
    products = tf.matmul(left, right, transpose_b=True)  # [B, N, M]
    return tf.reduce_sum(tf.reduce_max(products, axis=-1), axis=-1)

  def logits_of_products(self, products: tf.Tensor, squares: tf.Tensor) -> tf.Tensor:
    """See `Head`."""
    there = tf.cast(squares > 0, tf.float32)[..., None]  # [B, M, 1]
    # Less than any cosine, unless all of a text's tokens are absent.
    absent = 3.0 * (there - tf.reduce_max(there, axis=1, keepdims=True))
    best = tf.reduce_max(cosines(products, squares) + absent, axis=1)
    return tf.reduce_sum(best, axis=-1, keepdims=True) * self.scale + self.bias
