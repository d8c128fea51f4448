"""A trained model's folder: `model.json`, `vocab.txt` and `weights`, loaded without its flags."""

import dataclasses
import json
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from common.data.tokenization import Tokenizer
from common.errors import InputError
from common.modeling.encoders import EncoderConfig

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


def save_student(folder: str, student: Any, tokenizer: Tokenizer) -> None:
  """Writes a student's folder: a layer with `config`, `encoder_config`, `outputs`, and a name."""
  fields = {
    'kind': student.name,
    'config': dataclasses.asdict(student.config),
    'encoder': dataclasses.asdict(student.encoder_config),
    'outputs': student.outputs,
  }
  save(folder, student, tokenizer, fields)


def load_student(
  folder: str, kind: str, student: Callable[..., Any], config: Callable[..., Any]
) -> tuple[Any, Tokenizer]:
  """Reads a folder that `save_student` wrote.

  Args:
    folder: Of the student.
    kind: Its name.
    student: Its class: of config, encoder's config, outputs and the word id of padding.
    config: The class of its config.

  Raises:
    InputError: If it holds something else.
  """
  fields, tokenizer = read(folder)
  if fields['kind'] != kind:
    raise InputError(f'{folder}: holds a {fields["kind"]}, not a {kind} student')
  values = {k: tuple(v) if isinstance(v, list) else v for k, v in fields['config'].items()}
  encoder = EncoderConfig(**fields['encoder'])
  model = student(config(**values), encoder, fields['outputs'], tokenizer.pad_id)
  restore(folder, model)
  return model, tokenizer
