"""TREC's files: runs (`query Q0 document rank score name`) and qrels (`query 0 document grade`).

ASCII's spaces and tabs alone separate cells: a no-break space is a character of an id. `.gz` is
read and written. A bad line is refused with file and number.
"""

import contextlib
import dataclasses
import functools
import gzip
import io
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from common import files
from common.data import tables
from common.data.texts import places
from common.errors import InputError

_CELL = re.compile(r'\S+', re.ASCII)


@dataclasses.dataclass(frozen=True)
class Pairs:
  """Queries with documents, each with a number: a run's scores, or qrels' grades.

  Attributes:
    path: The file.
    queries, documents: Their ids, in the order of their first lines.
    query, document: [n] int32, numbers into them.
    values: [n] float64, scores or grades.
    line: [n] int64, the line that each stands at.
    name: What scored, the last cell of a run's first line.
  """

  path: str
  queries: list[str]
  documents: list[str]
  query: np.ndarray
  document: np.ndarray
  values: np.ndarray
  line: np.ndarray
  name: str = ''

  @functools.cached_property
  def ties(self) -> np.ndarray:
    """The documents' places in the order of their ids, [documents]."""
    return places(self.documents)


def is_id(key: str) -> bool:
  """Whether a file can hold a name: it is not empty, and has no space that ends a cell."""
  return bool(_CELL.fullmatch(key))


def read_run(path: str) -> Pairs:
  """A run; its ranks are not read, as trec_eval does not read them."""
  return _read(path, 'query Q0 document rank score name', _score)


def read_qrels(path: str) -> Pairs:
  """Judgements with whole grades."""
  return _read(path, 'query 0 document grade', _grade)


def write_run(
  path: str,
  queries: Iterable[str],
  rows: Iterable[tuple[Sequence[str], Sequence[float]]],
  name: str,
) -> None:
  """Writes a run, whole or not at all.

  Args:
    path: The file.
    queries: Their ids.
    rows: Each query's documents and scores, best first; streamed.
    name: The last cell of each line: what scored.
  """
  with _written(path) as file:
    for query, (documents, scores) in zip(queries, rows, strict=True):
      for rank, (document, score) in enumerate(zip(documents, scores, strict=True), 1):
        file.write(f'{query} Q0 {document} {rank} {score:.9g} {name}\n')


def write_qrels(path: str, rows: Iterable[tuple[str, str, int]]) -> None:
  """Writes judgements (query, document, grade), whole or not at all."""
  with _written(path) as file:
    for query, document, grade in rows:
      file.write(f'{query} 0 {document} {grade}\n')


@contextlib.contextmanager
def _written(path: str) -> Iterator[Any]:
  """A text file that is written whole or not at all."""
  with files.whole(path) as temporary, contextlib.ExitStack() as stack:
    if path.endswith('.gz'):
      raw = stack.enter_context(files.opened(temporary, 'wb'))
      packed = stack.enter_context(gzip.GzipFile('', 'wb', fileobj=raw, mtime=0))
      yield stack.enter_context(io.TextIOWrapper(packed, 'utf-8', newline='\n'))
    else:
      yield stack.enter_context(files.opened(temporary, 'w'))


def _read(path: str, columns: str, number: Callable[[str, str], float]) -> Pairs:
  width, place = len(columns.split()), 4 if 'score' in columns else 3
  queries: dict[str, int] = {}
  documents: dict[str, int] = {}
  query, document, values, at = array('i'), array('i'), array('d'), array('q')
  name = ''
  for line, cells in _cells(path):
    where = f'{path}:{line}'
    if len(cells) != width:
      raise InputError(f'{where}: {len(cells)} cells; a line is `{columns}`')
    query.append(queries.setdefault(cells[0], len(queries)))
    document.append(documents.setdefault(cells[2], len(documents)))
    values.append(number(cells[place], where))
    at.append(line)
    name = name or (cells[-1] if place == 4 else '')
  if not len(at):
    raise InputError(f'{path}: empty; a line is `{columns}`')
  found = Pairs(
    path,
    list(queries),
    list(documents),
    np.frombuffer(query, np.int32),
    np.frombuffer(document, np.int32),
    np.frombuffer(values, np.float64),
    np.frombuffer(at, np.int64),
    name,
  )
  _refuse_twice(found)
  return found


def _cells(path: str) -> Iterator[tuple[int, list[str]]]:
  for number, line in enumerate(tables.lines(path, 'utf-8'), 1):
    if cells := _CELL.findall(line):
      yield number, cells


def _refuse_twice(pairs: Pairs) -> None:
  """Refuses a pair that stands in a file twice: which of its values counts is unknown."""
  key = pairs.query.astype(np.int64) * len(pairs.documents) + pairs.document
  order = np.argsort(key, kind='stable')
  again = np.flatnonzero(key[order][1:] == key[order][:-1])
  if len(again):
    first, second = order[again[0]], order[again[0] + 1]
    query, document = pairs.queries[pairs.query[second]], pairs.documents[pairs.document[second]]
    raise InputError(
      f'{pairs.path}:{pairs.line[second]}: query {query!r} has document '
      f'{document!r} at line {pairs.line[first]} too'
    )


def _score(cell: str, where: str) -> float:
  return tables.number(cell, 'score', where)


def _grade(cell: str, where: str) -> float:
  try:
    return int(cell)
  except ValueError as error:
    raise InputError(f'{where}: grade {cell!r} is not a whole number') from error
