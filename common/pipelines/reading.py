"""Rows of a unit, and their cells; a bad row goes to `refuse` with its place and the reason."""

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from common.data import tables
from common.data.tables import Row
from common.errors import InputError, damaged
from common.pipelines import parquet
from common.pipelines.files import each, on_disk, open_file
from common.pipelines.units import Unit

Refuse = Callable[[str, str, str], None]  # where, why, the row
_FRAME = 16  # bytes of a TFRecord beside its own: its length, and two checksums


def cells(
  unit: Unit, columns: Sequence[str], size: int, refuse: Refuse
) -> Iterator[tuple[list[str], ...]]:
  """Columns of up to `size` rows at a time; a row with an empty cell is refused.

  A Parquet file's columns of texts are taken whole, without making rows of them.
  """
  if not unit.path.endswith('.parquet'):
    yield from _chunks(rows(unit, refuse), columns, size, refuse)
    return
  for batch, of_batch in _row_group(unit, columns, size):
    if texts := parquet.texts(batch, columns):
      yield texts
    else:
      yield from _chunks(of_batch, columns, size, refuse)


def rows(unit: Unit, refuse: Refuse) -> Iterator[Row]:
  """Streams a unit's rows.

  Raises:
    InputError: If the file is damaged.
  """
  name = unit.path.removesuffix('.gz')
  if name.endswith('.parquet'):
    for _, of_batch in _row_group(unit, (), 4096):
      yield from of_batch
  elif name.endswith('.tfrecord'):
    yield from _records(unit, refuse)
  else:
    with open_file(unit.path) as file:
      yield from (_csv if name.endswith('.csv') else _lines)(unit, file, refuse)


def check_columns(units: Sequence[Unit], columns: Sequence[str]) -> None:
  """Refuses a column that a file's first good row, or a Parquet file's schema, does not have."""
  firsts = {unit.path: unit for unit in reversed(units)}
  for row in each(_first, firsts.values()):
    if row is not None:
      for name in columns:
        row[name]


def _first(unit: Unit) -> Row | None:
  """A unit's first good row; of a Parquet file the columns alone."""
  if not unit.path.endswith('.parquet'):
    return next(rows(unit, lambda *_: None), None)
  with open_file(unit.path) as file:
    names = parquet.opened(file, unit.path).schema_arrow.names
  return Row(dict.fromkeys(names, ''), unit.path)


def _row_group(
  unit: Unit, columns: Sequence[str], size: int
) -> Iterator[tuple[Any, Iterator[Row]]]:
  """(Arrow's batch, its rows) of a Parquet file, up to `size` at a time; no columns: all."""
  with open_file(unit.path) as file:
    table = parquet.opened(file, unit.path)
    own = table.schema_arrow.names
    names = tables.needed(own, columns)
    for first, batch in parquet.batches(table, unit.path, unit.start, names, size):
      place = f'{unit.path}:row group {unit.start}, row '
      yield batch, (row for _, row in tables.arrow_rows([batch], place, names, own, first))


def _chunks(
  found: Iterator[Row], columns: Sequence[str], size: int, refuse: Refuse
) -> Iterator[tuple[list[str], ...]]:
  chunk: list[list[str]] = []
  for row in found:
    try:
      chunk.append([tables.text(row, name, row.where) for name in columns])
    except InputError as error:
      refuse(row.where, _why(error, row.where), json.dumps(row))
    if len(chunk) == size:
      yield tuple(map(list, zip(*chunk, strict=True)))
      chunk = []
  if chunk:
    yield tuple(map(list, zip(*chunk, strict=True)))


