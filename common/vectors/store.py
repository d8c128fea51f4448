"""Encoder outputs computed once: ids and vectors in memory-mapped Arrow shards.

A store is a folder of `vectors-*.arrow` (Arrow IPC of `id`, `text_hash`, `vectors`, and `scale`
where they are int8) and `manifest.json`, which names the shards that belong to it. It is written
last, so a store is whole or not there; shards added later count once it is written again. Opening
checks sizes, counts and what each shard says that it was made with; `verify` every byte.

Rows are deleted by the manifest, which numbers them, so that no shard is touched; `compact` writes shards
without them. A store that is open stays what it was, whatever becomes of the folder.

An id is in a store once; `text_hash` tells whether a text that comes for it is the one encoded.

Bytes of a text of k tokens, D wide: float32 4 k D, float16 2 k D, int8 k D + 4 k; 8 of its hash.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common import digests, files, schema
from common.data.texts import listed
from common.errors import InputError, damaged, local_path
from common.vectors.values import DTYPES, Stored

if TYPE_CHECKING:
  import pyarrow as pa

MANIFEST = 'manifest.json'
_FIELDS = {'version': int, 'shape': [int], 'dtype': str, 'fingerprint': str, 'side': str}
SHARDS = [{'name': str, 'rows': int, **digests.ENTRY}]
REMEDY = 'write the store anew'
_VERSION = 2


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
    self.folder = folder = folder_of_store(folder)
    self.version = _version(folder)
    while True:  # anew, where the store has changed in the meantime
      try:
        self._open()
      except InputError:
        if self.version == (version := _version(folder)):
          raise
      else:
        if self.version == (version := _version(folder)):
          break
      self.version = version

  def _open(self) -> None:
    folder, manifest = self.folder, read_manifest(self.folder)
    self.shape, self.dtype = tuple(manifest['shape']), manifest['dtype']
    self.fingerprint, self.side = manifest['fingerprint'], manifest['side']
    self._shards, self._ids = [], []
    self._listed = manifest['shards']
    for shard in self._listed:
      path = os.path.join(folder, shard['name'])
      check_size(path, shard)
      with damaged(path, REMEDY):
        opened = list(_open_shard(path, shard, manifest))
        if (rows := sum(len(ids) for *_, ids in opened)) != shard['rows']:
          raise ValueError(f'{rows} rows; {MANIFEST} says {shard["rows"]}')
      for vectors, scale, live, ids in opened:
        self._shards.append((vectors, scale, live))
        self._ids.append(ids)
    self._ends = np.cumsum([len(ids) for ids in self._ids], dtype=np.int64)
    self._row_of: dict[str, int] = {}

  def is_current(self) -> bool:
    """Whether the folder still holds what was opened."""
    return _version(self.folder) == self.version

  def __len__(self) -> int:
    return int(self._ends[-1]) if len(self._ends) else 0

  def vectors(self, rows: slice | Sequence[int] | np.ndarray) -> np.ndarray:
    """Vectors of rows, [n, *shape] float32; where they lie so in a shard a read-only view, else a copy."""
    return self.stored(rows)[:]

  def stored(self, rows: slice | Sequence[int] | np.ndarray) -> Stored:
    """Vectors of rows as they are stored; no copy of rows of one shard that follow one another."""
    rows = row_numbers(rows, len(self), self.folder)
    stored = np.empty([len(rows), *self.shape], self.dtype)
    scales = np.empty([len(rows), *self.shape[:-1]], np.float32) if self.dtype == 'int8' else None
    numbers = np.searchsorted(self._ends, rows, side='right')
    order = np.argsort(numbers, kind='stable')
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    for places in np.split(order, starts)[1:]:  # of a shard
      number = numbers[places[0]]
      vectors, scale, live = self._shards[number]
      inside = rows[places] - (self._ends[number] - len(self._ids[number]))
      inside = inside if live is None else live[inside]
      run = bool(np.all(np.diff(inside) == 1))  # no gaps: a view, no copy
      picked = slice(int(inside[0]), int(inside[-1]) + 1) if run else inside
      if len(inside) == len(rows):
        return Stored(vectors[picked], None if scale is None else scale[picked])
      stored[places] = vectors[picked]
      if scales is not None:
        scales[places] = scale[picked]
    return Stored(stored, scales)

  def ids(self, rows: Sequence[int] | np.ndarray) -> list[str]:
    """Ids of rows."""
    rows = row_numbers(rows, len(self), self.folder)
    numbers = np.searchsorted(self._ends, rows, side='right')
    starts = self._ends - [len(ids) for ids in self._ids]
    return [self._ids[n][int(r - starts[n])].as_py() for n, r in zip(numbers, rows, strict=True)]

  def find(self, ids: Sequence[str]) -> np.ndarray:
    """Rows of ids, -1 where there is none; the table of all ids is made at the first call."""
    if not self._row_of:
      every = (value for ids in self._ids for value in ids.to_pylist())
      self._row_of = {value: row for row, value in enumerate(every)}
    return np.array([self._row_of.get(value, -1) for value in listed(ids, 'ids')], np.int64)

  def rows(self, ids: Sequence[str]) -> np.ndarray:
    """Rows of ids.

    Raises:
      InputError: If one is not in the store.
    """
    ids = listed(ids, 'ids')
    found = self.find(ids)
    if (found < 0).any():
      raise InputError(f'{self.folder}: no vectors of id {ids[int(np.argmin(found))]!r}')
    return found

  def delete(self, ids: Iterable[str]) -> VectorStore:
    """The store without some ids; those that it does not have change nothing.

    `common.vectors.changes.delete` does it: at once or, killed, not at all. This store stays as it is
    open, and row numbers of the other are its own.
    """
    from common.vectors import changes

    return changes.delete(self.folder, ids)

  def compact(self) -> VectorStore:
    """The store of the same rows, its shards without deleted ones, few in place of many small ones."""
    from common.vectors import changes

    return changes.compact(self.folder)

  def verify(self) -> None:
    """Reads every shard and compares checksums; raises InputError at one that differs."""
    for shard in self._listed:
      verify_shard(self.folder, shard)


def folder_of_store(folder: Any) -> str:
  """A store's folder; refuses what is none of this machine, where shards are memory-mapped."""
  folder = local_path(folder, 'folder')
  if files.is_remote(folder):
    raise InputError(f'{folder}: a folder of this machine is needed: copy the store here')
  return folder


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


