"""DSE (Figure 1): encoders of single sentences and the similarity of their vectors.

Dimensions: U distinct texts, L tokens, d width of a vector.
"""

from typing import Any

import tensorflow as tf

from common.modeling.similarity_head import unit
from common.modeling.student import Student
from dse.config import StudentConfig
from dse.encoder import SentenceEncoder
from dse.siamese import SIMILARITIES


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
