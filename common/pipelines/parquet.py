"""Parquet files by row groups: read, where a damaged file is refused; and written."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from common.data import tables
from common.errors import InputError, damaged

_REMEDY = 'copy it anew'
_ROWS, _BYTES = 1 << 16, 1 << 26  # a row group is written when it has either
_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float32()}


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


def write(path: str, columns: dict[str, type], pieces: Iterable[Sequence[Any]]) -> int:
  """Writes a table; returns the number of its rows.

  Args:
    path: Path of the local file.
    columns: Names and types (str, int or float) of the columns.
    pieces: Rows, some at a time, each piece a sequence of columns.
  """
  schema, count = pa.schema([(column, _TYPES[of]) for column, of in columns.items()]), 0
  with pq.ParquetWriter(path, schema, write_page_checksum=True) as writer:
    for group in _row_groups(schema, pieces):
      writer.write_table(group)
      count += len(group)
  return count


def _row_groups(schema: pa.Schema, pieces: Iterable[Sequence[Any]]) -> Iterator[pa.Table]:
  """Joins pieces into row groups: a piece may be one row."""
  held: list[pa.RecordBatch] = []
  rows = size = 0
  for piece in pieces:
    arrays = [pa.array(values, of.type) for values, of in zip(piece, schema, strict=True)]
    held.append(pa.record_batch(arrays, schema=schema))
    rows, size = rows + len(held[-1]), size + held[-1].nbytes
    if rows >= _ROWS or size >= _BYTES:
      yield pa.Table.from_batches(held).combine_chunks()
      held, rows, size = [], 0, 0
  if rows:
    yield pa.Table.from_batches(held).combine_chunks()
