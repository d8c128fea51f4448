"""Files: written whole or not at all, digested, and JSON in them. Local paths and `gs://`."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

_CHUNK = 1 << 20  # bytes read at a time


@contextlib.contextmanager
def whole(path: str) -> Iterator[str]:
  """A path to write to, which takes the place of `path` when the block ends without an error.

  with files.whole('manifest.json') as temporary, open(temporary, 'w') as file:
    file.write(text)
  """
  temporary = f'{path}.tmp'  # what a killed process leaves is overwritten by the next one
  yield temporary
  if is_remote(path):
    import tensorflow as tf

    tf.io.gfile.rename(temporary, path, overwrite=True)
  else:
    os.replace(temporary, path)


def is_remote(path: str) -> bool:
  """Whether a path is a URL such as `gs://bucket/name`, which TensorFlow opens."""
  return '://' in path


def opened(path: str, mode: str = 'r') -> Any:
  """An open file, in UTF-8 where it is text; what is not there raises FileNotFoundError."""
  if not is_remote(path):
    return open(path, mode, encoding=None if 'b' in mode else 'utf-8')
  import tensorflow as tf

  if 'r' in mode and not tf.io.gfile.exists(path):
    raise FileNotFoundError(path)
  return tf.io.gfile.GFile(path, mode)


def names(folder: str) -> list[str]:
  """Names of the files and folders in a folder."""
  if not is_remote(folder):
    return sorted(os.listdir(folder))
  import tensorflow as tf

  return sorted(name.strip('/') for name in tf.io.gfile.listdir(folder))


def sha256(path: str) -> str:
  """The SHA-256 of a file's bytes, in hexadecimal."""
  digest = hashlib.sha256()
  with opened(path, 'rb') as file:
    while chunk := file.read(_CHUNK):
      digest.update(chunk)
  return digest.hexdigest()


def sha256_of_folder(folder: str, without: Sequence[str] = ()) -> str:
  """A digest of the files in a local folder, in the order of their paths, but those named."""
  digest = hashlib.sha256()
  for base, _, names in sorted(os.walk(folder)):
    for name in sorted(set(names) - set(without)):
      digest.update(bytes.fromhex(sha256(os.path.join(base, name))))
  return digest.hexdigest()


def read_json(path: str) -> Any:
  """Reads JSON."""
  with opened(path) as file:
    return json.loads(file.read())


def write_json(path: str, value: Any) -> None:
  """Writes JSON, whole or not at all."""
  with whole(path) as temporary, opened(temporary, 'w') as file:
    file.write(json.dumps(value, indent=1) + '\n')
