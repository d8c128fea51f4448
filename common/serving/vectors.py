"""Encoder outputs computed once: ids and vectors in memory-mapped Arrow shards.

A store is a folder of `vectors-*.arrow` (Arrow IPC of `id`, `vectors`, and `scale` where they are
int8) and `manifest.json`, which names the shards that belong to it. It is written last, so a store
is whole or not there; shards added later count once it is written again.

Bytes of a text of k tokens, D wide: float32 4 k D, float16 2 k D, int8 k D + 4 k.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from common.errors import InputError

DTYPES = ('float32', 'float16', 'int8')
MANIFEST = 'manifest.json'
_VERSION = 1


class VectorStore:
  """A store that was written whole, opened for reading.

  Attributes:
    shape: Of a text's vectors.
    dtype: They are stored in.
    fingerprint: Of the encoder that made them.
    side: Of the texts.
  """

  def __init__(self, folder: str):
    """Opens a store.

    Raises:
      InputError: If there is none, or a shard is missing or not as long as it was.
    """
    manifest = _read_manifest(folder)
    self.folder, self.shape, self.dtype = folder, tuple(manifest['shape']), manifest['dtype']
    self.fingerprint, self.side = manifest['fingerprint'], manifest['side']
    self._shards, self._ids, self._sums = [], [], []
    for shard in manifest['shards']:
      path = os.path.join(folder, shard['name'])
      if not os.path.exists(path) or os.path.getsize(path) != shard['bytes']:
        raise InputError(f'{path}: missing or cut short; write the store anew')
      try:
        for vectors, scale, ids in _open_shard(path, self.shape):
          self._shards.append((vectors, scale))
          self._ids.append(ids)
      except (pa.ArrowException, ValueError, KeyError) as error:
        raise InputError(f'{path}: damaged ({error}); write the store anew') from error
      self._sums.append((path, shard['sha256']))
    self._ends = np.cumsum([len(ids) for ids in self._ids], dtype=np.int64)
    self._row_of: dict[str, int] = {}

  def __len__(self) -> int:
    return int(self._ends[-1]) if len(self._ends) else 0

  def vectors(self, rows: slice | Sequence[int] | np.ndarray) -> np.ndarray:
    """Vectors of rows, [n, *shape] float32."""
    if isinstance(rows, slice):
      rows = np.arange(len(self))[rows]
    rows = np.asarray(rows, np.int64)
    stored = np.empty([len(rows), *self.shape], self.dtype)
    scales = np.empty([len(rows), *self.shape[:-1]], np.float32) if self.dtype == 'int8' else None
    numbers = np.searchsorted(self._ends, rows, side='right')
    for number in np.unique(numbers):
      places = np.flatnonzero(numbers == number)
      inside = rows[places] - (self._ends[number] - len(self._ids[number]))
      run = bool(len(inside)) and bool(np.all(np.diff(inside) == 1))  # no gaps: a view, no copy
      picked = slice(int(inside[0]), int(inside[-1]) + 1) if run else inside
      vectors, scale = self._shards[number]
      stored[places] = vectors[picked]
      if scales is not None:
        scales[places] = scale[picked]
    return widened(stored, scales)

  def ids(self, rows: Sequence[int] | np.ndarray) -> list[str]:
    """Ids of rows."""
    numbers = np.searchsorted(self._ends, rows, side='right')
    starts = self._ends - [len(ids) for ids in self._ids]
    return [self._ids[n][int(r - starts[n])].as_py() for n, r in zip(numbers, rows, strict=True)]

  def find(self, ids: Sequence[str]) -> np.ndarray:
    """Rows of ids, -1 where there is none; the table of all ids is made at the first call."""
    if not self._row_of:
      every = (value for ids in self._ids for value in ids.to_pylist())
      self._row_of = {value: row for row, value in enumerate(every)}
    return np.array([self._row_of.get(value, -1) for value in ids], np.int64)

  def rows(self, ids: Sequence[str]) -> np.ndarray:
    """Rows of ids.

    Raises:
      InputError: If one is not in the store.
    """
    found = self.find(ids)
    if (found < 0).any():
      raise InputError(f'{self.folder}: no vectors of id {ids[int(np.argmin(found))]!r}')
    return found

  def verify(self) -> None:
    """Reads every shard and compares checksums; raises InputError at one that differs."""
    for path, expected in self._sums:
      if _sha256(path) != expected:
        raise InputError(f'{path}: its bytes are not those that were written; write the store anew')


class VectorWriter:
  """Writes shards into a folder; `finish` makes them a store, or adds them to the one there.

  Args:
    folder: Of the store.
    shape: Of a text's vectors.
    dtype: One of `DTYPES`.
    fingerprint: Of the encoder.
    side: Of the texts.

  Raises:
    InputError: If the folder has a store of another kind or encoder.
  """

  def __init__(self, folder: str, shape: Sequence[int], dtype: str, fingerprint: str, side: str):
    self.folder, self.kind = folder, store_kind(shape, dtype, fingerprint, side)
    os.makedirs(folder, exist_ok=True)
    self.before: list[dict[str, Any]] = []
    if os.path.exists(os.path.join(folder, MANIFEST)):
      there = _read_manifest(folder)
      self.before = there.pop('shards')
      for name, value in self.kind.items():
        if there[name] != value:
          raise InputError(f'{folder}: a store of {name} {there[name]}, not {value}')

  def has(self, number: int, ids: Sequence[str]) -> bool:
    """Whether shard `number` of this writer's is there, of the same encoder, kind and ids."""
    path = self._path(number)
    if not os.path.exists(path):
      return False
    with pa.memory_map(path) as file:
      reader = pa.ipc.open_file(file)
      same = reader.schema.metadata == _metadata(self.kind)
      return same and reader.get_batch(0).column('id').to_pylist() == list(ids)

  def write(self, number: int, ids: Sequence[str], vectors: np.ndarray) -> None:
    """Writes shard `number`: ids, and float32 vectors [n, *shape]."""
    path = self._path(number)
    with ShardWriter(f'{path}.tmp', self.kind) as shard:
      shard.write(ids, vectors)
    os.replace(f'{path}.tmp', path)

  def finish(self, shards: int) -> VectorStore:
    """Makes shards 0 to `shards` - 1, and what was there before, the store."""
    listed = list(self.before)
    for number in range(shards):
      path = self._path(number)
      with pa.memory_map(path) as file:
        rows = pa.ipc.open_file(file).get_batch(0).num_rows
      name, size = os.path.basename(path), os.path.getsize(path)
      listed.append({'name': name, 'rows': rows, 'bytes': size, 'sha256': _sha256(path)})
    path = os.path.join(self.folder, MANIFEST)
    with open(f'{path}.tmp', 'w', encoding='utf-8') as output:
      json.dump({**self.kind, 'shards': listed}, output, indent=1)
    os.replace(f'{path}.tmp', path)
    return VectorStore(self.folder)

  def _path(self, number: int) -> str:
    return os.path.join(self.folder, f'vectors-{len(self.before) + number:05d}.arrow')


