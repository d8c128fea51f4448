"""A trained model's folder: `model.json`, `vocab.txt` and `weights`, loaded without its flags."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from common import digests, files, schema
from common.data.tokenization import Tokenizer
from common.errors import InputError, check_pattern_free, damaged
from common.modeling import word_files

_FIELDS, _WEIGHTS = 'model.json', 'weights'
_REMEDY = 'copy the folder anew, or train anew'
_SCHEMA = {
  'kind': str,
  'encoder': dict,
  'lower_case': bool,
  'vocabulary': {'words': int, 'sha256': str},
}


def save(
  folder: str, model: tf_keras.layers.Layer, tokenizer: Tokenizer, fields: dict[str, Any]
) -> None:
  """Writes a model; `fields` (JSON values) say how to build it. Digests come last.

  The fields get the number of words in `vocab.txt` and its sha256: a word more or less shifts the
  ids of the words after it, and with them every score.
  """
  tf.io.gfile.makedirs(folder)
  words = word_files.written(tokenizer.vocabulary)
  with tf.io.gfile.GFile(os.path.join(folder, word_files.WORDS), 'wb') as file:
    file.write(words)
  _saved(model.variables).write(os.path.join(folder, _WEIGHTS))
  vocabulary = {'words': len(tokenizer.vocabulary), 'sha256': hashlib.sha256(words).hexdigest()}
  fields = {'lower_case': tokenizer.lower_case, 'vocabulary': vocabulary, **fields}
  with tf.io.gfile.GFile(os.path.join(folder, _FIELDS), 'w') as file:
    file.write(json.dumps(fields, indent=2) + '\n')
  of_weights = (name for name in files.names(folder) if name.startswith(f'{_WEIGHTS}.'))
  digests.write(folder, [_FIELDS, *of_weights])


def is_there(folder: str) -> bool:
  """Whether a folder is one that `save` wrote."""
  return tf.io.gfile.exists(os.path.join(folder, _FIELDS))


def read(folder: str) -> tuple[dict[str, Any], Tokenizer]:
  """The fields and the tokenizer of a model that `save` wrote.

  Raises:
    InputError: If there is none, or its vocabulary is not the one that it was trained with.
  """
  check_pattern_free(folder)
  path, vocabulary = (os.path.join(folder, name) for name in (_FIELDS, word_files.WORDS))
  try:
    digests.check(path, _REMEDY)
    fields = files.read_json(path, _REMEDY)
    with files.opened(vocabulary, 'rb') as file:
      written = file.read()
  except OSError as error:
    raise InputError(f'{folder}: no model there ({_FIELDS} and vocab.txt are missing)') from error
  with damaged(path, _REMEDY):
    schema.check(fields, _SCHEMA, 'model')
  saved = fields.pop('vocabulary')
  words = written.rstrip(b'\n').split(b'\n')
  digest = hashlib.sha256(written).hexdigest()
  if (len(words), digest) != (saved['words'], saved['sha256']):
    raise InputError(
      f'{vocabulary}: {len(words):,} words, sha256 {digest[:12]}; '
      f'the model was trained with {saved["words"]:,}, {saved["sha256"][:12]}: bring back '
      'that file, or train anew'
    )
  with damaged(vocabulary, _REMEDY):
    return fields, Tokenizer([word.decode() for word in words], fields.pop('lower_case'))


def described(folder: str) -> contextlib.AbstractContextManager[None]:
  """Refuses a folder if the block can build no model from its fields."""
  return damaged(os.path.join(folder, _FIELDS), _REMEDY)


def restore(folder: str, model: tf_keras.layers.Layer) -> None:
  """Reads the weights into a model built from the fields."""
  with _fitting(folder):
    _saved(model.variables).read(os.path.join(folder, _WEIGHTS)).assert_consumed()


def restore_first(folder: str, variables: Sequence[tf.Variable]) -> None:
  """Reads the first weights of a folder into variables."""
  with _fitting(folder):
    status = _saved(variables).read(os.path.join(folder, _WEIGHTS))
    status.expect_partial().assert_existing_objects_matched()


def shapes(folder: str) -> list[tuple[int, ...]]:
  """Shapes of the weights in a folder."""
  with _fitting(folder):
    found = tf.train.load_checkpoint(os.path.join(folder, _WEIGHTS)).get_variable_to_shape_map()
  return [tuple(shape) for name, shape in found.items() if name.startswith('variables/')]


def _saved(variables: Sequence[tf.Variable]) -> tf.train.Checkpoint:
  return tf.train.Checkpoint(variables=list(variables))


@contextlib.contextmanager
def _fitting(folder: str) -> Iterator[None]:
  """Refuses weights that are damaged, or do not fit the variables that get them in the block."""
  for name in files.names(folder):
    if name.startswith(f'{_WEIGHTS}.'):
      digests.check(os.path.join(folder, name), _REMEDY)
  try:
    yield
  except (tf.errors.OpError, ValueError, AssertionError) as error:
    reason = str(error).splitlines()[0]
    raise InputError(f'{folder}: weights do not fit {_FIELDS}: {reason}') from error
