"""Tables in memory: their rows, and files of them for a command to read.

A table is anything with Arrow's interface (of pandas, pyarrow, polars), a `tf.data.Dataset` of
dicts, or whatever yields dicts: a list, a Hugging Face `Dataset`. No package of theirs is imported.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tqdm import tqdm

from common import files
from common.data import tables
from common.data.tables import Row
from common.errors import InputError

_KINDS = "a path, a table of pandas or pyarrow, a datasets' or tf.data Dataset, or a list of dicts"


def rows(table: Any, name: str, wanted: Sequence[str] = ()) -> Iterator[tuple[int, Row]]:
  """Streams (row number from 1, row) of a table; errors give its name; refuses what is no table.

  Rows have the columns `wanted` alone; empty, or where none is there: all.
  """
  if hasattr(table, '__arrow_c_stream__'):
    arrow = _arrow(table, name, wanted)
    tables.check_header(own := arrow.schema.names, name)
    names = tables.needed(own, wanted)
    yield from tables.arrow_rows(arrow.to_batches(), f'{name}, row ', names, own)
    return
  if hasattr(table, 'as_numpy_iterator'):
    table = table.as_numpy_iterator()
  if isinstance(table, (Mapping, bytes)) or not isinstance(table, Iterable):
    raise InputError(f'{name}: a value of type {type(table).__name__}; {_KINDS} is needed')
  for number, row in enumerate(table, 1):
    where = f'{name}, row {number}'
    if not isinstance(row, Mapping):
      raise InputError(f'{where}: a {type(row).__name__}; each row is a dict of columns')
    yield number, tables.values_row(row, where, tables.needed(own := [*row], wanted), own)


def write(table: Any, name: str, path: str, needed: Sequence[str], known: Sequence[str]) -> None:
  """Writes columns of a table as JSONL, in ASCII.

  Args:
    table: The table.
    name: Its name, for messages.
    path: The file.
    needed: Columns that every row must have.
    known: Columns that are written where a row has them.
  """
  empty = True
  with files.opened(path, 'w') as file:
    for _, row in tqdm(rows(table, name, [*needed, *known]), desc=name, unit=' rows'):
      cells = {column: row[column] for column in needed}
      cells |= {column: row[column] for column in known if column in row}
      file.write(json.dumps(cells) + '\n')
      empty = False
  if empty:
    raise InputError(f'{name}: no rows; an empty table is no data set')


def _arrow(table: Any, name: str, wanted: Sequence[str]) -> Any:
  import pyarrow as pa

  try:
    return pa.table(table)
  except (pa.ArrowException, TypeError, ValueError) as error:
    columns = list(getattr(table, 'columns', ()))
    kept = tables.needed(columns, wanted)
    if len(kept) < len(columns):
      return _arrow(table[kept], name, ())
    reason = '; '.join(map(str, error.args))
    raise InputError(f'{name}: Arrow takes no such table: {reason}') from error
