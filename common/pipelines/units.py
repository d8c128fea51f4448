"""Units of work: pieces of input files, each of which becomes one shard of the output.

A unit is a range of bytes of a TSV or JSONL file, a row group of a Parquet file, or a whole file
(CSV, whose quoted cells hold line breaks; TFRecord; gzip). Paths are those of Beam's filesystems:
local, `gs://`, `s3://`.
"""

import csv
import dataclasses
import io
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.tfrecordio import _TFRecordUtil

from common import files
from common.data import tables
from common.data.tables import Row
from common.errors import InputError
from common.pipelines import parquet
from common.pipelines.files import each, open_file
from common.pipelines.parquet import Refuse

SUFFIXES = (*tables.SUFFIXES, '.tfrecord')
_SPLIT = ('.tsv', '.txt', '.jsonl')  # at any line


@dataclasses.dataclass(frozen=True)
class Unit:
  """A piece of a file.

  Attributes:
    number: Number of the unit and of its shard.
    path: Path of the file.
    start: First byte, row group or row.
    stop: One after the last; -1: the file's end.
  """

  number: int
  path: str
  start: int = 0
  stop: int = -1


def of_files(patterns: Sequence[str], unit_bytes: int) -> list[Unit]:
  """Units of the files that match, in the order of their names.

  Raises:
    InputError: If nothing matches a pattern, or a file is matched twice, of no known kind or an empty
      gzip.
  """
  files_found: list[FileMetadata] = []
  known: set[str] = set()
  for pattern in patterns:
    try:
      found = sorted(_matches([pattern]), key=lambda file: file.path)
    except Exception as error:  # each filesystem has its own
      raise InputError(f'{pattern}: cannot be listed: {error}') from error
    if not found:
      raise InputError(f'{pattern}: no such file')
    for file in found:
      same = file.path if files.is_remote(file.path) else os.path.abspath(file.path)
      if same in known:
        raise InputError(f'{pattern}: {file.path} is named twice in --input')
      known.add(same)
      files_found.append(file)
  units: list[Unit] = []
  of_each = each(lambda file: _pieces(file.path, file.size_in_bytes, unit_bytes), files_found)
  for file, pieces in zip(files_found, of_each, strict=True):
    units += [Unit(len(units) + i, file.path, *piece) for i, piece in enumerate(pieces)]
  return units


def state(patterns: Sequence[str]) -> dict[str, list[float]]:
  """{path: [bytes, time of the last change]} of the files that match."""
  return {
    file.path: [file.size_in_bytes, file.last_updated_in_seconds] for file in _matches(patterns)
  }


def _matches(patterns: Sequence[str]) -> list[FileMetadata]:
  """The files that match; Beam lists nothing for a pattern that names no folder before its first sign."""
  named = []
  for pattern in patterns:
    before = re.split(r'[*?[]', pattern, maxsplit=1)[0]
    here = before != pattern and not os.path.dirname(before)
    named.append(f'./{pattern}' if here else pattern)
  found = (file for of in FileSystems.match(named) for file in of.metadata_list)
  return [file for file in found if not file.path.endswith('/')]  # a bucket's name of a folder


def of_rows(path: str, rows: int, unit_rows: int) -> list[Unit]:
  """Units of a vector store's rows."""
  starts = range(0, rows, unit_rows)
  return [Unit(i, path, start, min(start + unit_rows, rows)) for i, start in enumerate(starts)]


def read(unit: Unit, refuse: Refuse, columns: Sequence[str] | None = None) -> Iterator[Row]:
  """Streams a unit's rows; what is none goes to `refuse`.

  Args:
    unit: The piece of a file.
    refuse: Takes the place, the reason and the row.
    columns: The only ones that are needed; of a Parquet file no others are read.

  Raises:
    InputError: If the file is a damaged gzip, as one that ends in the middle.
  """
  name = unit.path.removesuffix('.gz')
  with open_file(unit.path) as file:
    if name.endswith('.parquet'):
      for number, batch in parquet.batches(file, unit.path, unit.start, columns, 4096):
        yield from parquet.rows(batch, _group_of(unit), number, refuse)
    elif name.endswith('.tfrecord'):
      yield from _records(unit, file, refuse)
    elif name.endswith('.csv'):
      yield from _csv(unit, file, refuse)
    else:
      yield from _lines(unit, file, refuse)


def cells(
  unit: Unit, columns: Sequence[str], size: int, refuse: Refuse
) -> Iterator[tuple[list[str], ...]]:
  """The columns' cells of up to `size` rows at a time; a row with one that is empty or of spaces alone is refused.

  A Parquet file's columns of texts are taken as they are, without making rows of them.
  """
  if not unit.path.endswith('.parquet'):
    yield from _chunks(read(unit, refuse, columns), columns, size, refuse)
    return
  with open_file(unit.path) as file:
    for number, batch in parquet.batches(file, unit.path, unit.start, columns, size):
      if texts := parquet.texts(batch, columns):
        yield texts
      else:
        of_batch = parquet.rows(batch, _group_of(unit), number, refuse)
        yield from _chunks(of_batch, columns, size, refuse)


def check_columns(todo: Sequence[Unit], columns: Sequence[str]) -> None:
  """Refuses a column that a file's first good row, or a Parquet file's schema, does not have."""
  firsts = {unit.path: unit for unit in reversed(todo)}
  for _ in each(lambda unit: _check_columns(unit, columns), firsts.values()):
    pass


