"""The embedding function psi: a BERT whose last layers' tokens are pooled and concatenated (§3.4).

Dimensions: b texts, t tokens, H encoder width, d = pooled layers * H.
"""

import tensorflow as tf
import tf_keras

from common.modeling import encoders
from common.modeling.encoders import EncoderConfig


class SentenceEncoder(tf_keras.layers.Layer):
  """Embeds single texts, as segment A.

  Args:
    config: Of the encoder.
    pooled_layers: L, the last layers that are pooled.
    pooling: 'mean' or 'max' over a layer's tokens; [SEP] is one of them, padding is not.
    pool_cls: Whether [CLS] is one of them.
    pad_id: Word id of padding.
  """

  def __init__(
    self, config: EncoderConfig, pooled_layers: int, pooling: str, pool_cls: bool, pad_id: int
  ):
    super().__init__(name='sentence_encoder')
    self.bert = encoders.build(config)
    self.pooled_layers, self.pooling, self.pool_cls = pooled_layers, pooling, pool_cls
    self.pad_id = pad_id

  def call(self, ids: tf.Tensor, training: bool | None = None) -> tf.Tensor:
    """Maps [b, t] word ids, padded at the end, to vectors [b, d] float32."""
    mask = tf.cast(ids != self.pad_id, tf.int32)  # [b, t]
    inputs = {'input_word_ids': ids, 'input_mask': mask, 'input_type_ids': tf.zeros_like(ids)}
    layers = self.bert(inputs, training=training)['encoder_outputs'][-self.pooled_layers :]
    first = 0 if self.pool_cls else 1
    kept = tf.cast(mask, tf.float32)[:, first:, None]  # [b, t - first, 1]
    pooled = []
    for tokens in layers:
      tokens = tf.cast(tokens[:, first:], tf.float32)
      if self.pooling == 'mean':
        pooled.append(tf.reduce_sum(tokens * kept, 1) / tf.reduce_sum(kept, 1))
      else:
        pooled.append(tf.reduce_max(tf.where(kept > 0, tokens, tokens.dtype.min), 1))
    return tf.concat(pooled, 1)
