"""BERT's weights in TensorFlow's checkpoints: TF1's (google-research/bert) and TF2's (tf-models).

A TF1 checkpoint has the names of `bert_weights` already. A TF2 one names object paths: those in
`BertEncoderV2`, or in the functional `BertEncoder` of before, which numbers its layers.
"""

import os
import re
from typing import Any

import tensorflow as tf

from common.errors import InputError, check_pattern_free
from common.modeling import bert_weights
from common.modeling.bert_weights import Weights

CONFIG = 'bert_config.json'
_SUFFIX = '/.ATTRIBUTES/VARIABLE_VALUE'
_PASSED_OVER = re.compile(  # besides optimizer slots
  r'_CHECKPOINTABLE|save_counter|optimizer/|masked_lm/|.*(_heads/|\.\.)'
)
_SLOT = re.compile(r'/adam\w*$', re.IGNORECASE)  # of TF1's optimizer
_QUERY = r'(.*?)(_transformer_layers/0|layer_with_weights-4)/_attention_layer/_query_dense/kernel'
_FUNCTIONAL = (  # the first layers with weights of the functional `BertEncoder`, in order
  '_embedding_layer',
  '_position_embedding_layer',
  '_type_embedding_layer',
  '_embedding_norm_layer',
)


def version(folder: str) -> int:
  """Major version, 1 or 2, of the TensorFlow that wrote the folder's checkpoint.

  Raises:
    InputError: There is not one checkpoint.
  """
  return 2 if '_CHECKPOINTABLE_OBJECT_GRAPH' in _opened(folder)[1] else 1


def read_tf1(folder: str) -> Weights:
  """The encoder's weights; heads, optimizer slots and counters are passed over."""
  reader, keys = _opened(folder)
  keys = [key for key in keys if key.startswith('bert/') and not _SLOT.search(key)]
  return {key: reader.get_tensor(key) for key in keys}


def read_tf2(folder: str) -> Weights:
  """Weights of a TF2 checkpoint; one that BERT lacks keeps its object path for a name.

  Raises:
    InputError: There is not one encoder.
  """
  reader, keys = _opened(folder)
  keys = [key.removesuffix(_SUFFIX) for key in keys if '.OPTIMIZER_SLOT' not in key]
  scopes = [match[1] for match in (re.fullmatch(_QUERY, key) for key in keys) if match]
  if len(scopes) != 1:
    raise InputError(f'one BERT encoder is needed; the checkpoint has {len(scopes)} {scopes}')
  found = {}  # object path in BertEncoderV2 -> checkpoint key
  for key in keys:
    if key.startswith(scopes[0]) and not _PASSED_OVER.match(key):
      found[_place(key.removeprefix(scopes[0]))] = key
  for key in keys:
    if key.endswith('masked_lm/embedding_table'):  # shared with the encoder, stored once
      found.setdefault('_embedding_layer/embeddings', key)
    elif match := re.fullmatch(r'next_sentence\.\.pooler_dense/(kernel|bias)', key):
      found[f'_pooler_layer/{match[1]}'] = key  # where a pretrainer trains the pooler
  depth = len({at.split('/')[1] for at in found if at.startswith('_transformer_layers/')})
  names = {at: name for name, at in bert_weights.places(depth).items()}
  return {names.get(at, at): reader.get_tensor(key + _SUFFIX) for at, key in found.items()}


def _place(key: str) -> str:
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


def _opened(folder: str) -> tuple[Any, list[str]]:
  """Reader of the folder's one checkpoint, and its keys."""
  check_pattern_free(folder)
  names = sorted(name for name in tf.io.gfile.listdir(folder) if name.endswith('.index'))
  if 'bert_model.ckpt.index' in names:
    names = ['bert_model.ckpt.index']
  if len(names) != 1:
    raise InputError(f'{len(names)} checkpoints ({", ".join(names)}); one is needed')
  reader = tf.train.load_checkpoint(os.path.join(folder, names[0].removesuffix('.index')))
  return reader, sorted(reader.get_variable_to_shape_map())
