"""Files: written whole or not at all, digested, and JSON in them. Local paths and `gs://`."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

from common import extras, termination
from common.errors import InputError, no_file_system

try:
  import fcntl
except ImportError:  # Windows, where texts are scored without locks
  fcntl = None  # type: ignore[assignment]

_CHUNK = 1 << 20  # bytes read at a time
_SEAL = 'seal'  # of a JSON object: the sha256 of the rest of it


@contextlib.contextmanager
def whole(path: str) -> Iterator[str]:
  """A path to write to, which takes the place of `path` when the block ends without an error.

  with files.whole('manifest.json') as temporary, open(temporary, 'w') as file:
    file.write(text)
  """
  temporary = f'{path}.tmp'  # what a killed process leaves is overwritten by the next one
  with blamed(temporary):
    yield temporary
  if is_remote(path):
    gfile(path).rename(temporary, path, overwrite=True)
  else:
    put(temporary, path)


@contextlib.contextmanager
def whole_folder(path: str) -> Iterator[str]:
  """A temporary name for a new folder; it becomes `path` when the block ends without an error."""
  temporary = f'{os.path.normpath(path)}.part'  # beside it, also of one that ends with a slash
  shutil.rmtree(temporary, ignore_errors=True)  # of a process that was killed
  yield temporary
  put(temporary, path)


def put(source: str, target: str) -> None:
  """Renames a local file or folder to the name that declares it whole.

  Its bytes are on the disk before that, so a machine that loses its power leaves no half of it.
  """
  sync(source)
  os.replace(source, target)
  _sync(os.path.dirname(target) or '.')


@contextlib.contextmanager
def blamed(path: str) -> Iterator[None]:
  """Adds a path to a system error of the block that names none, such as that of a full disk."""
  try:
    yield
  except OSError as error:
    if type(error) is not OSError or error.filename is not None:
      raise
    reason = os.strerror(error.errno) if error.errno else str(error)  # NumPy gives no number
    raise OSError(error.errno or errno.EIO, reason, path) from error


@contextlib.contextmanager
def alone(path: str, flag: str = '') -> Iterator[None]:
  """Keeps other processes out of a local folder, named by a flag, and adds its path to errors.

  A folder that is gone at the end of the block is an error, even if another took its place. On a
  file system without locks, nobody is kept out.
  """
  with turn(path, f'{flag}={path}' if flag else path) as folder:
    termination.resumable()
    try:
      with blamed(path):
        yield
    except Exception:
      _check_same(path, folder)  # whatever came of that
      raise
    _check_same(path, folder)


def _check_same(path: str, folder: int) -> None:
  """Refuses a path that no longer is the folder that was opened there, where it was opened."""
  if folder < 0:
    return
  if not os.path.exists(path) or not os.path.samestat(os.stat(path), os.fstat(folder)):
    raise FileNotFoundError(errno.ENOENT, 'removed while a process worked in it', path)


@contextlib.contextmanager
def turn(path: str, busy: str = '') -> Iterator[int]:
  """Waits for other processes in this block with the same local folder or file, if it has locks.

  With a name in `busy`, another process's presence is refused instead. Gives its descriptor, or -1.
  """
  if not fcntl:
    yield -1
    return
  opened = os.open(path, os.O_RDONLY)
  try:
    with contextlib.suppress(OSError):  # NFS locks no folders
      try:
        fcntl.flock(opened, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
      except BlockingIOError as error:
        raise InputError(
          f'{busy}: another process works in it; wait for its end, or name another'
        ) from error
    yield opened
  finally:
    os.close(opened)


def reserve(path: str) -> None:
  """Gives a sparse local file its room, so that a full disk is an error now, not a signal later."""
  if hasattr(os, 'posix_fallocate'):
    with open(path, 'r+b') as file:
      os.posix_fallocate(file.fileno(), 0, os.path.getsize(path))


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
  if not fcntl:  # Windows syncs neither a folder nor a file that is opened to be read
    return
  number = os.open(path, os.O_RDONLY)
  try:
    os.fsync(number)
  except OSError:
    if not os.path.isdir(path):  # some file systems have none of folders
      raise
  finally:
    os.close(number)


def own(folder: str, *names: str) -> str:
  """A path in the project's own `configs` or `pretrained`: in a wheel, or in a checkout."""
  here = os.path.dirname(os.path.abspath(__file__))
  inside = os.path.join(here, folder)
  base = inside if os.path.isdir(inside) else os.path.join(os.path.dirname(here), folder)
  return os.path.join(base, *names)


def is_remote(path: str) -> bool:
  """Whether a path is a URL such as `gs://bucket/name`, which TensorFlow opens."""
  return '://' in path


def gfile(url: str) -> Any:
  """TensorFlow's functions for files, imported for URLs only; refuses a URL they cannot open."""
  if (scheme := url.partition('://')[0]) not in ('http', 'https'):
    with extras.needed('train', f'{url}: '):
      import tensorflow as tf
    if scheme in tf.io.gfile.get_registered_schemes():
      return tf.io.gfile
  raise InputError(no_file_system(url))


def opened(path: str, mode: str = 'r') -> Any:
  """An open file, in UTF-8 where it is text; what is not there raises FileNotFoundError."""
  if not is_remote(path):
    return open(path, mode, encoding=None if 'b' in mode else 'utf-8')
  if 'r' in mode and not gfile(path).exists(path):
    raise FileNotFoundError(path)
  return gfile(path).GFile(path, mode)


def exists(path: str) -> bool:
  """Whether a file or a folder is there."""
  return gfile(path).exists(path) if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
  """Whether a folder is there."""
  return gfile(path).isdir(path) if is_remote(path) else os.path.isdir(path)


def names(folder: str) -> list[str]:
  """Names of the files and folders in a folder."""
  found = gfile(folder).listdir(folder) if is_remote(folder) else os.listdir(folder)
  return sorted(name.strip('/') for name in found)


def stat(path: str) -> tuple[int, int] | None:
  """A file's size and the nanosecond of its last change; None where there is no file."""
  if not is_remote(path):
    if not os.path.isfile(path):
      return None
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns
  if not gfile(path).exists(path):
    return None
  found = gfile(path).stat(path)
  return found.length, found.mtime_nsec


def sha256(path: str) -> str:
  """The SHA-256 of a file's bytes, in hexadecimal."""
  digest = hashlib.sha256()
  with opened(path, 'rb') as file:
    while chunk := file.read(_CHUNK):
      digest.update(chunk)
  return digest.hexdigest()


def sha256_of_folder(folder: str, without: Sequence[str] = ()) -> str:
  """A digest of the files in a folder, in the order of their paths, but those named."""
  digest = hashlib.sha256()
  walk = gfile(folder).walk if is_remote(folder) else os.walk
  for base, _, names in sorted(walk(folder)):
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
  found: dict[str, Any] = {}
  for name, value in pairs:
    if name in found:
      raise ValueError(f'the key {name!r} stands twice in an object')
    found[name] = value
  return found


def write_json(path: str, value: Any, *, sealed: bool = False) -> None:
  """Writes JSON, whole or not at all; an object that is sealed says so if a bit of it changes."""
  with whole(path) as temporary, opened(temporary, 'w') as file:
    file.write(json_text(value, sealed=sealed))


def json_text(value: Any, *, sealed: bool = False) -> str:
  """Text that `write_json` writes."""
  if sealed:
    value = {**value, _SEAL: _seal(json.loads(json.dumps(value)))}
  return json.dumps(value, indent=1) + '\n'


def _seal(value: dict[str, Any]) -> str:
  rest = {name: of for name, of in value.items() if name != _SEAL}
  return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
