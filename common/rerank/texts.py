"""Texts of a run's queries and documents, from a table."""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from common.data import tables
from common.data.trec import Pairs
from common.errors import InputError


def of_ids(
  path: str,
  run: Pairs,
  what: str,
  id_column: str,
  text_column: str,
  needed: Iterable[int] | None = None,
) -> list[str]:
  """Texts of a run's queries or documents, in the order of their numbers.

  Other rows of the table are passed over.

  Args:
    path: The table.
    run: The run.
    what: 'query' or 'document'.
    id_column: Column of the ids.
    text_column: Column of the texts.
    needed: Row numbers whose texts are needed; the other texts are empty. None: all are needed.

  Raises:
    InputError: If the id of a needed one is not in the table, or stands there twice or has an empty
      text.
  """
  ids = run.queries if what == 'query' else run.documents
  needed = range(len(ids)) if needed is None else list(needed)
  numbers = {ids[number]: number for number in needed}
  found: list[str | None] = [None] * len(ids)
  for line, row in _rows(path, id_column, text_column):
    number = numbers.get(row[id_column])
    if number is None:
      continue
    if found[number] is not None:
      raise InputError(f'{path}:{line}: {what} {row[id_column]!r} stands in the table twice')
    if not row[text_column].strip():
      raise InputError(f'{path}:{line}: the text of {what} {row[id_column]!r} is empty')
    found[number] = row[text_column]
  for number in needed:
    if found[number] is None:
      refuse_missing(run, what, number, path)
  return [text or '' for text in found]


def refuse_missing(run: Pairs, what: str, number: int, where: str) -> None:
  """Raises the error of an id of the run that another file or store does not have."""
  of_line, ids = (run.query, run.queries) if what == 'query' else (run.document, run.documents)
  line = run.line[int(np.argmax(of_line == number))]
  raise InputError(f'{run.path}:{line}: {what} {ids[number]!r} is not in {where}')


def _rows(path: str, id_column: str, text_column: str) -> Iterator[tuple[int, tables.Row]]:
  """Rows of a table; a TSV of two columns, neither of them so named, has no header."""
  header: tuple[str, ...] = ()
  if path.removesuffix('.gz').endswith(('.tsv', '.txt')):
    first = next(itertools.islice(tables.lines(path, 'utf-8'), 1), '').rstrip('\r\n').split('\t')
    if len(first) == 2 and not {id_column, text_column} & set(first):
      header = (id_column, text_column)
  return tables.rows(path, header=header, columns=(id_column, text_column))
