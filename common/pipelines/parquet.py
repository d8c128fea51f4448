"""Row groups of Parquet files, streamed; a damaged file is refused, a row that holds no texts put aside."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from common.data import tables
from common.data.tables import Row
from common.errors import InputError, damaged

Refuse = Callable[[str, str, str], None]  # where, why, the row
_REMEDY = 'copy it anew'


def opened(file: BinaryIO, path: str) -> pq.ParquetFile:
  """The file; a damaged one is refused, also by the checksums of its pages, where it has them."""
  with damaged(path, _REMEDY):
    table = pq.ParquetFile(file, page_checksum_verification=True)
    names = table.schema_arrow.names
  tables.check_header(names, path)
  return table


def batches(
  file: BinaryIO, path: str, group: int, columns: Sequence[str] | None, size: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
  """(number of the first row, up to `size` rows) of a row group; of the columns alone, where given."""
  table, number = opened(file, path), 0
  names = table.schema_arrow.names
  if columns is not None:
    names = [name for name in names if name in columns or name.strip() in columns]
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
  """The columns, where all of their cells are texts and none is empty or of spaces alone."""
  types = {field.name: field.type for field in batch.schema}
  if not all(types.get(name) in (pa.string(), pa.large_string()) for name in columns):
    return None
  try:
    found = tuple(batch.column(name).to_pylist() for name in columns)
  except UnicodeDecodeError:
    return None
  whole = all(all(column) and not any(map(str.isspace, column)) for column in found)
  return found if whole else None


def rows(batch: pa.RecordBatch, group: str, number: int, refuse: Refuse) -> Iterator[Row]:
  """Rows of a batch; one that holds no text, number or list of such goes to `refuse`.

  Args:
    batch: Rows that follow one another.
    group: Place of their row group.
    number: Number of the first row in it.
    refuse: Takes the place, the reason and the row.
  """
  values = [tables.values(column) for column in batch.columns]
  for i in range(batch.num_rows):
    where = f'{group}, row {number + i}'
    row, why = Row({}, where), ''
    for field, of_column in zip(batch.schema, values, strict=True):
      try:
        row[field.name] = tables.cell(tables.plain(of_column[i]), where)
      except (ValueError, TypeError):
        why = f'column {field.name!r} ({field.type}) holds no text, number or list of such'
    if why:
      refuse(where, why, json.dumps(row))
    else:
      yield row