def _check_columns(unit: Unit, columns: Sequence[str]) -> None:
  if unit.path.endswith('.parquet'):
    with open_file(unit.path) as file:
      names = parquet.opened(file, unit.path).schema_arrow.names
    rows = iter([Row(dict.fromkeys(names, ''), unit.path)])
  else:
    rows = read(unit, lambda *_: None)
  for row in rows:
    for name in columns:
      row[name]
    return


def _group_of(unit: Unit) -> str:
  return f'{unit.path}:row group {unit.start}'


def _pieces(path: str, size: int, unit_bytes: int) -> list[tuple[int, int]]:
  if path.endswith(_SPLIT):
    return [(start, min(start + unit_bytes, size)) for start in range(0, size, unit_bytes)]
  if path.endswith('.parquet'):
    with open_file(path) as file:
      groups = parquet.opened(file, path).num_row_groups
    return [(group, group + 1) for group in range(groups)]
  if path.endswith((*tables.ENDS, '.tfrecord', '.tfrecord.gz')):
    if path.endswith('.gz') and not size:
      raise InputError(f'{path}: damaged gzip: {tables.NO_BYTES}; copy it anew')
    return [(0, -1)]
  raise InputError(f'{path}: unknown kind of file; names end in {", ".join(SUFFIXES)} (or .gz)')


def _lines(unit: Unit, file: BinaryIO, refuse: Refuse) -> Iterator[Row]:
  """Rows of the lines whose first byte is the unit's; their place is that byte."""
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
  while unit.stop < 0 or position < unit.stop:
    line = file.readline()
    if not line:
      return
    where = f'{unit.path}:byte {position}'
    position += len(line)
    try:
      text = line.decode().removeprefix('\ufeff').rstrip('\r\n')
      if not text:  # a blank line, which is no row
        continue
      if header is None:
        yield tables.object_row(text, where)
      else:
        row = tables.cells_row(header, text.split('\t'), where, where)
        tables.check_unquoted(row, where)
        yield row
    except (UnicodeDecodeError, InputError) as error:
      refuse(where, _why(error, where), line.decode(errors='replace').rstrip('\r\n'))


def _csv(unit: Unit, file: BinaryIO, refuse: Refuse) -> Iterator[Row]:
  lines = io.TextIOWrapper(file, 'utf-8-sig', errors='surrogateescape', newline='\n')
  csv.field_size_limit(sys.maxsize)  # as in `tables`
  reader = csv.reader(lines, strict=True)
  try:
    header = next(reader, [])
    '\0'.join(header).encode()
  except (csv.Error, UnicodeEncodeError) as error:
    raise InputError(f'{unit.path}:1: {error}') from error
  tables.check_header(header, f'{unit.path}:1')
  tables.check_separator(header, f'{unit.path}:1')
  while True:
    begun = reader.line_num
    where = f'{unit.path}:{begun + 1}'
    values: list[str] = []
    try:
      values = next(reader)
      if not values:  # a blank line, which is no row
        continue
      '\0'.join(values).encode()
      yield tables.cells_row(header, values, where, where)
    except StopIteration:
      return
    except (csv.Error, UnicodeEncodeError, InputError) as error:
      if isinstance(error, csv.Error) and reader.line_num > begun + 1:
        raise InputError(
          f'{where}: not a CSV row up to line {reader.line_num:,}: {error}; a quote that is not closed?'
        ) from error
      refuse(where, _why(error, where), json.dumps(values))


def _chunks(
  rows: Iterator[Row], columns: Sequence[str], size: int, refuse: Refuse
) -> Iterator[tuple[list[str], ...]]:
  chunk: list[tuple[str, ...]] = []
  for row in rows:
    values = tuple(row[name] if name in row else '' for name in columns)  # noqa: SIM401  # of `Row`
    if not all(map(str.strip, values)):
      name = columns[[bool(value.strip()) for value in values].index(False)]
      refuse(row.where, f'column {name!r} is empty', json.dumps(row))
      continue
    chunk.append(values)
    if len(chunk) == size:
      yield tuple(map(list, zip(*chunk, strict=True)))
      chunk = []
  if chunk:
    yield tuple(map(list, zip(*chunk, strict=True)))


def _records(unit: Unit, file: BinaryIO, refuse: Refuse) -> Iterator[Row]:
  import tensorflow as tf

  number = 0
  while True:
    try:
      record = _TFRecordUtil.read_record(file)
    except ValueError as error:
      raise InputError(f'{unit.path}: damaged ({error}); copy it anew') from error
    if record is None:
      return
    where = f'{unit.path}:record {number}'
    number += 1
    try:
      features = tf.train.Example.FromString(record).features.feature
      yield Row({name: _feature(value, where) for name, value in features.items()}, where)
    except (InputError, ValueError) as error:
      refuse(where, _why(error, where), repr(record[:1000]))


def _feature(feature: Any, where: str) -> str:
  list_name = feature.WhichOneof('kind')
  values = list(getattr(feature, list_name).value) if list_name else []
  if not values:  # how a record says that it has none
    return ''
  if list_name == 'bytes_list':
    values = [value.decode() for value in values]
  return tables.cell(values[0] if len(values) == 1 else values, where)


def _why(error: Exception, where: str) -> str:
  return ' '.join(str(error).split()).removeprefix(f'{where}: ')
