"""Files of Beam's filesystems (local, `gs://`, `s3://`): read, copied, written whole."""

import atexit
import contextlib
import functools
import glob
import gzip
import hashlib
import os
import posixpath
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from common import digests, files
from common.data import tables
from common.errors import InputError
from common.scoring import exported, hub

MARKS, BAD = 'done', 'bad'  # folders in a job's output
_READERS = 32  # files read at a time: in a bucket each is a request
_PLAIN = CompressionTypes.UNCOMPRESSED
Of = TypeVar('Of')
Result = TypeVar('Result')


@contextlib.contextmanager
def open_file(path: str) -> Iterator[Any]:
  """Opens a file for reading bytes; of a gzip, the bytes that it holds.

  Beam's own gzip reads a file that ends in the middle without an error.

  Raises:
    InputError: If the block reads a damaged part of a gzip.
  """
  with contextlib.closing(FileSystems.open(path, compression_type=_PLAIN)) as raw:
    if not path.endswith('.gz'):
      yield raw
      return
    try:
      with gzip.GzipFile(fileobj=raw) as file:
        yield file
    except tables.DAMAGED_GZIP as error:
      where = f'{path}: damaged gzip up to byte {raw.tell()}'
      raise InputError(f'{where}: {error}; copy it anew') from error


@contextlib.contextmanager
def on_disk(path: str) -> Iterator[str]:
  """A local path of a file's bytes: its own, or that of a copy, for a remote file or a gzip."""
  if not (files.is_remote(path) or path.endswith('.gz')):
    yield path
    return
  with tempfile.TemporaryDirectory() as folder:
    copy = os.path.join(folder, 'copy')
    _copy_out(path, copy)
    yield copy


@functools.cache
def local(folder: str) -> str:
  """A folder as one that this process can memory-map: itself, or a copy of a remote one.

  A copy is without a job's marks and bad rows.
  """
  if not files.is_remote(folder) or folder.startswith(hub.PREFIX):
    return exported.local(folder)
  copy = tempfile.mkdtemp()
  atexit.register(shutil.rmtree, copy, ignore_errors=True)
  for source in sizes(folder):
    name = source.removeprefix(folder.rstrip('/') + '/')
    if not name.startswith((f'{MARKS}/', f'{BAD}/')):
      path = os.path.join(copy, name)
      os.makedirs(os.path.dirname(path), exist_ok=True)
      _copy_out(source, path)
  return copy


def version(folder: str) -> str:
  """A digest of a model's folder, or of its list of digests; empty: a remote folder without one."""
  path = FileSystems.join(folder, digests.NAME)
  if exists(path):
    return hashlib.sha256(read(path)).hexdigest()
  return files.sha256_of_folder(folder) if os.path.isdir(folder) else ''


def each(function: Callable[[Of], Result], values: Iterable[Of]) -> Iterator[Result]:
  """Results, in order, of a function that reads a file; many run at a time.

  The first error in order is raised.
  """
  with ThreadPoolExecutor(_READERS) as pool:
    yield from pool.map(function, values)


def read(path: str) -> bytes:
  """The bytes of a small file."""
  with open_file(path) as file:
    return file.read()


def exists(path: str) -> bool:
  """Whether a file or a folder is there."""
  return FileSystems.exists(path) or FileSystems.exists(path.rstrip('/') + '/')


def sizes(folder: str) -> dict[str, int]:
  """Bytes of all files in a folder, by path; none where there is no folder."""
  inside = folder.rstrip('/') + '/'
  if not files.is_remote(folder):
    return dict(_local_sizes(inside))
  (found,) = FileSystems.match([f'{glob.escape(inside)}**'])
  return {
    file.path: file.size_in_bytes
    for file in found.metadata_list
    if not file.path.endswith('/')  # as consoles make for an empty folder
  }


def _local_sizes(folder: str) -> Iterator[tuple[str, int]]:
  for base, _, names in os.walk(folder):
    for name in names:
      path = os.path.join(base, name)
      with contextlib.suppress(FileNotFoundError):  # a temporary file, renamed by now
        yield path, os.path.getsize(path)


def write(path: str, text: str) -> None:
  """Writes a small file, whole or not at all."""
  with tempfile.TemporaryDirectory() as folder:
    local_path = os.path.join(folder, 'text')
    with open(local_path, 'w', encoding='utf-8') as file:
      file.write(text)
    copy_in(local_path, path)


def copy_in(local_path: str, path: str) -> None:
  """Copies a local file to `path`, where it appears whole."""
  folder = posixpath.dirname(path)
  if FileSystems.get_filesystem(path).has_dirs() and not exists(folder):
    with contextlib.suppress(OSError):  # another worker makes it too
      FileSystems.mkdirs(folder)
  # Here the next process overwrites what a killed one leaves; two workers may write one object.
  temporary = f'{path}.{uuid.uuid4().hex}.tmp' if files.is_remote(path) else f'{path}.tmp'
  created = contextlib.closing(FileSystems.create(temporary, compression_type=_PLAIN))
  with files.blamed(path), open(local_path, 'rb') as source, created as target:
    shutil.copyfileobj(source, target, 1 << 20)
  if files.is_remote(path):
    FileSystems.rename([temporary], [path])
  else:
    files.put(temporary, path)


def _copy_out(path: str, local_path: str) -> None:
  """Copies a file's bytes, a gzip's unpacked, to a local path."""
  with open_file(path) as source, open(local_path, 'wb') as target:
    shutil.copyfileobj(source, target, 1 << 20)
