"""Files of Beam's filesystems (local, `gs://`, `s3://`), opened for reading; gzip is unpacked."""

import contextlib
import gzip
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from common.data import tables
from common.errors import InputError

_READERS = 32  # files read at a time: of a bucket each is a request
Of = TypeVar('Of')
Result = TypeVar('Result')


@contextlib.contextmanager
def open_file(path: str) -> Iterator[Any]:
  """Opens a file for reading bytes; one in gzip, what is in it.

  Beam's own gzip takes a file that ends in the middle for whole.

  Raises:
    InputError: In the block, where it reads what is damaged of a gzip.
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


def each(function: Callable[[Of], Result], values: Iterable[Of]) -> Iterator[Result]:
  """Results in order of a function that reads a file, many at a time; of errors the first in order is raised."""
  with ThreadPoolExecutor(_READERS) as pool:
    yield from pool.map(function, values)
