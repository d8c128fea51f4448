"""LITE (Ji et al. 2024): a learnt late interaction, two small networks over the similarities.

From that paper, its separable form (Eq. 3 and 4): S = X Y^T of the tokens; each row of S goes
through one MLP, each column of the outcome through another, and a linear layer maps all entries to
the score. An MLP is z = ReLU(W' LayerNorm(ReLU(W s + b)) + b'), with 12 hidden units a token.

Otherwise here: tokens have length 1, so S holds cosines, as ColBERT's. The paper normalizes z too,
over 30 or 200 tokens; of the few that are kept this would leave little (of two, which is larger).
Biases b start at random: at zero, LayerNorm would take away how large similarities are.

A padded token's similarities are zeros. Which token stands where counts, as in a transformer head.

Dimensions: U texts, B pairs, k_i kept tokens of slot i (N left, M right), D their width, O outputs.
"""

from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from common.modeling.head import Head
from common.modeling.similarity_head import cosines, unit

_WIDENING = 12  # hidden units to a token, as in that paper's separable LITE (Eq. 3 and 4)


class LiteHead(Head):
  """The head.

  Args:
    config: None.
    tokens: k_i, a slot.
    dim: D.
    outputs: O.
    dropout: Rate, of the hidden units.
  """

  pairs_only, multiplies = True, True

  def __init__(self, config: None, tokens: Sequence[int], dim: int, outputs: int, dropout: float):
    del config, dim
    super().__init__('lite_head')
    self.tokens = tuple(tokens)
    left, right = tokens
    self.rows, self.columns = Mixer('rows', right, dropout), Mixer('columns', left, dropout)
    self.classifier = tf_keras.layers.Dense(outputs, dtype=tf.float32, name='classifier')

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    """Tokens of length 1: [U, k_i, D] to the same; all-zero rows stay all-zero."""
    del slot
    return unit(vectors)

  def logits(
    self,
    parts: Sequence[tf.Tensor],
    vectors: Sequence[tf.Tensor] = (),
    training: bool | None = None,
  ) -> tf.Tensor:
    """Maps parts, [B, k_i, D] a slot, to logits [B, O] float32."""
    del vectors
    x = self.rows(tf.matmul(*parts, transpose_b=True), training=training)  # [B, N, M]
    x = self.columns(tf.transpose(x, [0, 2, 1]), training=training)  # [B, M, N]
    return self._classified(x)

  def logits_of_products(self, products: tf.Tensor, squares: tf.Tensor) -> tf.Tensor:
    """See `Head`."""
    x = self.rows.folded(tf.transpose(cosines(products, squares), [0, 2, 1]))  # [B, N, M]
    return self._classified(self.columns.folded(tf.transpose(x, [0, 2, 1])))

  def _classified(self, x: tf.Tensor) -> tf.Tensor:
    """Maps mixed similarities, [B, M, N], to logits."""
    left, right = self.tokens
    return self.classifier(tf.reshape(x, [-1, left * right]))


class Mixer(tf_keras.layers.Layer):
  """A small network on the last axis, which gives as many numbers.

  Args:
    name: The layer's.
    tokens: k, size of the axis.
    dropout: Rate.
  """

  def __init__(self, name: str, tokens: int, dropout: float):
    super().__init__(name=name, dtype=tf.float32)
    uniform = tf_keras.initializers.RandomUniform(-(tokens**-0.5), tokens**-0.5)
    hidden = _WIDENING * tokens
    self.inner = tf_keras.layers.Dense(hidden, 'relu', bias_initializer=uniform, name='inner')
    self.norm = tf_keras.layers.LayerNormalization(epsilon=1e-6, name='layer_norm')
    self.dropout = tf_keras.layers.Dropout(dropout)
    self.outer = tf_keras.layers.Dense(tokens, 'relu', name='outer')

  def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
    """Maps [B, ..., k] to the same."""
    return self.outer(self.dropout(self.norm(self.inner(x)), training=training))

  def folded(self, x: tf.Tensor) -> tf.Tensor:
    """Like `call`, without dropout, with the norm's weights in the outer layer's."""
    hidden = self.inner(x)
    centred = hidden - tf.reduce_mean(hidden, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    kernel = self.norm.gamma[:, None] * self.outer.kernel
    bias = tf.linalg.matvec(self.outer.kernel, self.norm.beta, transpose_a=True) + self.outer.bias
    scale = tf.math.rsqrt(variance + self.norm.epsilon)
    return tf.nn.relu(tf.matmul(centred, kernel) * scale + bias)
