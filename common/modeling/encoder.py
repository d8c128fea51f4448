"""The one face of an encoder: word ids in, tokens and their mask out.

Dimensions: b texts, t tokens, H width of a token.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf
import tf_keras

from common.errors import InputError
from common.modeling.checkpoints import Pretrained


class Encoded(NamedTuple):
  """Output of an encoder for a batch of texts.

  Attributes:
    layers: Tokens after each layer, [b, t, H]; the last layer may have its first rows alone.
    mask: [b, t] int32, 1 where a token is, 0 past the text's end.
    pooled: [b, H], one vector a text, where the encoder has one.
    attention: Attention scores of each layer, [b, heads, t, t], from an `attending` encoder.
  """

  layers: tuple[tf.Tensor, ...]
  mask: tf.Tensor
  pooled: tf.Tensor | None = None
  attention: tuple[tf.Tensor, ...] = ()

  @property
  def tokens(self) -> tf.Tensor:
    """The last layer's."""
    return self.layers[-1]


class Encoder(tf_keras.layers.Layer):
  """Encodes word ids; a subclass makes all its variables when it is built, and has `call`.

  Args:
    config: Frozen dataclass, an instance of `config_class`, with at least `hidden_size` (H),
      `num_layers`, `max_positions` and `dropout`.
    pad_id: Word id of padding.
    rows: Rows of the last layer that are needed, from the first; None: all. An encoder may give
      more.
  """

  config_class: ClassVar[type]

  def __init__(self, config: Any, pad_id: int, rows: int | None = None, name: str | None = None):
    super().__init__(name=name)
    self.config, self.pad_id, self.rows = config, pad_id, rows

  def call(
    self, ids: tf.Tensor, segment_ids: tf.Tensor | None = None, training: bool | None = None
  ) -> Encoded:
    """Encodes texts.

    Args:
      ids: [b, t] int32, padded at the end.
      segment_ids: [b, t] int32; None: all of segment 0.
      training: Whether dropout is on.
    """
    raise NotImplementedError

  @classmethod
  def read(cls, path: str) -> Pretrained:
    """The checkpoint that `--pretrained=KIND:PATH` names: config and vocabulary."""
    raise NotImplementedError

  def restore(self, pretrained: Pretrained) -> None:
    """Loads a checkpoint's weights; none, unless a subclass has some."""

  @property
  def unused_variables(self) -> list[tf.Variable]:
    """Trainable variables that no token depends on."""
    return []

  def attending(self) -> Encoder:
    """A copy that gives attention scores too."""
    raise InputError(f'{type(self).__name__} has no attention scores')

  def mask(self, ids: tf.Tensor) -> tf.Tensor:
    """Mask [b, t] int32: 1 at tokens, 0 at padding."""
    return tf.cast(ids != self.pad_id, tf.int32)


def without(
  variables: Iterable[tf.Variable], groups: Iterable[Iterable[tf.Variable]]
) -> list[tf.Variable]:
  """Variables that stand in none of the groups."""
  left_out = {id(variable) for group in groups for variable in group}
  return [variable for variable in variables if id(variable) not in left_out]
