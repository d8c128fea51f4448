"""Files of Beam's filesystems (local, `gs://`, `s3://`), opened for reading; gzip is unpacked."""

import contextlib
import gzip
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from common import files
from common.data import tables
from common.errors import InputError

_READERS = 32  # files read at a time: in a bucket each is a request
Of = TypeVar('Of')
Result = TypeVar('Result')


@contextlib.contextmanager
def open_file(path: str) -> Iterator[Any]:
  """Opens a file for reading bytes; of a gzip, the bytes that it holds.

  Beam's own gzip reads a file that ends in the middle without an error.

  Raises:
    InputError: If the block reads a damaged part of a gzip.
  """
  as_it_is = CompressionTypes.UNCOMPRESSED
  with contextlib.closing(FileSystems.open(path, compression_type=as_it_is)) as raw:
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
    copy_out(path, copy)
    yield copy


def copy_out(path: str, local: str) -> None:
  """Copies a file's bytes to a local path."""
  with open_file(path) as source, open(local, 'wb') as target:
    shutil.copyfileobj(source, target, 1 << 20)


def each(function: Callable[[Of], Result], values: Iterable[Of]) -> Iterator[Result]:
  """Results, in order, of a function that reads a file; many run at a time.

  The first error in order is raised.
  """
  with ThreadPoolExecutor(_READERS) as pool:
    yield from pool.map(function, values)
