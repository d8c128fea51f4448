"""Contents of a vector store as hashes: an id stands in it once, with one text.

Hashes are of 64 bits: that any two of ten million ids share one has a probability of 3e-6, and they
would count as one id.
"""

import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common.data.texts import hash64
from common.errors import InputError
from common.vectors.store import pyarrow

if TYPE_CHECKING:
  import pyarrow as pa


def hashes(texts: Sequence[Any]) -> np.ndarray:
  """`hash64` of texts (or vectors), [n] uint64."""
  return np.fromiter(map(hash64, texts), np.uint64, len(texts))


def repeated(arrays: Iterable[np.ndarray]) -> np.ndarray:
  """Hashes that occur more than once in all arrays together; takes 10 bytes each."""
  held = array.array('Q')  # grows in its place; arrays to be joined would take 16
  for some in arrays:
    held.frombytes(some.tobytes())
  ordered = np.frombuffer(held, np.uint64)
  ordered.sort()
  return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


class TextHashes:
  """Ids of a store and of what is being added, each with its text; 17 bytes an id, and those that are replaced.

  Args:
    folder: The store's folder, for messages.
    stored: (hashes of ids, hashes of texts) of its shards.
    replace: Whether another text may take the place of a stored one.
  """

  def __init__(
    self, folder: str, stored: Iterable[tuple[np.ndarray, np.ndarray]], replace: bool = False
  ):
    empty = np.zeros([0], np.uint64)
    ids, texts = (np.concatenate(c) for c in zip((empty, empty), *stored, strict=True))
    order = np.argsort(ids)
    self._ids, self._texts = ids[order], texts[order]  # by id
    self._given = np.zeros(len(ids), bool)  # to `add`, beside what was stored
    self._folder, self._replace = folder, replace
    self._replaced: list[Any] = []

  @property
  def replaced(self) -> 'pa.ChunkedArray':
    """The stored ids that were given another text."""
    return pyarrow().chunked_array(self._replaced, pyarrow().string())

  def add(self, ids: Sequence[str], texts: Sequence[Any]) -> np.ndarray:
    """Takes rows in; returns the numbers of those whose vectors are needed, in order.

    Raises:
      InputError: If an id comes with two texts, or with another than the store's and must not.
    """
    keys, values = hashes(ids), hashes(texts)
    distinct, first, of_row = np.unique(keys, return_index=True, return_inverse=True)
    places = np.searchsorted(self._ids, distinct)
    known = np.zeros(len(distinct), bool)
    inside = places < len(self._ids)
    known[inside] = self._ids[places[inside]] == distinct[inside]
    at, rows = places[known], first[known]
    other, given = self._texts[at] != values[rows], self._given[at]
    twice = [*np.flatnonzero(values != values[first[of_row]]), *rows[other & given]]
    if twice:
      raise InputError(f'id {ids[min(twice)]!r}: given with two texts; an id has one')
    if other.any() and not self._replace:
      key = ids[min(rows[other])]
      raise InputError(
        f'{self._folder}: id {key!r} is there with another text; replace=True replaces its vectors'
      )
    if other.any():
      arrow = pyarrow()
      self._replaced.append(arrow.array([ids[row] for row in rows[other]], arrow.string()))
    self._texts[at], self._given[at] = values[rows], True
    new, where = first[~known], places[~known]
    self._ids = np.insert(self._ids, where, distinct[~known])
    self._texts = np.insert(self._texts, where, values[new])
    self._given = np.insert(self._given, where, True)
    return np.sort(np.concatenate([new, rows[other]]))
