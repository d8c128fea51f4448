"""Rows of TSV, CSV, JSONL (gzip too) and Parquet files, with their line or row numbers.

A TSV has no quoting: a quote is a character, and a cell that is quoted as in a CSV is refused
(GLUE's files have such texts, and are read as they are). A CSV is quoted as in RFC 4180. A TXT is a
TSV. A JSONL has an object a line. A blank line is no row. Lines end at a line feed alone: no other
byte splits one. Paths are local, or whatever `tf.io.gfile` opens (`gs://`).
"""

import codecs
import collections
import csv
import decimal
import difflib
import gzip
import json
import math
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from common import extras, files
from common.errors import InputError

TEXT_SUFFIXES = ('.tsv', '.txt', '.csv', '.jsonl')
SUFFIXES = (*TEXT_SUFFIXES, '.parquet')
ENDS = (*SUFFIXES, *(f'{suffix}.gz' for suffix in TEXT_SUFFIXES))  # of names of files that are read
DAMAGED_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)  # what reading one raises
_BATCH = 4096  # rows of a Parquet file read at a time
_FOREIGN = {  # first bytes of files that spreadsheets write, and what to do with them
  b'\xff\xfe': 'UTF-16; convert it: iconv -f utf-16 -t utf-8',
  b'\xfe\xff': 'UTF-16; convert it: iconv -f utf-16 -t utf-8',
  b'PK\x03\x04': 'an Excel workbook, or another zip; save it as CSV UTF-8',
}
NO_BYTES = 'it has 0 bytes'  # which reading one takes for an empty file


class Row(dict):
  """Cells by column name; a column that is not there is refused with the nearest that is.

  A name that no column has may be several with a '+' between (`title+description`): their cells as
  one text, with a space between, without the empty ones. Spaces at the ends of a name count only
  where names differ by them alone: a flag has none. A column of `unread`, whose value is neither a
  text nor a number, is refused when it is asked for.
  `names` are all columns of the table, if the row has cells of some.
  """

  def __init__(
    self,
    cells: dict[str, str],
    where: str,
    unread: Sequence[str] = (),
    names: Sequence[str] = (),
  ):
    super().__init__(cells)
    self.where, self._unread, self._names = where, unread, names

  def __contains__(self, column: object) -> bool:
    if super().__contains__(column) or self._spaced(column) is not None:
      return True
    parts = _joined(str(column))
    return bool(parts) and all(part in self for part in parts)

  def __missing__(self, column: str):
    if (spaced := self._spaced(column)) is not None:
      return self[spaced]
    if column.strip() in (str(name).strip() for name in self._unread):
      raise InputError(f'{self.where}: column {column!r} holds no text, number or list of such')
    if parts := _joined(column):
      return ' '.join(cell for part in parts if (cell := self[part]).strip())
    names = [str(name) for name in self._names or self if name]
    near = difflib.get_close_matches(column, names, 1)
    hint = f'did you mean {near[0]!r}? It has ' if near else 'it has '
    raise InputError(f'{self.where}: no column {column!r}; {hint}{", ".join(names)}')

  def _spaced(self, column: object) -> str | None:
    """The one name that is `column` with spaces at its ends."""
    found = [name for name in self if isinstance(name, str) and name.strip() == column]
    return found[0] if len(found) == 1 else None


