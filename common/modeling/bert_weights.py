"""A BERT's weights as one dictionary, by TF1's variable names: what every format is read into.

Attention heads and their width are two dimensions of a kernel in TF2, one in TF1 and Hugging Face's
folders. Both are taken.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging
from official.nlp.modeling import networks

from common.errors import InputError

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
_LAYERS = 'bert/encoder/layer_'
_OF_LAYER = re.compile(rf'{_LAYERS}(\d+)/')
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
_MOST_NAMED = 12  # problems that one error message lists


def places(num_layers: int, *, projected: bool = False) -> dict[str, str]:
  """{TF1 variable name: object path in BertEncoderV2} of all variables of an encoder."""
  paths = _EMBEDDINGS | (_PROJECTION if projected else {})
  for i in range(num_layers):
    for name, place in _LAYER.items():
      for leaf in ('gamma', 'beta') if 'LayerNorm' in name else ('kernel', 'bias'):
        paths[f'{_LAYERS}{i}/{name}/{leaf}'] = f'_transformer_layers/{i}/{place}/{leaf}'
  return paths | _POOLER


def of_encoder(encoder: networks.BertEncoderV2) -> Weights:
  """An encoder's weights, for `assign`; heads and their width are one dimension."""
  found = {}
  for name, variable in _variables(encoder).items():
    array = variable.numpy()
    found[name] = array.reshape(_merged(name, array.shape))
  return found


def first_layers(weights: Weights, count: int) -> Weights:
  """The weights without those of layers past the first ones.

  Raises:
    InputError: There are fewer layers.
  """
  numbers = (int(match[1]) for name in weights if (match := _OF_LAYER.match(name)))
  depth = 1 + max(numbers, default=-1)
  if count > depth:
    raise InputError(f'has {depth} BERT layers; the encoder asks for {count}')
  return of_layers(weights, range(count))


def of_layers(weights: Weights, kept: Sequence[int]) -> Weights:
  """The weights with some of the layers alone, numbered anew in the order of `kept`."""
  places, found = {number: place for place, number in enumerate(kept)}, {}
  for name, array in weights.items():
    if not (match := _OF_LAYER.match(name)):
      found[name] = array
    elif (number := int(match[1])) in places:
      found[f'{_LAYERS}{places[number]}/{name[match.end() :]}'] = array
  return found


def assign(encoder: networks.BertEncoderV2, weights: Weights) -> None:
  """Sets every variable of the encoder; strict.

  Args:
    encoder: An encoder from `bert_network.build`.
    weights: Its weights. The pooler's may be absent: it stays as it was initialized.

  Raises:
    InputError: Weights are missing, left over or of another shape, each named; none was set.
  """
  variables = _variables(encoder)
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


def _variables(encoder: networks.BertEncoderV2) -> dict[str, tf.Variable]:
  """An encoder's variables by TF1 name."""
  own, found = encoder.get_config(), {}
  projected = own['embedding_width'] != own['hidden_size']
  for name, place in places(own['num_layers'], projected=projected).items():
    *steps, leaf = place.split('/')
    layer: Any = encoder
    for step in steps:
      layer = layer[int(step)] if step.isdigit() else getattr(layer, step)
    found[name] = next(value for value in layer.weights if value.name.endswith(f'/{leaf}:0'))
  return found


def _merged(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
  """The shape of an encoder's variable with heads and their width as one dimension."""
  if name.endswith('attention/output/dense/kernel'):
    return (shape[0] * shape[1], shape[2])
  if '/attention/self/' in name:
    return (*shape[:-2], shape[-2] * shape[-1])
  return shape