def description(shape: Sequence[int], dtype: str, fingerprint: str, side: str) -> dict[str, Any]:
  """The manifest's description of a store's vectors: shape and dtype, encoder, side."""
  if dtype not in DTYPES:
    raise InputError(f'dtype={dtype!r}: one of {", ".join(DTYPES)}')
  encoder = {'fingerprint': fingerprint, 'side': side}
  return {'version': _VERSION, 'shape': list(shape), 'dtype': dtype, **encoder}


def check_manifest(manifest: Any, path: str, **others: Any) -> dict[str, Any]:
  """A manifest with other fields, of these schemas, too; one that is none, or of another version, is refused."""
  with damaged(path, REMEDY):
    schema.check(manifest, {**_FIELDS, **others}, 'store')
    for shard in manifest.get('shards', ()):
      schema.check(shard.get('deleted', []), [int], f'{shard["name"]}.deleted')
  if (version := manifest['version']) != _VERSION:
    raise InputError(f'{path}: version {version}; this program reads {_VERSION}: {REMEDY}')
  return manifest


def check_size(path: str, shard: dict[str, Any]) -> None:
  """Refuses a shard that is missing or of another size than its entry of the manifest says."""
  found = files.stat(path)
  if found is None or found[0] != shard['bytes']:
    raise InputError(f'{path}: missing or cut short; {REMEDY}')


def verify_shard(folder: str, shard: dict[str, Any]) -> None:
  """Reads a shard whole; refuses one that is not what its entry of the manifest says."""
  path = os.path.join(folder, shard['name'])
  digests.check_file(path, bytes=shard['bytes'], sha256=shard['sha256'], remedy=REMEDY)


def batches(path: str) -> Iterator[pa.RecordBatch]:
  """The pieces of a shard, memory-mapped; `id` is their first column."""
  arrow = pyarrow()
  reader = arrow.ipc.open_file(arrow.memory_map(path))
  for number in range(reader.num_record_batches):
    yield reader.get_batch(number)


def pieces(path: str, shard: dict[str, Any]) -> Iterator[tuple[pa.RecordBatch, np.ndarray | None]]:
  """The pieces of a shard, each with the numbers of its rows that are not deleted; None: all.

  Args:
    path: Path of the shard.
    shard: Its entry of the manifest.
  """
  deleted, start = np.array(shard.get('deleted', ()), np.int64), 0
  for batch in batches(path):
    here = deleted[(start <= deleted) & (deleted < start + batch.num_rows)] - start
    yield batch, np.delete(np.arange(batch.num_rows), here) if len(here) else None
    start += batch.num_rows


def taken(values: Any, rows: np.ndarray | None) -> Any:
  """Rows of an Arrow array or a piece of a shard; None: all."""
  return values if rows is None else values.take(pyarrow().array(rows))


def pyarrow() -> Any:
  """The module, imported when a store is first used; raises InputError where it is not installed."""
  try:
    return importlib.import_module('pyarrow')
  except ModuleNotFoundError as error:
    raise InputError('a vector store takes pyarrow: pip install pyarrow') from error


def _open_shard(
  path: str, shard: dict[str, Any], manifest: dict[str, Any]
) -> Iterator[tuple[np.ndarray, np.ndarray | None, np.ndarray | None, Any]]:
  """By piece: memory-mapped vectors [n, *shape], scale [n, *shape without the last]; live rows, ids."""
  shape = manifest['shape']
  for batch, live in pieces(path, shard):
    made_with = json.loads((batch.schema.metadata or {}).get(b'store', b'{}'))
    for name, value in made_with.items():
      if manifest.get(name) != value:
        raise ValueError(f'made with {name} {value}; {MANIFEST} says {manifest.get(name)}')
    arrays = {
      name: batch.column(name).flatten().to_numpy(zero_copy_only=True)
      for name in batch.schema.names
      if name not in ('id', 'text_hash')
    }
    vectors = arrays['vectors'].reshape([batch.num_rows, *shape])
    if vectors.dtype != manifest['dtype']:
      raise ValueError(f'vectors of {vectors.dtype}; {MANIFEST} says {manifest["dtype"]}')
    scale = arrays.get('scale')
    if scale is not None:
      scale = scale.reshape([batch.num_rows, *shape[:-1]])
    yield vectors, scale, live, taken(batch.column('id'), live)


def _version(folder: str) -> str:
  path = os.path.join(folder, MANIFEST)
  return files.sha256(path) if os.path.exists(path) else ''


def read_manifest(folder: str) -> dict[str, Any]:
  """A store's manifest; raises InputError where there is none."""
  path = os.path.join(folder, MANIFEST)
  try:
    manifest = files.read_json(path, REMEDY)
  except OSError as error:
    raise InputError(f'{folder}: no whole vector store there ({MANIFEST} is missing)') from error
  check_manifest(manifest, path, shards=SHARDS)
  for name in (shard['name'] for shard in manifest['shards']):
    if name != os.path.basename(name):  # it is opened, and removed once another takes its place
      raise InputError(f'{path}: damaged: {name!r} is no file of this folder; {REMEDY}')
  return manifest
