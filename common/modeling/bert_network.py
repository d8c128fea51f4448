"""BERT's network, built from a small frozen config: tf-models' `BertEncoderV2`."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras
from official.modeling import activations
from official.nlp.modeling import networks

from common.errors import InputError

# Google's BERT uses the tanh approximation of GELU, Hugging Face's the exact (erf) one.
_ACTIVATIONS = {
  'gelu': tf_keras.activations.gelu,
  'gelu_tanh': activations.gelu,
  'relu': tf_keras.activations.relu,
}
ACTIVATIONS = tuple(_ACTIVATIONS)
_TANH = 'tanh'  # of tf-models' pooler

# What checkpoints' configs call them; `gelu` is the tanh one in Google's code.
_NAMES = {'gelu_new': 'gelu_tanh', 'gelu_pytorch_tanh': 'gelu_tanh', 'relu': 'relu'}


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
  """Shape of a BERT encoder.

  Args:
    vocab_size: Words in the vocabulary.
    hidden_size: Width of every layer; a multiple of `num_heads`.
    num_layers: Transformer layers.
    num_heads: Attention heads a layer.
    inner_dim: Width inside the feed-forward sublayer of a layer.
    max_positions: Longest text in tokens, special tokens included.
    type_vocab_size: Segments that a text may have.
    activation: Activation of the feed-forward sublayer; one of `ACTIVATIONS`.
    dropout: Rate in [0, 1) of hidden and attention dropout: a checkpoint's hidden rate.
    embedding_width: Width of the embeddings, which are projected to `hidden_size`; None: that one.
    pooler_activation: Activation of the pooler; 'tanh' or one of `ACTIVATIONS`.

  Raises:
    InputError: A value is out of range; the message holds it and what would be right.
  """

  vocab_size: int
  hidden_size: int
  num_layers: int
  num_heads: int
  inner_dim: int
  max_positions: int = 512
  type_vocab_size: int = 2
  activation: str = 'gelu_tanh'
  dropout: float = 0.1
  embedding_width: int | None = None
  pooler_activation: str = _TANH

  def __post_init__(self):
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      whole = isinstance(value, int) and not isinstance(value, bool)
      needed = field.type is int or (field.type == int | None and value is not None)
      if needed and not (whole and value >= 1):
        raise InputError(f'{field.name}={value!r}: an integer of 1 or more is needed')
    if self.hidden_size % self.num_heads:
      raise InputError(f'hidden_size={self.hidden_size}: not a multiple of {self.num_heads} heads')
    if self.activation not in ACTIVATIONS:
      raise InputError(f'activation={self.activation!r}: choose one of {", ".join(ACTIVATIONS)}')
    if not (isinstance(self.dropout, (int, float)) and 0 <= self.dropout < 1):
      raise InputError(f'dropout={self.dropout!r}: a rate in [0, 1) is needed')

  @classmethod
  def from_json(cls, fields: dict[str, Any], *, google: bool) -> 'EncoderConfig':
    """The config in a `config.json` (Hugging Face) or `bert_config.json` (Google).

    Raises:
      InputError: A field is missing, wrong, or says that this is not a BERT.
    """
    expected = {
      'model_type': 'bert',
      'position_embedding_type': 'absolute',
      'layer_norm_eps': 1e-12,
      'embedding_size': fields.get('hidden_size'),
      'is_decoder': False,
    }
    for name, value in expected.items():
      if fields.get(name) not in (value, None):
        raise InputError(f'{name}={fields[name]!r} is not supported; {value!r} is')
    choices = {'gelu': 'gelu_tanh' if google else 'gelu'} | _NAMES
    try:
      if not isinstance(act := fields['hidden_act'], str) or act not in choices:
        raise InputError(f'hidden_act={act!r}: not one of {", ".join(choices)}')
      return cls(
        vocab_size=fields['vocab_size'],
        hidden_size=fields['hidden_size'],
        num_layers=fields['num_hidden_layers'],
        num_heads=fields['num_attention_heads'],
        inner_dim=fields['intermediate_size'],
        max_positions=fields['max_position_embeddings'],
        type_vocab_size=fields['type_vocab_size'],
        activation=choices[act],
        dropout=fields.get('hidden_dropout_prob', 0.1),
      )
    except KeyError as error:
      raise InputError(f'no {error.args[0]!r}') from error


def build(
  config: EncoderConfig,
  *,
  output_range: int | None = None,
  attention_scores: bool = False,
) -> networks.BertEncoderV2:
  """Builds the encoder, all its variables created (randomly initialized).

  The encoder takes `input_word_ids`, `input_mask` and `input_type_ids`, [batch, tokens] int32, and
  gives `sequence_output` [batch, tokens, hidden], `encoder_outputs` (one a layer) and
  `pooled_output` [batch, hidden].

  Args:
    config: Its shape.
    output_range: Rows of the last layer to compute, from the first, 1 or more; None means all. The
      rows that are computed are exactly those of the full output.
    attention_scores: Whether it gives `attention_scores` too: one a layer, [batch, heads, tokens,
      tokens], of the last layer for its computed rows.

  Example:
    encoder = build(pretrained.config)
    checkpoints.restore(encoder, pretrained)
  """
  encoder = networks.BertEncoderV2(
    vocab_size=config.vocab_size,
    hidden_size=config.hidden_size,
    num_layers=config.num_layers,
    num_attention_heads=config.num_heads,
    max_sequence_length=config.max_positions,
    type_vocab_size=config.type_vocab_size,
    inner_dim=config.inner_dim,
    inner_activation=_ACTIVATIONS[config.activation],
    output_dropout=config.dropout,
    attention_dropout=config.dropout,
    initializer=tf_keras.initializers.TruncatedNormal(stddev=0.02),
    output_range=output_range,
    embedding_width=config.embedding_width,
    return_attention_scores=attention_scores,
    name='bert',
  )
  if config.pooler_activation != _TANH:
    encoder.pooler_layer.activation = _ACTIVATIONS[config.pooler_activation]
  token = tf.zeros([1, 1], tf.int32)
  encoder({'input_word_ids': token, 'input_mask': token + 1, 'input_type_ids': token})
  return encoder


def activation(config: EncoderConfig) -> Callable[[tf.Tensor], tf.Tensor]:
  """Activation of the feed-forward sublayers."""
  return _ACTIVATIONS[config.activation]
