"""Writes vector stores: shards whole or not at all, the manifest last."""

import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from common.errors import InputError
from common.serving.vectors import (
  MANIFEST,
  VectorStore,
  narrowed,
  read_manifest,
  sha256,
  store_kind,
)


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
      there = read_manifest(folder)
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

  def fill(
    self,
    rows: Iterable[tuple[str, str]],
    encode: Callable[[list[str]], np.ndarray],
    *,
    shard_size: int = 16_384,
    total: int | None = None,
    progress: str = '',
  ) -> VectorStore:
    """Writes (id, text) rows as shards, but those that are there, and finishes.

    Args:
      rows: Each id once.
      encode: Float32 vectors [n, *shape] of n texts; those alike in a shard are encoded once.
      shard_size: Rows a shard.
      total: Number of rows, for the progress bar.
      progress: Its name.
    """
    stream, number = iter(rows), 0
    with tqdm(total=total, desc=progress, unit=' texts') as bar:
      while chunk := list(itertools.islice(stream, shard_size)):
        ids, texts = map(list, zip(*chunk, strict=True))
        if not self.has(number, ids):
          distinct, numbers = np.unique(np.array(texts, object), return_inverse=True)
          self.write(number, ids, encode(list(distinct))[numbers])
        bar.update(len(ids))
        number += 1
    return self.finish(number)

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
      listed.append({'name': name, 'rows': rows, 'bytes': size, 'sha256': sha256(path)})
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

  def copy(self, batch: pa.RecordBatch) -> None:
    """Adds rows of another shard of this kind, from `batches`, as they are stored."""
    self._writer.write_batch(pa.record_batch(batch.columns, schema=self._schema))


def _lists(values: np.ndarray) -> pa.Array:
  return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def _metadata(kind: dict[str, Any]) -> dict[bytes, bytes]:
  return {b'store': json.dumps(kind).encode()}
