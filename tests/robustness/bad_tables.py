"""Tables of pairs with one fault at a time, in each form and place, and the reader's answer."""

import csv
import gzip
import io
import json
import os
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from common.data import examples
from common.data.examples import TableConfig
from common.errors import InputError

FORMS = ('tsv', 'csv', 'jsonl', 'parquet', 'tsv.gz', 'csv.gz', 'jsonl.gz')
ROWS = [(f'p{i}', f'term {i}', f'thing {i % 3}', f'{i / 8:g}') for i in range(6)]
COLUMNS = ('id', 'left', 'right', 'label')
_PLACES = (0, len(ROWS) // 2, len(ROWS) - 1)
_CONFIG = TableConfig(id_column='id')

_WRONG = {  # cells that no row may have, by column
  'id': ('', ' ', 'p1'),
  'left': ('', ' '),
  'right': ('', '\u2003'),
  'label': ('', 'word', 'nan', 'inf', '-1', '1.5', '1e999', '[0]', '0x1', '1;0', 'true'),
}
_RIGHT = {  # cells that look like faults, and are none
  'id': ('0', 'a b', 'P1', '1e5', 'é', 'NaN'),
  'left': (
    '"',
    "'",
    'null',
    'NaN',
    '\\N',
    '=1+1',
    '<b>',
    '漢字 😀',
    'e\u0301',
    'a\u2028b',
    'a\x0bb',
  ),
  'right': ('x' * 10**5, 'a\x00b', '#', '-', '\ufeffx', '\u202ex', 'a\\tb', 'a ""b'),
  'label': ('1', '0', '1e-9', ' 0.5 ', '+.5', '.5'),
}


class Case(NamedTuple):
  """A table with a fault, or with a cell that looks like one.

  `line` is the bad row's, 0 where no row is bad. `rows` are what reading gives; None where the
  reader refuses.
  """

  name: str
  content: bytes
  line: int = 0
  rows: list[tuple[str, ...]] | None = None


def cases(form: str) -> Iterator[Case]:
  """A form's tables."""
  first = 1 if form.startswith(('jsonl', 'parquet')) else 2
  for wrong, values_of in ((True, _WRONG), (False, _RIGHT)):
    for number, column in enumerate(COLUMNS):
      for value in values_of[column]:
        for place in _PLACES:
          rows = [list(row) for row in ROWS]
          rows[place][number] = value
          line = first + max(place, 1 if value == 'p1' else 0)  # of the second of an id
          if rows == [list(row) for row in ROWS] or (value, place) == ('p1', 1):
            continue
          expected = None if wrong else [tuple(row) for row in rows]
          content = written(form, COLUMNS, rows)
          yield Case(f'{column} {value[:9]!r} {place}', content, line if wrong else 0, expected)
  yield from _headers(form)
  if form != 'parquet':
    yield from _lines(form, first)
  yield Case('emptied', b'')
  yield Case('no rows', written(form, COLUMNS, []))
  good = written(form, COLUMNS, ROWS)
  if form == 'parquet' or form.endswith('.gz'):
    for share in (1, 4, 8, 9):
      yield Case(f'cut at {share}/10', good[: len(good) * share // 10])
  for other in FORMS:
    if other != form:
      yield Case(f'it is {other}', written(other, COLUMNS, ROWS))


def outcome(path: str, case: Case) -> str:
  """'refused' in one line that names file and row, or 'taken' whole, as is right; or the fault."""
  with open(path, 'wb') as file:
    file.write(case.content)
  try:
    found = list(examples.read(path, _CONFIG, labels='all'))
  except InputError as error:
    where = f'{path}:{case.line}' if case.line else path
    if case.rows is None and str(error).startswith(where) and '\n' not in str(error):
      return 'refused'
    return f'refused without its place in one line, or for nothing: {error}'
  except Exception as error:
    return f'{type(error).__name__}: {error}'
  if case.rows is None:
    return 'taken in silence'
  rows = [(e.id, *e.texts, e.label) for e in found]
  right = [(key.strip(), left, right, float(label)) for key, left, right, label in case.rows]
  return 'taken' if rows == right else f'read as another table: {rows}'


def knocks(folder: str, form: str) -> Iterator[tuple[str, str]]:
  """(name, outcome) of each of a form's tables, which are written to a folder."""
  for case in cases(form):
    yield case.name, outcome(os.path.join(folder, f't.{form}'), case)


def written(form: str, columns: tuple[str, ...], rows: list) -> bytes:
  """A table's bytes."""
  if form.endswith('.gz'):
    return gzip.compress(written(form.removesuffix('.gz'), columns, rows), mtime=0)
  if form == 'parquet':
    sink = io.BytesIO()
    cells = [list(cells) for cells in zip(*rows, strict=True)] or [[] for _ in columns]
    pq.write_table(pa.Table.from_arrays([pa.array(c, pa.string()) for c in cells], columns), sink)
    return sink.getvalue()
  if form == 'jsonl':
    return ''.join(json.dumps(dict(zip(columns, row, strict=True))) + '\n' for row in rows).encode()
  if form == 'tsv':
    return ''.join('\t'.join(row) + '\n' for row in [columns, *rows]).encode()
  text = io.StringIO()
  csv.writer(text, lineterminator='\n').writerows([columns, *rows])
  return text.getvalue().encode()


def _headers(form: str) -> Iterator[Case]:
  """Columns that are named otherwise, twice, or not there; spaces around a name are no fault."""
  for number, column in enumerate(COLUMNS):
    for name in (column.upper(), f' {column}', ''):
      columns = (*COLUMNS[:number], name, *COLUMNS[number + 1 :])
      taken: list[tuple[str, ...]] | None = list(ROWS) if name.strip() == column else None
      yield Case(f'{column} is {name!r}', written(form, columns, ROWS), rows=taken)
    rest = [(*row[:number], *row[number + 1 :]) for row in ROWS]
    columns = (*COLUMNS[:number], *COLUMNS[number + 1 :])
    yield Case(f'no {column}', written(form, columns, rest))
    if not form.startswith('jsonl'):  # a key twice is a fault of a row
      twice = [(*row, row[number]) for row in ROWS]
      yield Case(f'{column} twice', written(form, (*COLUMNS, column), twice))


def _lines(form: str, first: int) -> Iterator[Case]:
  """Lines that are no rows; a blank one is no fault."""
  faults = [b'', b'\xff', b'p9', b'p9\xc3(\tx\ty\t0', b'{"id": 1', b'[1]', b'"', b'NaN', b'\x00']
  if form.startswith('jsonl'):
    faults += [b'{"id": "p9", "left": "a", "right": "b", "label": 0, "label": 1}', b'{}', b'null']
  else:
    faults += [b'p9\tx\ty\t0\tz', b'p9,x,y,0,z']
  lines = written(form.removesuffix('.gz'), COLUMNS, ROWS).splitlines(keepends=True)
  for fault in faults:
    for place in _PLACES:
      at = place + first - 1
      content = b''.join([*lines[:at], fault + b'\n', *lines[at:]])
      content = gzip.compress(content, mtime=0) if form.endswith('.gz') else content
      taken: list[tuple[str, ...]] | None = None if fault else list(ROWS)
      yield Case(f'line {fault!r} {place}', content, first + place, taken)
