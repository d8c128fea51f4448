"""DiPair (Figure 2): encoders, truncation, projections and a head.

Dimensions: U distinct texts, L tokens, k_i kept tokens of slot i, H encoder width, D projected
width, B tuples, O outputs.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from common.modeling.checkpoints import Pretrained
from common.modeling.student import Student
from common.scoring import exported
from dipair import heads
from dipair.config import StudentConfig
from dipair.encoder import Projection, TokenEncoder, VectorTokens


class DiPair(Student):
  """The student: features are kept tokens [k, H], vectors projected ones [k, D].

  Of a slot of vectors, features are these [w], and a dense layer makes the tokens [k, D] (§5).

  Args:
    config: Architecture.
    encoder: The encoders' config; `config` has their depths.
    outputs: O.
    pad_id: Word id of padding.
    widths: w a slot, 0 where it holds texts; empty: all do.
  """

  kind, config_class = 'dipair', StudentConfig

  def __init__(
    self,
    config: StudentConfig,
    encoder: Any,
    outputs: int,
    pad_id: int,
    widths: Sequence[int] = (),
  ):
    layers = config.encoder_layers or encoder.num_layers
    config = dataclasses.replace(config, encoder_layers=layers)
    super().__init__(config, encoder, outputs, pad_id, widths)
    self.dim = config.projection_dim or encoder.hidden_size
    depths = [layers for slot, layers in enumerate(config.depths) if not self.widths[slot]]
    self.encoders = [
      TokenEncoder(
        dataclasses.replace(encoder, num_layers=layers),
        max(config.output_tokens),
        config.token_selection,
        pad_id,
      )
      for layers in (depths[:1] if config.one_encoder else depths)
    ]
    self.projections = [
      VectorTokens(width, config.output_tokens[slot], self.dim, f'projection_{slot}')
      if width
      else Projection(encoder.hidden_size, config.projection_dim, f'projection_{slot}')
      for slot, width in enumerate(self.widths)
    ]
    settings = getattr(config.heads, config.head, None)
    make = heads.HEADS[config.head]
    self.make_head(make(settings, config.output_tokens, self.dim, outputs, config.dropout))
    if config.freeze_right:
      self.encoders[1].trainable = self.projections[1].trainable = False

  def feature_shape(self, slot: int) -> tuple[int, ...]:
    """k, H; or w."""
    if self.widths[slot]:
      return (self.widths[slot],)
    return self.config.output_tokens[slot], self.encoder_config.hidden_size

  def features(self, ids: tf.Tensor, slot: int, training: bool | None = None) -> tf.Tensor:
    """Kept output tokens of the slot's encoder, [U, L] to [U, k, H]; vectors as they are."""
    if self.widths[slot]:
      return ids
    training = training and self.encoder(slot).trainable
    return self.encoder(slot)(ids, self.config.output_tokens[slot], training=training)

  def vector_shape(self, slot: int) -> tuple[int, ...]:
    """k, D."""
    return self.config.output_tokens[slot], self.dim

  def vectors(self, features: tf.Tensor, slot: int) -> tf.Tensor:
    """Projected tokens, [U, k, H] to [U, k, D]; or those made of a vector, [U, w] to [U, k, D]."""
    return self.projections[slot](features)

  def stored_under(self, slot: int) -> str:
    """The frozen right encoder's own fingerprint; empty of an encoder that was trained."""
    return right_fingerprint(self.config.freeze_right) if slot == 1 else ''

  @classmethod
  def read_pretrained(cls, config: StudentConfig) -> Pretrained:
    """The checkpoint, see `Student`; refuses a head that does not fit D, its width where D is 0."""
    pretrained = super().read_pretrained(config)
    settings: Any = getattr(config.heads, config.head, None)
    if hasattr(settings, 'check'):
      settings.check(config.projection_dim or pretrained.config.hidden_size)
    return pretrained

  @classmethod
  def needed_layers(cls, config: StudentConfig) -> dict[str, int]:
    """Layers by flag: a slot's own, and the common ones if a slot has none."""
    own = {
      'left_encoder_layers': config.left_encoder_layers,
      'right_encoder_layers': config.right_encoder_layers,
    }
    return own if all(own.values()) else {**own, 'encoder_layers': config.encoder_layers}


def right_fingerprint(run: str) -> str:
  """Fingerprint of the vectors that a finished run's export gives right texts; empty: no run."""
  if not run:
    return ''
  return exported.fingerprints(exported.describe(os.path.join(run, 'export')))['right']
