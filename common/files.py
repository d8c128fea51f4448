"""Files: written whole or not at all, digested, and JSON in them. Local paths and `gs://`."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

_CHUNK = 1 << 20  # bytes read at a time


@contextlib.contextmanager
def whole(path: str) -> Iterator[str]:
  """A path to write to, which takes the place of `path` when the block ends without an error.

  with files.whole('manifest.json') as temporary, open(temporary, 'w') as file:
    file.write(text)
  """
  temporary = f'{path}.tmp'  # what a killed process leaves is overwritten by the next one
  yield temporary
  tf.io.gfile.rename(temporary, path, overwrite=True)


def sha256(path: str) -> str:
  """The SHA-256 of a file's bytes, in hexadecimal."""
  digest = hashlib.sha256()
  with tf.io.gfile.GFile(path, 'rb') as file:
    while chunk := file.read(_CHUNK):
      digest.update(chunk)
  return digest.hexdigest()


def read_json(path: str) -> dict[str, Any]:
  """Reads a JSON object."""
  with tf.io.gfile.GFile(path) as file:
    return json.loads(file.read())


def write_json(path: str, value: Any) -> None:
  """Writes JSON, whole or not at all."""
  with whole(path) as temporary, tf.io.gfile.GFile(temporary, 'w') as file:
    file.write(json.dumps(value, indent=1) + '\n')
