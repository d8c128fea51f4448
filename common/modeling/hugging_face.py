"""Hugging Face's encoders that are BERT's exactly, by other names: their configs and tensors.

DistilBERT has no segments: zeros in place of their embeddings change nothing. ELECTRA's embeddings
may have another width than its layers; then they are projected. Neither has a pooler.
"""

import dataclasses
import re
from typing import Any

import numpy as np
import safetensors
import tensorflow as tf

from common import schema
from common.errors import InputError
from common.modeling.bert_network import EncoderConfig
from common.modeling.bert_weights import SEGMENTS, Weights
from common.modeling.checkpoint_files import content, located, read_json

CONFIG, TENSORS = 'config.json', 'model.safetensors'

# Model type -> its config's names of BERT's fields.
_FIELDS = {
  'bert': {},
  'distilbert': {
    'hidden_size': 'dim',
    'num_hidden_layers': 'n_layers',
    'num_attention_heads': 'n_heads',
    'intermediate_size': 'hidden_dim',
    'hidden_act': 'activation',
    'hidden_dropout_prob': 'dropout',
  },
  'electra': {},
}
_TYPES = {'model_type': str, 'architectures': list[str], 'id2label': dict}
_DISTILBERT = {  # a part of a tensor's name -> BERT's
  'transformer.layer.': 'encoder.layer.',
  '.attention.q_lin.': '.attention.self.query.',
  '.attention.k_lin.': '.attention.self.key.',
  '.attention.v_lin.': '.attention.self.value.',
  '.attention.out_lin.': '.attention.output.dense.',
  '.sa_layer_norm.': '.attention.output.LayerNorm.',
  '.ffn.lin1.': '.intermediate.dense.',
  '.ffn.lin2.': '.output.dense.',
  '.output_layer_norm.': '.output.LayerNorm.',
}
_SEGMENTS = 2
_DTYPES = {
  'F64': np.float64,
  'F32': np.float32,
  'F16': np.float16,
  'BF16': tf.bfloat16.as_numpy_dtype,  # which safetensors' own reader lacks
  'I64': np.int64,  # of position numbers
}
_PASSED_OVER = re.compile(r'(cls|classifier|qa_outputs)\.|(\w+\.)?embeddings\.position_ids$')


def kind(fields: dict[str, Any]) -> str:
  """The model type of a `config.json`; refuses a network that is not BERT's."""
  try:
    for name, of in _TYPES.items():
      if fields.get(name) is not None:
        schema.check(fields[name], of, name)
  except ValueError as error:
    raise InputError(str(error)) from error
  found = fields.get('model_type') or 'bert'
  if found not in _FIELDS:
    raise InputError(
      f'model_type={found!r} is not supported; bert, distilbert and electra are read'
    )
  return found


def config(fields: dict[str, Any]) -> EncoderConfig:
  """The shape in a `config.json`."""
  of = kind(fields)
  renamed = {name: fields[own] for name, own in _FIELDS[of].items() if own in fields}
  fields = {**fields, **renamed, 'model_type': 'bert'}
  if of == 'distilbert':
    fields['type_vocab_size'] = _SEGMENTS
  width = fields.pop('embedding_size', None) if of == 'electra' else None
  made = EncoderConfig.from_json(fields, google=False)
  return dataclasses.replace(made, embedding_width=width)


def config_json(of: EncoderConfig, architecture: str) -> dict[str, Any]:
  """The `config.json` of a BERT, for `config`."""
  return {
    'architectures': [architecture],
    'model_type': 'bert',
    'vocab_size': of.vocab_size,
    'hidden_size': of.hidden_size,
    'num_hidden_layers': of.num_layers,
    'num_attention_heads': of.num_heads,
    'intermediate_size': of.inner_dim,
    'max_position_embeddings': of.max_positions,
    'type_vocab_size': of.type_vocab_size,
    'hidden_act': {'gelu_tanh': 'gelu_new'}.get(of.activation, of.activation),
    'hidden_dropout_prob': of.dropout,
    'attention_probs_dropout_prob': of.dropout,
    'layer_norm_eps': 1e-12,
  }


def read(folder: str) -> Weights:
  """The weights of a folder's encoder; heads are passed over."""
  of = kind(read_json(folder, CONFIG))
  tensors = read_tensors(folder)
  scope = f'{of}.' if any(key.startswith(f'{of}.') for key in tensors) else ''
  found = {}
  for key, array in tensors.items():
    if not key.startswith(scope) or _PASSED_OVER.match(key):
      continue
    key = key.removeprefix(scope)
    for part, name in _DISTILBERT.items() if of == 'distilbert' else ():
      key = key.replace(part, name)
    name = 'bert/' + key.replace('.', '/').replace('/layer/', '/layer_')
    if '/LayerNorm/' in name:
      name = name.replace('/weight', '/gamma').replace('/bias', '/beta')
    elif name.endswith('/weight'):
      name = name.removesuffix('/weight')
      if not name.endswith('_embeddings'):  # torch keeps a linear layer as [out, in]
        name, array = name + '/kernel', array.T
    found[name] = array
  if of == 'distilbert' and (words := found.get('bert/embeddings/word_embeddings')) is not None:
    found[SEGMENTS] = np.zeros([_SEGMENTS, words.shape[-1]], np.float32)
  return found


def read_tensors(folder: str) -> dict[str, np.ndarray]:
  """The tensors of a folder, by their names there; those of bfloat16 as float32, exactly.

  Raises:
    InputError: The file is damaged, or a tensor is of a type that is not read.
  """
  made = {}
  with located(TENSORS):
    try:
      found = safetensors.deserialize(content(folder, TENSORS))
    except safetensors.SafetensorError as error:
      raise InputError(f'damaged ({error}); copy it anew') from error
    for name, tensor in found:
      if (dtype := tensor['dtype']) not in _DTYPES:
        raise InputError(f'{name} is {dtype}; float32, float16 and bfloat16 weights are read')
      array = np.frombuffer(tensor['data'], _DTYPES[dtype]).reshape(tensor['shape'])
      made[name] = array.astype(np.float32) if dtype == 'BF16' else array
  return made


def tensors(of: Weights) -> dict[str, np.ndarray]:
  """A BERT's weights by Hugging Face's names, as `read` takes them."""
  found = {}
  for key, array in of.items():
    key = key.replace('/layer_', '/layer.').replace('/', '.')
    if key.endswith('.kernel'):  # torch keeps a linear layer as [out, in]
      key, array = key.removesuffix('kernel') + 'weight', array.T
    elif key.endswith('_embeddings'):
      key += '.weight'
    key = key.replace('.gamma', '.weight').replace('.beta', '.bias')
    found[key] = np.ascontiguousarray(array)
  return found
