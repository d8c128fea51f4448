"""BERT's network, built from a small frozen config: tf-models' `BertEncoderV2`, and its weights' names."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
from absl import logging
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

Weights = dict[str, np.ndarray]  # by TF1 variable name

# TF1 variable name -> where BertEncoderV2, and thus its TF2 checkpoint, keeps the variable.
_POOLER = {f'bert/pooler/dense/{leaf}': f'_pooler_layer/{leaf}' for leaf in ('kernel', 'bias')}
WORDS, SEGMENTS = (f'bert/embeddings/{of}_embeddings' for of in ('word', 'token_type'))
_EMBEDDINGS = {
  WORDS: '_embedding_layer/embeddings',
  'bert/embeddings/position_embeddings': '_position_embedding_layer/embeddings',
  SEGMENTS: '_type_embedding_layer/embeddings',
  'bert/embeddings/LayerNorm/gamma': '_embedding_norm_layer/gamma',
  'bert/embeddings/LayerNorm/beta': '_embedding_norm_layer/beta',
}
_PROJECTION = {
  f'bert/embeddings_project/{leaf}': f'_embedding_projection/{leaf}' for leaf in ('kernel', 'bias')
}
_LAYER = {
  'attention/self/query': '_attention_layer/_query_dense',
  'attention/self/key': '_attention_layer/_key_dense',
  'attention/self/value': '_attention_layer/_value_dense',
  'attention/output/dense': '_attention_layer/_output_dense',
  'attention/output/LayerNorm': '_attention_layer_norm',
  'intermediate/dense': '_intermediate_dense',
  'output/dense': '_output_dense',
  'output/LayerNorm': '_output_layer_norm',
}
_FUNCTIONAL = (  # the first layers with weights of the functional `BertEncoder`, in order
  '_embedding_layer',
  '_position_embedding_layer',
  '_type_embedding_layer',
  '_embedding_norm_layer',
)
_MOST_NAMED = 12  # problems that one error message lists


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
    dropout: Rate in [0, 1) of hidden and attention dropout; a checkpoint's hidden rate is taken for both.
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
    output_range: Rows of the last layer to compute, from the first; None means all. The rows that
      are computed are exactly those of the full output.
    attention_scores: Whether it gives `attention_scores` too: one a layer, [batch, heads, tokens,
      tokens], of the last layer for its computed rows.

  Example:
    encoder = build(pretrained.config)
    checkpoints.restore(encoder, pretrained)
  """
  if output_range is not None and output_range < 1:
    raise InputError(f'output_range={output_range}: 1 or more rows, or None for all')
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


def assign(encoder: networks.BertEncoderV2, weights: Weights) -> None:
  """Sets every variable of the encoder; strict.

  Args:
    encoder: An encoder from `build`.
    weights: Its weights; heads and their width are two dimensions (TF2) or one (TF1, Hugging
      Face). The pooler's may be absent: it stays as it was initialized.

  Raises:
    InputError: Weights are missing, left over or of another shape, each named; none was set.
  """
  own = encoder.get_config()
  wanted = places(own['num_layers'], projected=own['embedding_width'] != own['hidden_size'])
  variables = {name: _variable(encoder, place) for name, place in wanted.items()}
  if not weights.keys() & _POOLER.keys():
    logging.info('no weights for the pooler: it stays as initialized')
    variables = {name: v for name, v in variables.items() if name not in _POOLER}
  problems = []
  for name, variable in variables.items():
    split = tuple(variable.shape)
    merged = _merged(name, split)
    if name not in weights:
      problems.append(f'missing {name} {merged}')
    elif (found := weights[name].shape) not in (split, merged):
      needed = split if len(found) == len(split) else merged
      problems.append(f'{name} is {found}, the encoder needs {needed}')
  surplus = sorted(weights.keys() - variables.keys())
  problems += [f'surplus {name} {weights[name].shape}' for name in surplus]
  if problems:
    if len(problems) > _MOST_NAMED:
      problems[_MOST_NAMED:] = [f'and {len(problems) - _MOST_NAMED} more']
    raise InputError(f'the weights do not fit: {"; ".join(problems)}')
  for name, variable in variables.items():
    variable.assign(np.asarray(weights[name], np.float32).reshape(variable.shape))


def weights(encoder: networks.BertEncoderV2) -> Weights:
  """The encoder's weights, for `assign`; heads and their width are one dimension."""
  found, own = {}, encoder.get_config()
  projected = own['embedding_width'] != own['hidden_size']
  for name, place in places(own['num_layers'], projected=projected).items():
    array = _variable(encoder, place).numpy()
    found[name] = array.reshape(_merged(name, array.shape))
  return found


def activation(config: EncoderConfig) -> Callable[[tf.Tensor], tf.Tensor]:
  """Activation of the feed-forward sublayers."""
  return _ACTIVATIONS[config.activation]


def places(num_layers: int, *, projected: bool = False) -> dict[str, str]:
  """{TF1 variable name: object path in BertEncoderV2} of all variables of an encoder."""
  paths = _EMBEDDINGS | (_PROJECTION if projected else {})
  for i in range(num_layers):
    for name, place in _LAYER.items():
      for leaf in ('gamma', 'beta') if 'LayerNorm' in name else ('kernel', 'bias'):
        paths[f'bert/encoder/layer_{i}/{name}/{leaf}'] = f'_transformer_layers/{i}/{place}/{leaf}'
  return paths | _POOLER


def v2_place(key: str) -> str:
  """Object path in BertEncoderV2 of one in the functional `BertEncoder`; others stay."""
  key = key.replace('/_attention_output_dense/', '/_attention_layer/_output_dense/')  # until 2020
  match = re.match(r'layer_with_weights-(\d+)/(.+)', key)
  if not match:
    return key
  index, rest = int(match[1]), match[2]
  if index < len(_FUNCTIONAL):
    return f'{_FUNCTIONAL[index]}/{rest}'
  if rest in ('kernel', 'bias'):
    return f'_pooler_layer/{rest}'
  return f'_transformer_layers/{index - len(_FUNCTIONAL)}/{rest}'


def _merged(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
  """The shape of an encoder's variable with heads and their width as one dimension."""
  if name.endswith('attention/output/dense/kernel'):
    return (shape[0] * shape[1], shape[2])
  if '/attention/self/' in name:
    return (*shape[:-2], shape[-2] * shape[-1])
  return shape


def _variable(encoder: networks.BertEncoderV2, place: str) -> tf.Variable:
  *steps, leaf = place.split('/')
  layer: Any = encoder
  for step in steps:
    layer = layer[int(step)] if step.isdigit() else getattr(layer, step)
  return next(value for value in layer.weights if value.name.endswith(f'/{leaf}:0'))
