"""Files of Beam's filesystems (local, `gs://`, `s3://`), opened for reading; gzip is unpacked."""

import contextlib
import gzip
from collections.abc import Iterator
from typing import Any

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from common.data import tables
from common.errors import InputError


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