def rows(
  path: str,
  encoding: str = 'utf-8',
  ragged: bool = False,
  literal: bool = False,
  header: Sequence[str] = (),
  delimiter: str = ',',
  columns: Sequence[str] = (),
) -> Iterator[tuple[int, Row]]:
  """Streams (line number, row) of a table; raises InputError at the first bad line.

  Args:
    path: Path of the file.
    encoding: Encoding of its characters.
    ragged: Whether a line of too few or too many cells is a row of empty cells, as in GLUE's files.
    literal: Whether a cell of a TSV may look quoted, as in GLUE's and MS MARCO's files.
    header: The columns' names, where the first line is not they.
    delimiter: Between the cells of a CSV.
    columns: The only ones that are read of a Parquet file; empty: all.
  """
  if path.endswith('.parquet'):
    yield from _parquet(path, columns)
    return
  name = path.removesuffix('.gz')
  if not name.endswith(TEXT_SUFFIXES):
    kinds = f'{", ".join(TEXT_SUFFIXES)} (or .gz), .parquet'
    workbook = '; save a workbook as CSV UTF-8' if name.endswith(('.xls', '.xlsx')) else ''
    raise InputError(f'{path}: unknown kind of file; names end in {kinds}{workbook}')
  read = lines(path, encoding)
  if name.endswith('.jsonl'):
    for number, line in enumerate(read, 1):
      if line.rstrip('\r\n'):
        yield number, object_row(line, f'{path}:{number}')
    return
  cells = _csv(path, read, delimiter) if name.endswith('.csv') else _tsv(read)
  if not header and not (header := next(cells, (0, []))[1]):
    raise InputError(f'{path}: empty; the first line names the columns')
  check_header(header, f'{path}:1')
  if name.endswith('.csv') and delimiter == ',':
    check_separator(header, f'{path}:1')
  for number, values in cells:
    if values == [''] and not name.endswith('.csv'):
      continue
    if ragged and len(values) != len(header):
      values = [''] * len(header)
    row = cells_row(header, values, f'{path}:{number}', f'{path}:1')
    if not (literal or name.endswith('.csv')):
      check_unquoted(row, f'{path}:{number}')
    yield number, row


def text(row: Row, column: str, where: str) -> str:
  """A row's text in a column; an empty one is refused, at the row's place `where`."""
  if not row[column].strip():
    raise InputError(f'{where}: the text in column {column!r} is empty')
  return row[column]


def number(text: str, what: str, where: str, right: str = '') -> float:
  """The finite number in a cell that holds `what`; another is refused, with what would be `right`.

  Raises:
    InputError: If there is none, at the row's place `where`.
  """
  try:
    value = math.nan if '_' in text else float(text)  # Python takes 1_0 for 10
  except ValueError:
    value = math.nan
  if not math.isfinite(value):
    raise InputError(f'{where}: {what} {text!r} is not a finite number{right}')
  return value


def check_header(header: Sequence[str], where: str) -> None:
  """Refuses two columns of one name; columns without a name are not read."""
  if twice := [name for name, times in collections.Counter(header).items() if name and times > 1]:
    raise InputError(f'{where}: a column is named twice: {", ".join(twice)}')


def check_separator(header: Sequence[str], where: str) -> None:
  """Refuses a CSV with one column if its name holds another separator."""
  for mark, name in ((';', "';'"), ('\t', 'tabs')):
    if len(header) == 1 and mark in header[0]:
      raise InputError(
        f'{where}: one column: is it separated by {name}? Commas are needed (in a .tsv, tabs)'
      )


def cells_row(header: Sequence[str], values: Sequence[str], where: str, named: str) -> Row:
  """A row of a table with a header, whose place is `named`; raises InputError where it is none."""
  if len(values) != len(header):
    raise InputError(f'{where}: {len(values)} columns; the header names {len(header)}')
  return Row(dict(zip(header, values, strict=True)), named)


def check_unquoted(row: Row, where: str) -> None:
  """Refuses a row of a TSV, which has no quoting, with a cell that is quoted as in a CSV."""
  for column, text in row.items():
    if '""' in text and text[0] == text[-1] == '"':
      doubled = text[1:-1]
      if '""' in doubled and '"' not in doubled.replace('""', ''):
        raise InputError(
          f'{where}: column {column!r} is quoted as in a CSV; write it without quoting (pandas: '
          'quoting=csv.QUOTE_NONE), or as .csv or .parquet'
        )


