"""Ids of a vector store by row, and rows by id; ids that occur more than once."""

import array
import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common.data.texts import hash64
from common.vectors.arrow import pyarrow

if TYPE_CHECKING:
  import pyarrow as pa


class Ids:
  """Ids of rows that are numbered end to end, and their rows: 16 bytes an id beside the ids.

  The rows are kept in the order of the ids' hashes (Python's own, of this process). An id that is
  looked for is compared with those of its hash, so that what is found is exact.

  Args:
    columns: The ids, Arrow arrays of strings.

  Attributes:
    ends: One after the last row of each column.
  """

  def __init__(self, columns: Iterable['pa.Array'] = ()):
    self._columns = list(columns)
    self.ends = np.cumsum([len(column) for column in self._columns], dtype=np.int64)

  def __len__(self) -> int:
    return int(self.ends[-1]) if len(self.ends) else 0

  def __getitem__(self, rows: np.ndarray) -> list[str]:
    """Ids of rows [n]."""
    found = np.empty(len(rows), object)
    for number, places, inside in by_part(rows, self.ends):
      found[places] = self._columns[number].take(pyarrow().array(inside)).to_pylist()
    return found.tolist()

  def find(self, ids: Sequence[str]) -> np.ndarray:
    """Rows of ids [n] int64; -1 of one that is not there. The first call makes the table."""
    hashes, rows = self._table
    asked, found = _hashed(ids), np.full(len(ids), -1, np.int64)
    places, left = np.searchsorted(hashes, asked), np.arange(len(ids))
    while True:
      left = left[places[left] < len(hashes)]
      left = left[hashes[places[left]] == asked[left]]
      if not len(left):
        return found
      candidates = rows[places[left]]
      wanted = (ids[place] for place in left.tolist())
      same = np.fromiter(map(operator.eq, self[candidates], wanted), bool, len(left))
      found[left[same]] = candidates[same]
      left = left[~same]  # another id of the same hash
      places[left] += 1

  def add(self, ids: Sequence[str]) -> None:
    """Adds ids that are missing, with the next row numbers."""
    hashes, rows = self._table
    new, start = _hashed(ids), len(self)
    self._columns.append(pyarrow().array(ids, pyarrow().string()))
    self.ends = np.append(self.ends, start + len(ids))
    order = np.argsort(new, kind='stable')
    places = np.searchsorted(hashes, new[order])
    self._table = np.insert(hashes, places, new[order]), np.insert(rows, places, start + order)

  @functools.cached_property
  def _table(self) -> tuple[np.ndarray, np.ndarray]:
    """Hashes in order, and the row of each."""
    hashes = [np.zeros(0, np.int64), *(_hashed(column.to_pylist()) for column in self._columns)]
    every = np.concatenate(hashes)
    order = np.argsort(every, kind='stable')
    return every[order], order


def _hashed(ids: Sequence[str]) -> np.ndarray:
  return np.fromiter(map(hash, ids), np.int64, len(ids))


def by_part(rows: np.ndarray, ends: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
  """(part, places in `rows`, numbers inside it) of each part that has some of the rows.

  Args:
    rows: Numbers of rows, end to end over the parts.
    ends: One after each part's last row.
  """
  numbers = np.searchsorted(ends, rows, side='right')
  order = np.argsort(numbers, kind='stable')
  starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
  for places in np.split(order, starts)[1:]:
    number = int(numbers[places[0]])
    yield number, places, rows[places] - (ends[number - 1] if number else 0)


def hashes(texts: Sequence[Any]) -> np.ndarray:
  """`hash64` of texts (or vectors), [n] uint64, the same in every process."""
  return np.fromiter(map(hash64, texts), np.uint64, len(texts))


def repeated(arrays: Iterable[np.ndarray]) -> np.ndarray:
  """Hashes that occur more than once in all arrays together; takes 10 bytes each."""
  held = array.array('Q')  # grows in its place; arrays to be joined would take 16
  for some in arrays:
    held.frombytes(some.tobytes())
  ordered = np.frombuffer(held, np.uint64)
  ordered.sort()
  return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
