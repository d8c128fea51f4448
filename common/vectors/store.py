"""Encoder outputs computed once: ids and vectors in memory-mapped Arrow shards.

A store is a sharded folder (`common.sharded`): `vectors-*.arrow` and a manifest, written last, so
a store is whole or not there. Shards added later count once the manifest is written again. Opening
checks sizes, counts and how each shard says that it was made; `verify` checks every byte.

The manifest numbers the rows that are deleted, so that no shard is touched; `compact` writes shards
without them. A store that is open stays what it was, whatever becomes of the folder.

An id is in a store once; beside it stands a hash of its text, which tells whether a text that comes
for the id is the one encoded.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from common.data.texts import listed
from common.errors import InputError
from common.vectors import changes, manifest, parquet, shards
from common.vectors.ids import Ids, by_part
from common.vectors.values import Stored


class VectorStore:
  """A store that was written whole, opened for reading.

  Attributes:
    shape: Shape of a text's vectors.
    dtype: Type that the vectors are stored in.
    fingerprint: Fingerprint of the encoder that made them.
    side: Side of the texts: 'left' or 'right'.
    version: Digest of the manifest: another one where the store has changed.
  """

  def __init__(self, folder: str):
    """Opens a store.

    Raises:
      InputError: If there is none, or a shard is missing or not as it was listed.
    """
    self.folder = manifest.folder_of_store(folder)
    while True:
      self.version = manifest.version(self.folder)
      try:
        self._open()
      except InputError:
        if self.is_current():
          raise
      else:
        if self.is_current():  # else the store has changed in the meantime: anew
          return

  def _open(self) -> None:
    there = manifest.read(self.folder)
    self.shape, self.dtype = there.vectors.shape, there.vectors.dtype
    self.fingerprint, self.side = there.vectors.fingerprint, there.vectors.side
    self._shards = there.shards
    self._pieces = [
      piece
      for shard in there.shards
      for piece in shards.opened(shard.path(self.folder), shard, there.vectors)
    ]
    self._ids = Ids(piece.ids for piece in self._pieces)

  def is_current(self) -> bool:
    """Whether the folder still holds what was opened."""
    return manifest.version(self.folder) == self.version

  def __len__(self) -> int:
    return len(self._ids)

  def vectors(self, rows: slice | Sequence[int] | np.ndarray) -> np.ndarray:
    """Vectors of rows, [n, *shape] float32: a read-only view where a shard holds them so."""
    return self.stored(rows)[:]

  def stored(self, rows: slice | Sequence[int] | np.ndarray) -> Stored:
    """Vectors of rows as they are stored; no copy of rows of one shard that follow one another."""
    rows = row_numbers(rows, len(self), self.folder)
    values = np.empty([len(rows), *self.shape], self.dtype)
    scales = np.empty([len(rows), *self.shape[:-1]], np.float32) if self.dtype == 'int8' else None
    for number, places, inside in by_part(rows, self._ids.ends):
      piece = self._pieces[number]
      inside = inside if piece.live is None else piece.live[inside]
      run = bool(np.all(np.diff(inside) == 1))  # no gaps: a view, no copy
      picked = slice(int(inside[0]), int(inside[-1]) + 1) if run else inside
      found = piece.stored.at(picked)
      if len(inside) == len(rows):
        return found
      values[places] = found.values
      if scales is not None:
        scales[places] = found.scale
    return Stored(values, scales)

  def ids(self, rows: Sequence[int] | np.ndarray) -> list[str]:
    """Ids of rows."""
    return self._ids[row_numbers(rows, len(self), self.folder)]

  def find(self, ids: Sequence[str]) -> np.ndarray:
    """Rows of ids, -1 where there is none; the table of all ids is made at the first call."""
    return self._ids.find(listed(ids, 'ids'))

  def rows(self, ids: Sequence[str]) -> np.ndarray:
    """Rows of ids.

    Raises:
      InputError: If one is not in the store.
    """
    ids = listed(ids, 'ids')
    found = self._ids.find(ids)
    if (found < 0).any():
      raise InputError(f'{self.folder}: no vectors of id {ids[int(np.argmin(found))]!r}')
    return found

  def delete(self, ids: Iterable[str]) -> 'VectorStore':
    """The store without some ids; ids that it does not have change nothing.

    The folder changes at once or, killed, not at all. This store stays as it is open; rows of the
    returned one have other numbers.
    """
    changes.delete(self.folder, ids)
    return VectorStore(self.folder)

  def compact(self) -> 'VectorStore':
    """The store of the same rows, in shards without deleted rows, small ones joined."""
    changes.compact(self.folder)
    return VectorStore(self.folder)

  def to_parquet(self, path: str, transform: parquet.Transform | None = None) -> None:
    """Writes ids and vectors as a Parquet file for an engine or a data frame, whole or not at all.

    Column `id` is a string. `vectors` is fixed-size lists of `shape`, nested, in float32; of an
    int8 store in int8, with float32 `scale` of each token: a token is its int8 numbers times it.
    Deleted rows are left out. A row group is 8,192 rows.

    >>> store.to_parquet('products.parquet')
    >>> store.to_parquet('parts.parquet', lambda vectors: scorer.parts(vectors, 'right'))

    Args:
      path: The file; one that is there is replaced.
      transform: Maps a block's vectors, [n, *shape] float32, to what is written in their place,
        [n, ...], in float32: parts, or the vectors of a first stage.

    Raises:
      InputError: If there is no such folder, or `transform` gives another number of rows, NaN or
        infinity.
    """
    read = lambda rows: (self.ids(rows), self.stored(rows))  # noqa: E731
    parquet.write(path, len(self), read, transform)

  def verify(self) -> None:
    """Reads every shard and compares checksums; raises InputError at one that differs."""
    for shard in self._shards:
      shard.check(shard.path(self.folder), manifest.REMEDY)


def row_numbers(rows: Any, count: int, where: str) -> np.ndarray:
  """Numbers of rows [n] int64, of a slice too; refuses one that is below 0 or past the last."""
  if isinstance(rows, slice):
    return np.arange(*rows.indices(count))
  numbers = np.asarray(rows)
  if numbers.ndim != 1 or (len(numbers) and numbers.dtype.kind not in 'iu'):
    found = f'of {numbers.dtype}' if numbers.ndim == 1 else f'an array of shape {numbers.shape}'
    raise InputError(f'{where}: rows are a list of whole numbers, not {found}')
  if (outside := (numbers < 0) | (numbers >= count)).any():
    raise InputError(f'{where}: no row {numbers[outside][0]}; rows are 0 to {count - 1}')
  return numbers.astype(np.int64, copy=False)
