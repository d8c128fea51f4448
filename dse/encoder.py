"""The embedding function psi: an encoder's last layers, pooled and concatenated (§3.4).

Dimensions: b texts, t tokens, H encoder width, d = pooled layers * H.
"""

from typing import Any

import tensorflow as tf
import tf_keras

from common.modeling import encoders


class SentenceEncoder(tf_keras.layers.Layer):
  """Embeds single texts, as segment A.

  Args:
    config: The encoder's config.
    pooled_layers: L, the last layers that are pooled.
    pooling: 'mean' or 'max' over a layer's tokens; [SEP] is one of them, padding is not. 'cls':
      [CLS] alone.
    pool_cls: Whether [CLS] is one of them.
    pad_id: Word id of padding.
  """

  def __init__(self, config: Any, pooled_layers: int, pooling: str, pool_cls: bool, pad_id: int):
    super().__init__(name='sentence_encoder')
    self.encoder = encoders.build(config, pad_id)
    self.pooled_layers, self.pooling, self.pool_cls = pooled_layers, pooling, pool_cls

  def call(self, ids: tf.Tensor, training: bool | None = None) -> tf.Tensor:
    """Maps [b, t] word ids, padded at the end, to vectors [b, d] float32."""
    encoded = self.encoder(ids, training=training)
    if self.pooling == 'cls':
      layers = encoded.layers[-self.pooled_layers :]
      return tf.concat([tf.cast(tokens[:, 0], tf.float32) for tokens in layers], 1)
    first = 0 if self.pool_cls else 1
    kept = tf.cast(encoded.mask, tf.float32)[:, first:, None]  # [b, t - first, 1]
    pooled = []  # of a row without tokens, which fills up a batch of static shape, zeros
    for tokens in encoded.layers[-self.pooled_layers :]:
      tokens = tf.cast(tokens[:, first:], tf.float32)
      if self.pooling == 'mean':
        pooled.append(tf.reduce_sum(tokens * kept, 1) / tf.maximum(tf.reduce_sum(kept, 1), 1.0))
      else:
        found = tf.reduce_max(tf.where(kept > 0, tokens, tokens.dtype.min), 1)
        pooled.append(tf.where(tf.reduce_any(kept > 0, 1), found, 0.0))
    return tf.concat(pooled, 1)
