"""Vectors of documents by their content: the newest in memory, all of them in a file."""

import os
import sqlite3
import sys
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from common.errors import damaged
from common.vectors.values import Stored, narrowed

_ASKED = 1000  # keys of one question to the file
_WAIT = 60  # seconds for another process's write


class VectorCache:
  """Vectors in int8 by key; used by one thread at a time.

  The memory holds those used last. The file is SQLite's, shared by the processes of one machine;
  what `add` has returned stays there if the process is killed. If the file cannot be written any
  more (no room), that is said once, and the memory goes on alone.

  Args:
    shape: Shape of a text's vectors.
    memory: Bytes of vectors in memory at the most; one text's at the least.
    path: The file, made where it is missing; empty: memory alone.

  Raises:
    InputError: If the file is there and no such file.

  Attributes:
    row: Type of a text's row: 'scale' and 'values', as `Stored` has them.
  """

  def __init__(self, shape: Sequence[int], memory: int, path: str = ''):
    self.row = np.dtype([('scale', np.float32, tuple(shape[:-1])), ('values', np.int8, shape)])
    self._held = np.empty(max(1, memory // self.row.itemsize), self.row)
    self._places: OrderedDict[bytes, int] = OrderedDict()  # least recently used first
    self._path = path
    self._file = self._opened() if path else None

  def __len__(self) -> int:
    """Texts in memory."""
    return len(self._places)

  def fill(self, keys: Sequence[bytes], rows: np.ndarray) -> list[int]:
    """Writes what is kept under distinct keys into `rows` [n] of type `row`.

    Returns:
      The numbers of the keys that are not there.
    """
    places = [self._places.get(key, -1) for key in keys]
    there = [number for number, place in enumerate(places) if place >= 0]
    for number in there:
      self._places.move_to_end(keys[number])
    rows[there] = self._held[[places[number] for number in there]]
    missing = [number for number, place in enumerate(places) if place < 0]
    if not self._file or not missing:
      return missing
    numbers = {keys[number]: number for number in missing}
    found = self._read(list(numbers))
    if found:
      read = [numbers.pop(key) for key, _ in found]
      rows[read] = np.frombuffer(b''.join(row for _, row in found), self.row)
      self._keep([keys[number] for number in read], rows[read])
    return list(numbers.values())

  def add(self, keys: Sequence[bytes], vectors: np.ndarray) -> np.ndarray:
    """Keeps vectors [n, *shape] float32 under distinct keys, in the file first.

    Returns:
      Their rows [n].
    """
    rows = np.empty(len(keys), self.row)
    rows['values'], rows['scale'] = narrowed(vectors, 'int8')
    if self._file:
      try:
        with self._file:
          values = [(key, row.tobytes()) for key, row in zip(keys, rows, strict=True)]
          self._file.executemany('INSERT OR IGNORE INTO vectors VALUES (?, ?)', values)
      except sqlite3.Error as error:
        self._give_up(error)
    self._keep(keys, rows)
    return rows

  def _opened(self) -> sqlite3.Connection:
    os.makedirs(os.path.dirname(os.path.abspath(self._path)), exist_ok=True)
    with damaged(self._path, 'delete it, and its vectors are made anew'):
      file = sqlite3.connect(self._path, timeout=_WAIT, check_same_thread=False)
      file.execute('PRAGMA journal_mode=WAL')  # readers do not wait for a writer
      file.execute('PRAGMA synchronous=NORMAL')
      file.execute('CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, row BLOB)')
      for (row,) in file.execute('SELECT row FROM vectors LIMIT 1'):
        np.frombuffer(row, self.row)
    return file

  def _read(self, keys: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Keys that the file has, with their rows."""
    assert self._file
    found = []
    try:
      for start in range(0, len(keys), _ASKED):
        asked = keys[start : start + _ASKED]
        holes = ','.join('?' * len(asked))
        question = f'SELECT key, row FROM vectors WHERE key IN ({holes})'
        found += self._file.execute(question, asked).fetchall()
    except sqlite3.Error as error:
      self._give_up(error)
    return found

  def _give_up(self, error: sqlite3.Error) -> None:
    print(f'{self._path}: {error}: no longer used', file=sys.stderr, flush=True)
    if self._file:
      self._file.close()
      self._file = None

  def _keep(self, keys: Sequence[bytes], rows: np.ndarray) -> None:
    """Puts rows into memory, in place of those that were not used for longest."""
    first = max(0, len(keys) - len(self._held))  # of more than fit, the last
    places = []
    for key in keys[first:]:
      place = self._places.pop(key, len(self._places))
      if place == len(self._held):
        _, place = self._places.popitem(last=False)
      self._places[key] = place
      places.append(place)
    self._held[places] = rows[first:]


def stored(rows: np.ndarray) -> Stored:
  """Rows of a cache as a store has them."""
  return Stored(np.ascontiguousarray(rows['values']), np.ascontiguousarray(rows['scale']))
