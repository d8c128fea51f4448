"""Tables as a job writes them: Parquet, TSV, JSONL, or TFRecords of `tf.train.Example`."""

import contextlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from common.errors import InputError
from common.pipelines.shards import Shard

FORMATS = ('parquet', 'tsv', 'jsonl', 'tfrecord')
_ROWS, _CHARACTERS = 1 << 16, 1 << 26  # of a row group of Parquet: one is written at either


class TableWriter:
  """Writes columns of texts, whole numbers and float32 to a file, in pieces; a context.

  Args:
    path: Local; its name ends in one of `FORMATS`.
    columns: Their names and types: str, int or float.
  """

  def __init__(self, path: str, columns: dict[str, type]):
    self.columns, self.format = columns, path.rsplit('.', 1)[1]
    self._held: list[list[Any]] = [[] for _ in columns]  # a row group, as far as it is there
    self._characters = 0  # of its texts
    if self.format == 'parquet':
      types = {str: pa.string(), int: pa.int64(), float: pa.float32()}
      self._schema = pa.schema([(name, types[of]) for name, of in columns.items()])
      self._file: Any = pq.ParquetWriter(path, self._schema, write_page_checksum=True)
    elif self.format == 'tfrecord':
      import tensorflow as tf

      self._file = tf.io.TFRecordWriter(path)
    else:
      self._file = open(path, 'w', encoding='utf-8')  # noqa: SIM115
      if self.format == 'tsv':
        self._file.write('\t'.join(columns) + '\n')

  def __enter__(self) -> 'TableWriter':
    return self

  def __exit__(self, *exception: object) -> None:
    with contextlib.closing(self._file):
      if exception[0] is None:
        self._write_held()

  def write(self, *columns: Sequence[Any]) -> None:
    """Adds rows, given as columns."""
    if self.format == 'parquet':
      for held, column, of in zip(self._held, columns, self.columns.values(), strict=True):
        held.extend(column)
        self._characters += sum(map(len, column)) if of is str else 0
      if len(self._held[0]) >= _ROWS or self._characters >= _CHARACTERS:
        self._write_held()
      return
    for row in zip(*columns, strict=True):
      self._file.write(self._row(row))

  def _write_held(self) -> None:
    if not self._held[0]:
      return
    arrays = [pa.array(c, f.type) for c, f in zip(self._held, self._schema, strict=True)]
    self._file.write_batch(pa.record_batch(arrays, schema=self._schema))
    self._held, self._characters = [[] for _ in arrays], 0

  def _row(self, row: Sequence[Any]) -> Any:
    values = [of(value) for of, value in zip(self.columns.values(), row, strict=True)]
    if self.format == 'tfrecord':
      return _example(dict(zip(self.columns, values, strict=True)))
    if self.format == 'jsonl':
      return json.dumps(dict(zip(self.columns, values, strict=True)), ensure_ascii=False) + '\n'
    cells = [f'{value:.9g}' if isinstance(value, float) else str(value) for value in values]
    line = '\t'.join(cells)
    if line.count('\t') >= len(cells) or '\n' in line or '\r' in line:
      raise InputError(
        f'{line!r}: a TSV holds no tab and no line break; --output_format=jsonl does'
      )
    return line + '\n'


def write_table(
  shard: Shard, name: str, columns: dict[str, type], pieces: Iterable[Sequence[Any]]
) -> int:
  """Writes a shard's file of a table, given as pieces of its columns; returns its rows."""
  count = 0
  with shard.file(name) as path, TableWriter(path, columns) as writer:
    for piece in pieces:
      writer.write(*piece)
      count += len(piece[0])
  return count


def _example(values: dict[str, Any]) -> bytes:
  import tensorflow as tf

  feature = {}
  for name, value in values.items():
    if isinstance(value, str):
      feature[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
    elif isinstance(value, int):
      feature[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    else:
      feature[name] = tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
  return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
