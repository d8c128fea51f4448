"""Hugging Face's encoders that are BERT's exactly, by other names: their configs, tokenizers and tensors.

DistilBERT has no segments: zeros in place of their embeddings change nothing. ELECTRA's embeddings may be
of another width than its layers, and are projected then. Neither has a pooler.
"""

import dataclasses
import re
from typing import Any

import numpy as np
import safetensors
import tensorflow as tf

from common import schema
from common.errors import InputError
from common.modeling.bert_network import SEGMENTS, EncoderConfig, Weights

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
_TYPES = {'model_type': str, 'architectures': [str], 'id2label': dict}  # of fields that are read
_REASONS = {
  'albert': 'its vocabulary is SentencePiece',
  'camembert': 'its vocabulary is SentencePiece',
  'deberta': 'its attention is of relative positions',
  'deberta-v2': 'its attention is of relative positions',
  'modernbert': 'its positions are rotary',
  'mpnet': 'its attention has a bias of relative positions',
  'roberta': 'its vocabulary is byte-level BPE, not word pieces',
  'xlm-roberta': 'its vocabulary is SentencePiece',
}
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
  'BF16': tf.bfloat16.as_numpy_dtype,
  'I64': np.int64,
  'I32': np.int32,
  'I16': np.int16,
  'I8': np.int8,
  'U8': np.uint8,
  'BOOL': np.bool_,
}
# Fields of a tokenizer.json that say that it splits texts as BERT's.
_TOKENIZER: dict[str, dict[str, Any]] = {
  'model': {'type': 'WordPiece', 'unk_token': '[UNK]', 'continuing_subword_prefix': '##'},
  'normalizer': {'type': 'BertNormalizer', 'clean_text': True, 'handle_chinese_chars': True},
  'pre_tokenizer': {'type': 'BertPreTokenizer'},
}
_PASSED_OVER = re.compile(r'(cls|classifier|qa_outputs)\.|(\w+\.)?embeddings\.position_ids$')


def kind(fields: dict[str, Any]) -> str:
  """The model type of a `config.json`; one that is not BERT's network is refused, with the reason."""
  try:
    for name, of in _TYPES.items():
      if fields.get(name) is not None:
        schema.check(fields[name], of, name)
  except ValueError as error:
    raise InputError(str(error)) from error
  found = fields.get('model_type') or 'bert'
  if found not in _FIELDS:
    reason = f': {_REASONS[found]}' if found in _REASONS else ' is not supported'
    raise InputError(f'model_type={found!r}{reason}; bert, distilbert and electra are read')
  return found


def config(fields: dict[str, Any]) -> EncoderConfig:
  """The shape in a `config.json`."""
  of = kind(fields)
  renamed = {name: fields[own] for name, own in _FIELDS[of].items() if own in fields}
  if of == 'distilbert':
    renamed['type_vocab_size'] = _SEGMENTS
  width = fields.get('embedding_size') if of == 'electra' else None
  own = (
    {'model_type': 'bert', 'embedding_size': None} if of == 'electra' else {'model_type': 'bert'}
  )
  made = EncoderConfig.from_json({**fields, **renamed, **own}, google=False)
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


def lower_case(settings: dict[str, Any], guess: bool) -> bool:
  """Whether a tokenizer lower-cases, by its `tokenizer_config.json`, else by a guess.

  Raises:
    InputError: It splits texts otherwise than BERT's.
  """
  found = settings.get('do_lower_case')
  lower = guess if found is None else bool(found)
  expected: dict[str, Any] = {
    'strip_accents': lower,
    'tokenize_chinese_chars': True,
    'do_basic_tokenize': True,
  }
  expected |= {'word_tokenizer_type': 'basic', 'subword_tokenizer_type': 'wordpiece'}  # Japanese
  for name, value in expected.items():
    if settings.get(name) not in (value, None):
      beside = f' beside do_lower_case={lower}' if name == 'strip_accents' else ''
      raise InputError(f'{name}={settings[name]!r}{beside} is not supported; {value!r} is')
  return lower


def normalizes_case(fields: dict[str, Any], guess: bool) -> bool:
  """Whether the normalizer of a `tokenizer.json` lower-cases; where it does not say, a guess.

  Raises:
    InputError: It does not do with accents as with case.
  """
  normalizer = fields.get('normalizer')
  if not isinstance(normalizer, dict) or not isinstance(found := normalizer.get('lowercase'), bool):
    return guess
  if (strip := normalizer.get('strip_accents')) not in (found, None):
    raise InputError(f'strip_accents={strip!r} beside lowercase={found} is not supported')
  return found


def word_pieces(fields: dict[str, Any]) -> tuple[tuple[str, ...], bool]:
  """The word pieces in a `tokenizer.json`, in the order of their ids, and whether it lower-cases.

  Raises:
    InputError: It splits texts otherwise than BERT's, or its ids have gaps.
  """
  try:
    for part, expected in _TOKENIZER.items():
      schema.check(fields.get(part), {}, part)
      for name, value in expected.items():
        if (found := fields[part].get(name)) != value:
          raise InputError(f'{part}.{name}={found!r} is not supported; {value!r} is')
    vocabulary = fields['model'].get('vocab')
    schema.check(fields['normalizer'], {'lowercase': bool}, 'normalizer')
    schema.check(vocabulary, {}, 'model.vocab')
    schema.check(list(vocabulary.values()), [int], 'ids of model.vocab')
  except ValueError as error:
    raise InputError(str(error)) from error
  lower = normalizes_case(fields, False)
  words = sorted(vocabulary, key=vocabulary.__getitem__)
  if [vocabulary[word] for word in words] != list(range(len(words))):
    raise InputError('model.vocab: its ids are not 0, 1, 2 and so on, each once')
  return tuple(words), lower


def arrays(content: bytes) -> dict[str, np.ndarray]:
  """The tensors in a safetensors file's bytes, by name; those of bfloat16 as float32, exactly.

  Raises:
    InputError: The file is damaged, or a tensor is of a type that is not read.
  """
  try:
    found = safetensors.deserialize(content)
  except safetensors.SafetensorError as error:
    raise InputError(f'damaged ({error}); copy it anew') from error
  made = {}
  for name, tensor in found:
    if (dtype := tensor['dtype']) not in _DTYPES:
      raise InputError(f'{name} is {dtype}; float32, float16 and bfloat16 weights are read')
    array = np.frombuffer(tensor['data'], _DTYPES[dtype]).reshape(tensor['shape'])
    made[name] = array.astype(np.float32) if dtype == 'BF16' else array
  return made


def tensors(of: Weights) -> dict[str, np.ndarray]:
  """A BERT's weights by Hugging Face's names, for `weights`."""
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


def weights(of: str, tensors: dict[str, np.ndarray]) -> Weights:
  """The encoder's weights, by TF1 variable name; heads are passed over."""
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
    zeros = np.zeros([_SEGMENTS, words.shape[-1]], np.float32)
    found[SEGMENTS] = zeros
  return found