def _lines(unit: Unit, file: BinaryIO, refuse: Refuse) -> Iterator[Row]:
  """Rows of a TSV's or JSONL's lines whose first byte is the unit's; their place is that byte."""
  header = None
  if not unit.path.removesuffix('.gz').endswith('.jsonl'):
    try:
      header = file.readline().decode('utf-8-sig').rstrip('\r\n').split('\t')
    except UnicodeDecodeError as error:
      raise InputError(f'{unit.path}:1: {error}') from error
    tables.check_header(header, f'{unit.path}:1')
    position = file.tell()
  if unit.start or header is None:
    position = unit.start
    if position:
      file.seek(position - 1)
      position += len(file.readline()) - 1
  while position < unit.stop:
    line = file.readline()
    if not line:
      return
    where = f'{unit.path}:byte {position}'
    position += len(line)
    try:
      text = line.decode().removeprefix('\ufeff').rstrip('\r\n')
      if text:  # a blank line is no row
        yield tables.line_row(text, header, where)
    except (UnicodeDecodeError, InputError) as error:
      refuse(where, _why(error, where), line.decode(errors='replace').rstrip('\r\n'))


def _csv(unit: Unit, file: BinaryIO, refuse: Refuse) -> Iterator[Row]:
  """Rows of a CSV; their place is their first line."""
  lines = io.TextIOWrapper(file, 'utf-8-sig', errors='surrogateescape', newline='\n')
  found = tables.csv_rows(lines)
  try:
    header = _texts(next(found, (1, 1, []))[2])
  except (csv.Error, UnicodeEncodeError) as error:
    raise InputError(f'{unit.path}:1: {error}') from error
  tables.check_header(header, f'{unit.path}:1')
  tables.check_separator(header, f'{unit.path}:1')
  for first, last, values in found:
    where = f'{unit.path}:{first}'
    if isinstance(values, csv.Error) and last > first:
      what = f'not a CSV row up to line {last:,}: {values}; a quote that is not closed?'
      raise InputError(f'{where}: {what}') from values
    try:
      yield tables.cells_row(header, _texts(values), where, where)
    except (csv.Error, UnicodeEncodeError, InputError) as error:
      row = [] if isinstance(values, csv.Error) else values
      refuse(where, _why(error, where), json.dumps(row))


def _texts(values: list[str] | csv.Error) -> list[str]:
  """A row's cells; raises its error, or that of bytes that are no UTF-8."""
  if isinstance(values, csv.Error):
    raise values
  '\0'.join(values).encode()
  return values


def _records(unit: Unit, refuse: Refuse) -> Iterator[Row]:
  """Rows of a file of `tf.train.Example`; their place is their number, from 0."""
  import tensorflow as tf

  for number, record in enumerate(records(unit.path)):
    where = f'{unit.path}:record {number}'
    try:
      features = tf.train.Example.FromString(record).features.feature
      yield Row({name: _feature(value, where) for name, value in features.items()}, where)
    except (InputError, ValueError) as error:
      refuse(where, _why(error, where), repr(record[:1000]))


def records(path: str, remedy: str = 'copy it anew') -> Iterator[bytes]:
  """The records of a TFRecord file, a gzip too; a damaged one is refused with the remedy."""
  import tensorflow as tf

  size = 0
  with on_disk(path) as local:
    found = tf.data.TFRecordDataset(local).as_numpy_iterator()
    while True:
      with damaged(path, remedy):
        record = next(found, None)
      if record is None:
        break
      size += len(record) + _FRAME
      yield record
    if left := os.path.getsize(local) - size:  # TensorFlow takes less than a frame for the end
      raise InputError(f'{path}: damaged ({left} bytes after its last record); {remedy}')


def _feature(feature: Any, where: str) -> str:
  """The values of a feature as the text of a cell."""
  list_name = feature.WhichOneof('kind')
  values = list(getattr(feature, list_name).value) if list_name else []
  if not values:  # how a record says that it has none
    return ''
  if list_name == 'bytes_list':
    values = [value.decode() for value in values]
  return tables.cell(values[0] if len(values) == 1 else values, where)


def _why(error: Exception, where: str) -> str:
  return ' '.join(str(error).split()).removeprefix(f'{where}: ')
