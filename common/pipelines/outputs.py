"""Tables that jobs write, in Parquet."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from common.pipelines.shards import Shard

_ROWS, _BYTES = 1 << 16, 1 << 26  # a row group is written when it has either
_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float32()}


def write_table(
  shard: Shard, name: str, columns: dict[str, type], pieces: Iterable[Sequence[Any]]
) -> int:
  """Writes a table as a file of a shard; returns the number of its rows.

  Args:
    shard: The shard.
    name: Name of the file.
    columns: Names and types (str, int or float) of the columns.
    pieces: Rows, some at a time, each piece a sequence of columns.
  """
  schema = pa.schema([(column, _TYPES[of]) for column, of in columns.items()])
  with (
    shard.file(name) as file,
    pq.ParquetWriter(file.path, schema, write_page_checksum=True) as writer,
  ):
    for group in _row_groups(schema, pieces):
      writer.write_table(group)
      file.count += len(group)
  return file.count


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