def line_row(line: str, header: Sequence[str] | None, where: str) -> Row:
  """A row of a TSV with a header, or, without one, of a JSONL; refused where it is none."""
  if header is None:
    return object_row(line, where)
  row = cells_row(header, line.split('\t'), where, where)
  check_unquoted(row, where)
  return row


def object_row(line: str, where: str) -> Row:
  """A row of a JSONL file; raises InputError where it is no object."""
  try:
    row = json.loads(line, object_pairs_hook=files.unique)
    if not isinstance(row, dict):
      raise InputError(f'{where}: a {type(row).__name__}; each line holds one object')
    return Row({key: cell(value, where) for key, value in row.items()}, where)
  except InputError:
    raise
  except ValueError as error:
    raise InputError(f'{where}: not JSON: {error}') from error
  except RecursionError as error:
    raise InputError(f'{where}: lists or objects nested too deep') from error


def needed(names: Sequence[str], columns: Sequence[str]) -> list[str]:
  """Names of a table that are asked for, whatever spaces are at their ends; all if none is."""
  asked = {part for column in columns for part in (column, *_joined(column))}
  found = [name for name in names if name in asked or str(name).strip() in asked]
  return found or list(names)


def _joined(column: str) -> list[str]:
  """The columns that a name with '+' joins; none, where a part is empty, as of 'c++'."""
  parts = [part.strip() for part in column.split('+')]
  return parts if len(parts) > 1 and all(parts) else []


def values_row(row: Mapping[str, Any], where: str, names: Sequence[str], own: Sequence[str]) -> Row:
  """A row of values as Parquet files and tables in memory hold them: also NumPy's, and UTF-8 bytes.

  Args:
    row: Values by column.
    where: Its place.
    names: The columns whose values it takes.
    own: All of the table.
  """
  cells, unread = {}, []
  for name in names:
    try:
      cells[name] = cell(plain(row[name]), where)
    except (TypeError, ValueError):
      unread.append(name)
  return Row(cells, where, unread, own)


def plain(value: Any) -> Any:
  """A cell's value as Python's own: bytes in UTF-8 and decimals are texts, NumPy's values plain."""
  if hasattr(value, 'tolist'):  # NumPy's
    value = value.tolist()
  if isinstance(value, bytes):
    return value.decode()
  return str(value) if isinstance(value, decimal.Decimal) else value


def arrow_rows(
  batches: Iterable[Any], place: str, names: Sequence[str], own: Sequence[str], first: int = 1
) -> Iterator[tuple[int, Row]]:
  """Streams (row number, row) of Arrow's record batches; a row's place is `place` and its number.

  Columns are as of `values_row`; the batches may have others. The first row's number is `first`.
  """
  number = first
  for batch in batches:
    for row in zip(*(values(batch.column(name)) for name in names), strict=True):
      cells = dict(zip(names, row, strict=True))
      yield number, values_row(cells, f'{place}{number}', names, own)
      number += 1


def values(column: Any) -> list[Any]:
  """An Arrow array's values; one that Python has no value for stays Arrow's."""
  try:
    return column.to_pylist()
  except (ValueError, OverflowError):  # of single cells: text that is no UTF-8, nanoseconds
    return [_value(cell) for cell in column]


def _value(cell: Any) -> Any:
  try:
    return cell.as_py()
  except (ValueError, OverflowError):
    return cell


def cell(value: object, where: str) -> str:
  """A value as the text of a cell: a text itself, none or NaN empty, anything else in JSON."""
  if value is None or value != value:
    return ''
  text = value if isinstance(value, str) else json.dumps(value)
  try:
    text.encode()  # JSON can escape half of a surrogate pair, which is no character
  except UnicodeEncodeError as error:
    raise InputError(f'{where}: not a text: {error}') from error
  return text


