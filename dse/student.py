"""DSE (Figure 1): encoders of single sentences and the similarity of their vectors.

A sentence's vector psi is its last layers, pooled and concatenated (§3.4).

Dimensions: U distinct texts, L tokens, H encoder width, d = pooled layers * H.
"""

from typing import Any

import tensorflow as tf
import tf_keras

from common.modeling import encoders
from common.modeling.similarity_head import unit
from common.modeling.student import Student
from dse.config import StudentConfig
from dse.similarity import SIMILARITIES


class SentenceEncoder(tf_keras.layers.Layer):
  """Embeds single texts, as segment A.

  Args:
    config: The encoder's config.
    pooled_layers: Number of last layers that are pooled.
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
    """Maps [U, L] word ids, padded at the end, to vectors [U, d] float32."""
    encoded = self.encoder(ids, training=training)
    if self.pooling == 'cls':
      layers = encoded.layers[-self.pooled_layers :]
      return tf.concat([tf.cast(tokens[:, 0], tf.float32) for tokens in layers], 1)
    first = 0 if self.pool_cls else 1
    kept = tf.cast(encoded.mask, tf.float32)[:, first:, None]  # [U, L - first, 1]
    pooled = []  # of a row without tokens, which fills up a batch of static shape, zeros
    for tokens in encoded.layers[-self.pooled_layers :]:
      tokens = tf.cast(tokens[:, first:], tf.float32)
      if self.pooling == 'mean':
        pooled.append(tf.reduce_sum(tokens * kept, 1) / tf.maximum(tf.reduce_sum(kept, 1), 1.0))
      else:
        found = tf.reduce_max(tf.where(kept > 0, tokens, tokens.dtype.min), 1)
        pooled.append(tf.where(tf.reduce_any(kept > 0, 1), found, 0.0))
    return tf.concat(pooled, 1)


class DSE(Student):
  """The student: features are vectors [d], or become so by their length alone.

  Args:
    config: Architecture.
    encoder: The encoder's own config.
    outputs: Logits a pair.
    pad_id: Word id of padding.
  """

  kind, config_class = 'dse', StudentConfig

  def __init__(self, config: StudentConfig, encoder: Any, outputs: int, pad_id: int):
    super().__init__(config, encoder, outputs, pad_id)
    self.dim = config.pooled_layers * encoder.hidden_size
    self.encoders = [
      SentenceEncoder(encoder, config.pooled_layers, config.pooling, config.pool_cls, pad_id)
      for _ in range(1 if config.shared_encoder else 2)
    ]
    self.make_head(SIMILARITIES[config.similarity](self.dim, config.similarity_dim, outputs))

  def feature_shape(self, slot: int) -> tuple[int, ...]:
    """d, whichever the slot."""
    del slot
    return (self.dim,)

  def features(self, ids: tf.Tensor, slot: int, training: bool | None = None) -> tf.Tensor:
    """A sentence's vector: [U, L] to [U, d]."""
    return self.encoder(slot)(ids, training=training)

  def vectors(self, features: tf.Tensor, slot: int) -> tf.Tensor:
    """Features as they are, or of length one: [U, d] to the same."""
    del slot
    return unit(features) if self.config.normalize else features

  def encoded_as(self, slot: int) -> int:
    """The first, where the encoder is shared."""
    return 0 if len(self.encoders) == 1 else slot

  @classmethod
  def needed_layers(cls, config: StudentConfig) -> dict[str, int]:
    """Layers of the encoder, and layers that are pooled."""
    return {'encoder_layers': config.encoder_layers, 'pooled_layers': config.pooled_layers}
