"""Files: written whole or not at all, digested, and JSON in them. Local paths and `gs://`."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from common.errors import InputError

_CHUNK = 1 << 20  # bytes read at a time
_SEAL = 'seal'  # of a JSON object: the sha256 of the rest of it


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
    put(temporary, path)


def put(source: str, target: str) -> None:
  """Gives a local file, or a folder, the name that declares it whole.

  Its bytes are on the disk before that, so a machine that loses its power leaves no half of it.
  """
  sync(source)
  os.replace(source, target)
  _sync(os.path.dirname(target) or '.')


def sync(path: str) -> None:
  """Waits until a local file, or all of a folder, is on the disk."""
  if os.path.isdir(path):
    for base, _, names in os.walk(path, topdown=False):
      for name in names:
        _sync(os.path.join(base, name))
      _sync(base)
  else:
    _sync(path)


def _sync(path: str) -> None:
  number = os.open(path, os.O_RDONLY)
  try:
    os.fsync(number)
  except OSError:
    if not os.path.isdir(path):  # some file systems have none of folders
      raise
  finally:
    os.close(number)


@contextlib.contextmanager
def alone(path: str, name: str) -> Iterator[None]:
  """Keeps other processes out of a folder, named by a flag or an argument; on NFS, nobody."""
  import fcntl  # which Windows, where texts may be scored, does not have

  folder = os.open(path, os.O_RDONLY)
  try:
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError as error:
    os.close(folder)
    raise InputError(
      f'{name}={path}: another process works in it; wait for its end, or name another'
    ) from error
  except OSError:
    pass  # NFS locks no folders
  try:
    yield
  finally:
    os.close(folder)


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


def stat(path: str) -> tuple[int, int] | None:
  """A file's size and the nanosecond of its last change; None where there is no file."""
  if not is_remote(path):
    if not os.path.isfile(path):
      return None
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns
  import tensorflow as tf

  if not tf.io.gfile.exists(path):
    return None
  found = tf.io.gfile.stat(path)
  return found.length, found.mtime_nsec


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


def read_json(path: str, remedy: str = 'delete it and run again') -> Any:
  """Reads JSON; what is none, or has a seal that is not its own, is refused with the remedy."""
  with opened(path, 'rb') as file:
    return parse_json(file.read(), path, remedy)


def parse_json(content: bytes, path: str, remedy: str) -> Any:
  """The JSON in a file's bytes, as of `read_json`."""
  try:
    value = json.loads(content.decode(), object_pairs_hook=unique)
  except (ValueError, RecursionError) as error:
    raise InputError(f'{path}: damaged: not JSON ({error}); {remedy}') from error
  if isinstance(value, dict) and value.pop(_SEAL, seal := _seal(value)) != seal:
    raise InputError(f'{path}: damaged: not what was written (its seal differs); {remedy}')
  return value


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  """An object of JSON; raises ValueError at a key that stands twice, as `object_pairs_hook`."""
  found = dict(pairs)
  if len(found) < len(pairs):
    names = [name for name, _ in pairs]
    twice = next(name for name in names if names.count(name) > 1)
    raise ValueError(f'the key {twice!r} stands twice in an object')
  return found


def write_json(path: str, value: Any, *, sealed: bool = False) -> None:
  """Writes JSON, whole or not at all; an object that is sealed says so if a bit of it changes."""
  with whole(path) as temporary, opened(temporary, 'w') as file:
    file.write(json_text(value, sealed=sealed))


def json_text(value: Any, *, sealed: bool = False) -> str:
  """What `write_json` writes."""
  if sealed:
    value = json.loads(json.dumps(value))
    value = {**value, _SEAL: _seal(value)}
  return json.dumps(value, indent=1) + '\n'


def _seal(value: dict[str, Any]) -> str:
  rest = {name: of for name, of in value.items() if name != _SEAL}
  return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