def _tsv(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
  for number, line in enumerate(lines, 1):
    yield number, line.rstrip('\r\n').split('\t')


def csv_rows(
  lines: Iterator[str], delimiter: str = ','
) -> Iterator[tuple[int, int, list[str] | csv.Error]]:
  """(first line, last line, cells) of each row of a CSV; the error, where it is no row."""
  csv.field_size_limit(sys.maxsize)  # Python's own, 131,072 characters, is less than a page has
  reader = csv.reader(lines, delimiter=delimiter, strict=True)
  found: list[str] | csv.Error
  while True:
    first = reader.line_num + 1
    try:
      found = next(reader)
    except StopIteration:
      return
    except csv.Error as error:
      found = error
    if found:
      yield first, reader.line_num, found


def _csv(path: str, lines: Iterator[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
  for first, last, values in csv_rows(lines, delimiter):
    if isinstance(values, csv.Error):  # an open quote goes on to the end of the file
      raise InputError(f'{path}:{first}: not a CSV row: {values}') from values
    yield last, values


def _parquet(path: str, columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
  with extras.needed('store', f'{path}: '):
    import pyarrow as pa
    import pyarrow.parquet as pq
  try:
    with _open(path) as file:
      if files.is_remote(path):
        file.closed = False  # Arrow asks a file for it, and TensorFlow's do not say
      table = pq.ParquetFile(file, page_checksum_verification=True)
      check_header(own := table.schema_arrow.names, path)
      names = needed(own, columns)
      yield from arrow_rows(table.iter_batches(_BATCH, columns=names), f'{path}:', names, own)
  except pa.ArrowException as error:
    raise InputError(f'{path}: not a Parquet file, or damaged: {error}') from error
  except _errors(path) as error:
    raise InputError(f'{path}: cannot be read: {_reason(error)}') from error


def _reason(error: Exception) -> str:
  return getattr(error, 'strerror', None) or str(error)


def _open(path: str) -> Any:
  """A file of bytes."""
  return files.gfile(path).GFile(path, 'rb') if files.is_remote(path) else open(path, 'rb')


def _errors(path: str) -> tuple[type[Exception], ...]:
  """Exceptions of a file from `_open`."""
  if '://' not in path:
    return (OSError,)
  import tensorflow as tf

  return OSError, tf.errors.OpError


def check_encoding(encoding: str) -> None:
  """Refuses an --encoding that is unknown or does not extend ASCII."""
  try:
    # Half of a surrogate pair is no character: a codec that has bytes for it could read one.
    written = 'a\ud800\n'.encode(encoding, 'ignore').removeprefix(codecs.BOM_UTF8)
  except (LookupError, ValueError) as error:
    raise InputError(f'--encoding={encoding}: {error}') from error
  if written != b'a\n':
    raise InputError(f'--encoding={encoding}: bytes must extend ASCII; convert to UTF-8')


def lines(path: str, encoding: str) -> Iterator[str]:
  """Streams the lines of a text file or gzip, with their ends; a damaged file is refused."""
  number = 0
  try:
    with _open(path) as raw, gzip.open(raw) if path.endswith('.gz') else raw as file:
      for number, line in enumerate(file, 1):
        if number == 1:
          _refuse_foreign(path, line)
        text = line.decode(encoding)
        yield text.removeprefix('\ufeff') if number == 1 else text
      if path.endswith('.gz') and not raw.tell():
        raise EOFError(NO_BYTES)
  except UnicodeDecodeError as error:
    byte = error.object[error.start]
    where = f'{path}:{number}'
    right = 'convert it to UTF-8 (iconv), or name --encoding where the command has it'
    raise InputError(f'{where}: byte 0x{byte:02x} is not {encoding}; {right}') from error
  except DAMAGED_GZIP as error:
    raise InputError(f'{path}: damaged gzip after line {number}: {error}; copy it anew') from error
  except _errors(path) as error:
    raise InputError(f'{path}: cannot be read: {_reason(error)}') from error


def _refuse_foreign(path: str, line: bytes) -> None:
  for begin, what in _FOREIGN.items():
    if line.startswith(begin):
      raise InputError(f'{path}: {what}')
