"""Row groups of Parquet files, streamed; a damaged file is refused."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from common.data import tables
from common.errors import InputError, damaged

_REMEDY = 'copy it anew'


def opened(file: BinaryIO, path: str) -> pq.ParquetFile:
  """The file; its pages are checked as they are read, where they have checksums."""
  with damaged(path, _REMEDY):
    table = pq.ParquetFile(file, page_checksum_verification=True)
    names = table.schema_arrow.names
  tables.check_header(names, path)
  return table


def batches(
  table: pq.ParquetFile, path: str, group: int, names: Sequence[str], size: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
  """(number of the first row, up to `size` rows) of a row group, with the columns named."""
  number = 0
  found = table.iter_batches(size, row_groups=[group], columns=names)
  while True:
    with damaged(path, _REMEDY):
      batch = next(found, None)
    if batch is None:
      break
    yield number, batch
    number += batch.num_rows
  if names and number != (due := table.metadata.row_group(group).num_rows):
    raise InputError(f'{path}: damaged (row group {group}: {number} rows of {due}); {_REMEDY}')


def texts(batch: pa.RecordBatch, columns: Sequence[str]) -> tuple[list[str], ...] | None:
  """The columns, if all of their cells are texts and none is empty or of spaces alone."""
  types = {field.name: field.type for field in batch.schema}
  if not all(types.get(name) in (pa.string(), pa.large_string()) for name in columns):
    return None
  try:
    found = tuple(batch.column(name).to_pylist() for name in columns)
  except UnicodeDecodeError:
    return None
  whole = all(all(column) and not any(map(str.isspace, column)) for column in found)
  return found if whole else None
