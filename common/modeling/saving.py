"""A trained model's folder: `model.json`, `vocab.txt` and `weights`, loaded without its flags."""

import json
import os
from typing import Any

import tensorflow as tf
import tf_keras

from common.data.tokenization import Tokenizer
from common.errors import InputError

_FIELDS = 'model.json'


def save(
  folder: str, model: tf_keras.layers.Layer, tokenizer: Tokenizer, fields: dict[str, Any]
) -> None:
  """Writes a model; `fields` (JSON values) say how to build it, and come last."""
  tf.io.gfile.makedirs(folder)
  with tf.io.gfile.GFile(os.path.join(folder, 'vocab.txt'), 'w') as file:
    file.write('\n'.join(tokenizer.vocabulary) + '\n')
  tf.train.Checkpoint(variables=model.variables).write(os.path.join(folder, 'weights'))
  with tf.io.gfile.GFile(os.path.join(folder, _FIELDS), 'w') as file:
    file.write(json.dumps({'lower_case': tokenizer.lower_case, **fields}, indent=2) + '\n')


def read(folder: str) -> tuple[dict[str, Any], Tokenizer]:
  """The fields and the tokenizer of a model that `save` wrote."""
  try:
    with tf.io.gfile.GFile(os.path.join(folder, _FIELDS)) as file:
      fields = json.loads(file.read())
    with tf.io.gfile.GFile(os.path.join(folder, 'vocab.txt')) as file:
      vocabulary = file.read().rstrip('\n').split('\n')
  except tf.errors.NotFoundError as error:
    raise InputError(f'{folder}: no model there ({_FIELDS} and vocab.txt are missing)') from error
  return fields, Tokenizer(vocabulary, fields.pop('lower_case'))


def restore(folder: str, model: tf_keras.layers.Layer) -> None:
  """Reads the weights into a model built from the fields."""
  saved = tf.train.Checkpoint(variables=model.variables)
  try:
    saved.read(os.path.join(folder, 'weights')).assert_consumed()
  except (tf.errors.OpError, ValueError, AssertionError) as error:
    reason = str(error).splitlines()[0]
    raise InputError(f'{folder}: weights do not fit {_FIELDS}: {reason}') from error
