"""DiPair (Figure 2): encoders, truncation, projections and a head.

Dimensions: U distinct texts, L tokens, k_i kept tokens of slot i, H encoder width, D projected
width, B tuples, O outputs.
"""

import dataclasses
import os
from typing import Any

import tensorflow as tf

from common.modeling.student import Student
from common.scoring import exported
from dipair import heads
from dipair.config import StudentConfig
from dipair.encoder import Projection, TokenEncoder


class DiPair(Student):
  """The student: features are kept tokens [k, H], vectors projected ones [k, D].

  Args:
    config: Architecture.
    encoder: The encoders' own config but for their depths, which `config` has.
    outputs: O.
    pad_id: Word id of padding.
  """

  kind, config_class = 'dipair', StudentConfig

  def __init__(self, config: StudentConfig, encoder: Any, outputs: int, pad_id: int):
    super().__init__(config, encoder, outputs, pad_id)
    self.dim = config.projection_dim or encoder.hidden_size
    self.encoders = [
      TokenEncoder(
        dataclasses.replace(encoder, num_layers=layers),
        max(config.output_tokens),
        config.token_selection,
        pad_id,
      )
      for layers in (config.depths[:1] if config.one_encoder else config.depths)
    ]
    self.projections = [
      Projection(encoder.hidden_size, config.projection_dim, f'projection_{slot}')
      for slot in range(self.slots)
    ]
    self.make_head(
      heads.build(
        config.head, config.heads, config.output_tokens, self.dim, outputs, config.dropout
      )
    )
    if config.freeze_right:
      self.encoders[1].trainable = self.projections[1].trainable = False

  def feature_shape(self, slot: int) -> tuple[int, ...]:
    """k, H."""
    return self.config.output_tokens[slot], self.encoder_config.hidden_size

  def features(self, ids: tf.Tensor, slot: int, training: bool | None = None) -> tf.Tensor:
    """Kept output tokens of the slot's encoder: [U, L] to [U, k, H]."""
    training = training and self.encoder(slot).trainable
    return self.encoder(slot)(ids, self.config.output_tokens[slot], training=training)

  def vector_shape(self, slot: int) -> tuple[int, ...]:
    """k, D."""
    return self.config.output_tokens[slot], self.dim

  def vectors(self, features: tf.Tensor, slot: int) -> tf.Tensor:
    """Projected tokens: [U, k, H] to [U, k, D]."""
    return self.projections[slot](features)

  def kept_ids(self, ids: tf.Tensor, slot: int) -> tf.Tensor:
    """The word ids that the kept tokens stand on: [U, L] to [U, k]."""
    encoder, tokens = self.encoder(slot), self.config.output_tokens[slot]
    ids = encoder.padded(ids, tokens)
    positions = encoder.kept_positions(encoder.encoder.mask(ids), tokens)
    return tf.gather(ids, positions, batch_dims=1)

  def stored_under(self, slot: int) -> str:
    """The frozen right encoder's own fingerprint; empty of an encoder that was trained."""
    if slot != 1 or not self.config.freeze_right:
      return ''
    there = exported.describe(os.path.join(self.config.freeze_right, 'export'))
    return exported.fingerprints(there)['right']

  @classmethod
  def needed_layers(cls, config: StudentConfig) -> dict[str, int]:
    """Layers by flag: a slot's own, and those of all where a slot has none of its own."""
    own = {
      'left_encoder_layers': config.left_encoder_layers,
      'right_encoder_layers': config.right_encoder_layers,
    }
    return own if all(own.values()) else {**own, 'encoder_layers': config.encoder_layers}
