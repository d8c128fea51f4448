"""Half of the dual encoder: an encoder's first K layers, with few tokens kept (§3.2-3.4).

Dimensions: b texts, t tokens, k kept tokens (N or M), H encoder width, D projected width.
"""

from typing import Any

import tensorflow as tf
import tf_keras

from common.modeling import encoders
from common.modeling.encoder import Encoded


class TokenEncoder(tf_keras.layers.Layer):
  """Encodes word ids and keeps the first, or last, k output tokens.

  Where the first are kept, the encoder's last layer is computed for those rows alone. Of 'mean',
  the mean of all a text's tokens stands in the place of [CLS] (as SBERT pools a sentence).

  Args:
    config: The encoder's config; its `num_layers` is K.
    most_tokens: The largest k that will be asked for.
    selection: 'first', 'last' or 'mean'.
    pad_id: Word id of padding.
  """

  def __init__(self, config: Any, most_tokens: int, selection: str, pad_id: int):
    super().__init__(name='token_encoder')
    self.encoder = encoders.build(config, pad_id, most_tokens if selection == 'first' else None)
    self.selection, self.pad_id = selection, pad_id

  def call(self, ids: tf.Tensor, tokens: int, training: bool | None = None) -> tf.Tensor:
    """Output tokens of each text (§3.3).

    Args:
      ids: [b, t] int32, padded at the end.
      tokens: k.
      training: Whether dropout is on.

    Returns:
      [b, k, H] float32; a position past the text's end is an all-zero row.
    """
    return self.keep(self.encoder(self.padded(ids, tokens), training=training), tokens)

  def padded(self, ids: tf.Tensor, tokens: int) -> tf.Tensor:
    """[b, t] word ids, padded to k tokens at least."""
    missing = tf.maximum(0, tokens - tf.shape(ids)[1])
    return tf.pad(ids, [[0, 0], [0, missing]], constant_values=self.pad_id)

  def keep(self, encoded: Encoded, tokens: int) -> tf.Tensor:
    """The kept of an encoder's tokens: [b, k, H], all-zero past the text's end."""
    outputs, mask = encoded.tokens, encoded.mask
    if self.selection == 'last':
      positions = self.kept_positions(mask, tokens)
      outputs = tf.gather(outputs, positions, batch_dims=1)
      mask = tf.gather(mask, positions, batch_dims=1)
    kept = tf.cast(outputs[:, :tokens], tf.float32)
    if self.selection == 'mean':
      kept = tf.concat([_mean(outputs, mask), kept[:, 1:]], 1)
    kept *= tf.cast(mask[:, :tokens, None], tf.float32)
    kept.set_shape([None, tokens, None])
    return kept

  def kept_positions(self, mask: tf.Tensor, tokens: int) -> tf.Tensor:
    """Position in the text of each kept token: [b, t] to [b, k]; past the end for a short text."""
    length = tf.reduce_sum(mask, 1, keepdims=True)  # [b, 1]
    start = tf.maximum(0, length - tokens) if self.selection == 'last' else tf.zeros_like(length)
    return start + tf.range(tokens)


def _mean(outputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
  """Mean of each text's tokens: [b, t, H] to [b, 1, H] float32."""
  weights = tf.cast(mask, tf.float32)[..., None]
  total = tf.reduce_sum(tf.cast(outputs, tf.float32) * weights, 1, keepdims=True)
  return tf.math.divide_no_nan(total, tf.reduce_sum(weights, 1, keepdims=True))


class Projection(tf_keras.layers.Layer):
  """Projects each kept token to D dimensions (§3.4); all-zero rows stay all-zero.

  Args:
    input_dim: H.
    dim: D; 0 leaves the tokens as they are.
  """

  def __init__(self, input_dim: int, dim: int, name: str):
    super().__init__(
      name=name, dtype=tf.float32
    )  # without a dense layer too, whatever training's is
    self.dense = None
    if dim:
      self.dense = tf_keras.layers.Dense(dim, name='projection')
      self.dense.build([None, None, input_dim])

  def call(self, tokens: tf.Tensor) -> tf.Tensor:
    """Maps [b, k, H] to [b, k, D]."""
    if self.dense is None:
      return tokens
    return tf.cast(self.dense(tokens), tf.float32) * present(tokens)[..., None]


class VectorTokens(tf_keras.layers.Layer):
  """Makes tokens of a vector in a text's place (§5): a dense layer instead of an encoder.

  The layer takes (vector - mean) * scale, in float32, so that the vector's numbers may be in any
  units: as they come, a large number would hide the others from AdamW, 8 bits and bfloat16.

  Args:
    width: w, the vector's.
    tokens: k.
    dim: D.

  Attributes:
    mean: [w], in the vector's units; not trained. Zeros until it is set.
    scale: [w], likewise, in one over these units; ones.
  """

  def __init__(self, width: int, tokens: int, dim: int, name: str):
    super().__init__(name=name, dtype=tf.float32)
    self.tokens = tokens
    self.mean = self.add_weight('mean', [width], initializer='zeros', trainable=False)
    self.scale = self.add_weight('scale', [width], initializer='ones', trainable=False)
    self.dense = tf_keras.layers.Dense(tokens * dim, dtype=tf.float32, name='tokens')
    self.dense.build([None, width])

  def call(self, vectors: tf.Tensor) -> tf.Tensor:
    """Maps [b, w] to [b, k, D]."""
    tokens = self.dense(self.standardized(vectors))
    return tf.reshape(tokens, [-1, self.tokens, self.dense.units // self.tokens])

  def standardized(self, vectors: tf.Tensor) -> tf.Tensor:
    """Vectors [b, w] without their numbers' units: [b, w]."""
    return (vectors - self.mean) * self.scale


def present(tokens: tf.Tensor) -> tf.Tensor:
  """1.0 where a token is, 0.0 at all-zero rows: [b, k, dim] to [b, k]."""
  return tf.cast(tf.reduce_max(tf.abs(tokens), axis=-1) != 0, tf.float32)


def attention_mask(tokens: tf.Tensor) -> tf.Tensor:
  """Numbers to add to attention logits, -1e9 at all-zero rows: [b, k, dim] to [b, 1, k]."""
  return (1.0 - present(tokens))[:, None] * -1e9
