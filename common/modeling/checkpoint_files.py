"""Files of a checkpoint's folder, local or `gs://`, and the path before what is wrong with them."""

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from common import schema
from common.errors import InputError


def content(folder: str, name: str) -> bytes:
  """A file's bytes."""
  with tf.io.gfile.GFile(os.path.join(folder, name), 'rb') as file:
    return file.read()


def read_json(folder: str, name: str) -> dict[str, Any]:
  """A JSON object in a checkpoint's folder."""
  try:
    found = json.loads(content(folder, name))
    schema.check(found, {})
    return found
  except ValueError as error:
    raise InputError(f'not a JSON object ({error})') from error


@contextlib.contextmanager
def located(path: str) -> Iterator[None]:
  """Adds the path to errors, TensorFlow's included."""
  try:
    yield
  except tf.errors.OpError as error:
    raise InputError(f'{path}: {" ".join(error.message.split())}') from error
  except (InputError, UnicodeDecodeError) as error:
    raise InputError(f'{path}: {error}') from error