class ShardWriter:
  """Writes one shard, in pieces; a context.

  Args:
    path: Of the file.
    kind: From `store_kind`.
  """

  def __init__(self, path: str, kind: dict[str, Any]):
    self.path, self.kind = path, kind

  def __enter__(self) -> 'ShardWriter':
    width = math.prod(self.kind['shape'])
    vectors = pa.from_numpy_dtype(self.kind['dtype'])
    fields = [('id', pa.string()), ('vectors', pa.list_(vectors, width))]
    if self.kind['dtype'] == 'int8':
      fields.append(('scale', pa.list_(pa.float32(), width // self.kind['shape'][-1])))
    self._schema = pa.schema(fields, metadata=_metadata(self.kind))
    self._writer = pa.ipc.new_file(self.path, self._schema)
    return self

  def __exit__(self, *exception: object) -> None:
    self._writer.close()

  def write(self, ids: Sequence[str], vectors: np.ndarray) -> None:
    """Adds ids, and float32 vectors [n, *shape]."""
    stored, scale = narrowed(vectors, self.kind['dtype'])
    columns = [pa.array(ids, pa.string()), _lists(stored.reshape([len(ids), -1]))]
    if scale is not None:
      columns.append(_lists(scale.reshape([len(ids), -1])))
    self._writer.write_batch(pa.record_batch(columns, schema=self._schema))


def store_kind(shape: Sequence[int], dtype: str, fingerprint: str, side: str) -> dict[str, Any]:
  """What a store's manifest says of its vectors: their shape and dtype, the encoder, the side."""
  if dtype not in DTYPES:
    raise InputError(f'dtype={dtype!r}: one of {", ".join(DTYPES)}')
  encoder = {'fingerprint': fingerprint, 'side': side}
  return {'version': _VERSION, 'shape': list(shape), 'dtype': dtype, **encoder}


def narrowed(vectors: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray | None]:
  """Float32 vectors [n, ..., D] as they are stored, and for int8 the scale [n, ...] of each."""
  if dtype != 'int8':
    return vectors.astype(dtype, copy=False), None
  scale = (np.abs(vectors).max(-1) / 127).astype(np.float32)
  return np.rint(vectors / np.where(scale == 0, 1, scale)[..., None]).astype(np.int8), scale


def widened(stored: np.ndarray, scale: np.ndarray | None) -> np.ndarray:
  """What `narrowed` gave, in float32."""
  wide = stored.astype(np.float32, copy=False)
  if scale is not None:
    wide *= scale[..., None]
  return wide


def chunks(
  rows: Iterator[tuple[str, str]], size: int
) -> Iterator[tuple[int, list[str], list[str]]]:
  """(number, ids, texts) of so many rows (id, text) each."""
  number, ids, texts = 0, [], []
  for key, text in rows:
    ids.append(key)
    texts.append(text)
    if len(ids) == size:
      yield number, ids, texts
      number, ids, texts = number + 1, [], []
  if ids:
    yield number, ids, texts


def _lists(values: np.ndarray) -> pa.Array:
  return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def _open_shard(
  path: str, shape: tuple[int, ...]
) -> Iterator[tuple[np.ndarray, np.ndarray | None, Any]]:
  """Memory-mapped vectors [n, *shape], scale [n, *shape without the last], ids, by piece."""
  reader = pa.ipc.open_file(pa.memory_map(path))
  for number in range(reader.num_record_batches):
    batch = reader.get_batch(number)
    arrays = {
      name: batch.column(name).flatten().to_numpy(zero_copy_only=True)
      for name in batch.schema.names
      if name != 'id'
    }
    vectors = arrays['vectors'].reshape([batch.num_rows, *shape])
    scale = arrays.get('scale')
    if scale is not None:
      scale = scale.reshape([batch.num_rows, *shape[:-1]])
    yield vectors, scale, batch.column('id')


def _metadata(kind: dict[str, Any]) -> dict[bytes, bytes]:
  return {b'store': json.dumps(kind).encode()}


def _read_manifest(folder: str) -> dict[str, Any]:
  path = os.path.join(folder, MANIFEST)
  try:
    with open(path, encoding='utf-8') as file:
      manifest = json.load(file)
  except OSError as error:
    raise InputError(f'{folder}: no whole vector store there ({MANIFEST} is missing)') from error
  if manifest.get('version') != _VERSION:
    raise InputError(f'{path}: version {manifest.get("version")}; this program reads {_VERSION}')
  return manifest


def _sha256(path: str) -> str:
  with open(path, 'rb') as file:
    return hashlib.file_digest(file, 'sha256').hexdigest()
