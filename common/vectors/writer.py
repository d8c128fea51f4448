"""Writes vector stores: shards whole or not at all, the manifest last."""

import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from common import digests, files
from common.data.texts import shown
from common.errors import InputError, check_whole, damaged
from common.vectors.store import (
  MANIFEST,
  REMEDY,
  VectorStore,
  batches,
  check_size,
  description,
  finite,
  narrowed,
  pyarrow,
  read_manifest,
  verify_shard,
)
from common.vectors.text_hashes import TextHashes, hashes

if TYPE_CHECKING:
  import pyarrow as pa
else:
  pa = pyarrow()


class VectorWriter:
  """Writes shards into a folder; `finish` makes them a store, or adds them to the one there.

  Args:
    folder: The store's folder.
    shape: Shape of a text's vectors.
    dtype: One of `DTYPES`.
    fingerprint: Fingerprint of the encoder.
    side: Side of the texts: 'left' or 'right'.

  Raises:
    InputError: If the folder has a store of another shape, dtype, encoder or version.
  """

  def __init__(self, folder: str, shape: Sequence[int], dtype: str, fingerprint: str, side: str):
    self.folder, self.description = folder, description(shape, dtype, fingerprint, side)
    os.makedirs(folder, exist_ok=True)
    self.before: list[dict[str, Any]] = []
    if os.path.exists(os.path.join(folder, MANIFEST)):
      there = read_manifest(folder)
      self.before = there.pop('shards')
      for name, value in self.description.items():
        if there[name] != value:
          hint = '; it is read, not added to: encode into another folder' * (name == 'version')
          raise InputError(f'{folder}: a store of {name} {there[name]}, not {value}{hint}')
    self._first = 1 + max((_number(shard['name']) for shard in self.before), default=-1)

  def has(self, number: int, ids: Sequence[str], texts: Sequence[str]) -> bool:
    """Whether shard `number` of this writer's is there, of the same description and rows."""
    path = self._path(number)
    if not os.path.exists(path):
      return False
    with damaged(path, 'delete it and run again'), pa.memory_map(path) as file:
      reader = pa.ipc.open_file(file)
      if reader.schema.metadata != _metadata(self.description):
        return False
      batch = reader.get_batch(0)
      same = batch.column('id').to_pylist() == list(ids)
      return same and np.array_equal(batch.column('text_hash').to_numpy(), hashes(texts))

  def fill(
    self,
    rows: Iterable[tuple[str, str]],
    encode: Callable[[list[str]], np.ndarray],
    *,
    replace: bool = False,
    shard_size: int = 16_384,
    total: int | None = None,
    progress: str = '',
  ) -> VectorStore:
    """Writes (id, text) rows as shards, but what is there, and finishes.

    A row whose id is there with the same text changes nothing. With `replace`, one with another text
    moves: its new vectors stand among the added rows, at the end, and once all is encoded the shard
    with the old ones is written anew without them. The manifest then changes at once, so a call that
    is killed leaves the store as it was.

    Args:
      rows: Ids with their texts.
      encode: Float32 vectors [n, *shape] of n texts; those alike in a shard are encoded once.
      replace: Whether another text for a stored id replaces its vectors; otherwise it is an error.
      shard_size: Rows a shard.
      total: Number of rows, for the progress bar.
      progress: Its name.

    Raises:
      InputError: If a row holds no text, or an id another text than the store, or two in this call.
    """
    check_whole('shard_size', shard_size, 1)
    there = TextHashes(self.folder, map(self._hashes, self.before), replace)
    number = 0
    with tqdm(total=total, desc=progress, unit=' texts') as bar:
      stream = _needed(rows, there, shard_size, bar)
      while chunk := list(itertools.islice(stream, shard_size)):
        ids, texts = map(list, zip(*chunk, strict=True))
        if not self.has(number, ids, texts):
          distinct, numbers = np.unique(np.array(texts, object), return_inverse=True)
          self.write(number, ids, texts, encode(list(distinct))[numbers])
        number += 1
    return self.finish(number, there.replaced)

  def write(
    self, number: int, ids: Sequence[str], texts: Sequence[str], vectors: np.ndarray
  ) -> None:
    """Writes shard `number`: ids that are in no other, their texts' vectors [n, *shape] float32."""
    with files.whole(self._path(number)) as path, ShardWriter(path, self.description) as shard:
      shard.write(ids, texts, vectors)

  def finish(self, shards: int, replaced: Sequence[int] | np.ndarray = ()) -> VectorStore:
    """Makes shards 0 to `shards` - 1, and what was there before, the store.

    Args:
      shards: How many were written.
      replaced: Hashes of ids that were there before, and are left out of it.
    """
    listed, number = [], shards
    for shard in self.before:
      kept = self._without(shard, replaced, number) if len(replaced) else shard
      number += kept is not shard
      if kept['rows']:
        listed.append(kept)
    for place in range(shards):
      with pa.memory_map(self._path(place)) as file:
        listed.append(self._described(place, pa.ipc.open_file(file).get_batch(0).num_rows))
    manifest = {**self.description, 'shards': listed}
    files.write_json(os.path.join(self.folder, MANIFEST), manifest, sealed=True)
    for name in {shard['name'] for shard in self.before} - {shard['name'] for shard in listed}:
      os.remove(os.path.join(self.folder, name))
    return VectorStore(self.folder)

  def _without(
    self, shard: dict[str, Any], ids: Sequence[int] | np.ndarray, number: int
  ) -> dict[str, Any]:
    """The shard as it is listed; where it holds some of the ids, as `number`, without them."""
    source = os.path.join(self.folder, shard['name'])
    verify_shard(self.folder, shard)  # what is copied gets a digest of its own
    keep = [~np.isin(hashes(batch.column('id').to_pylist()), ids) for batch in batches(source)]
    rows = sum(int(of_batch.sum()) for of_batch in keep)
    if rows == shard['rows']:
      return shard
    if not rows:
      return {**shard, 'rows': 0}
    with files.whole(self._path(number)) as path, ShardWriter(path, self.description) as copy:
      for batch, of_batch in zip(batches(source), keep, strict=True):
        copy.copy(batch.filter(pa.array(of_batch)))
    return self._described(number, rows)

  def _hashes(self, shard: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of a shard's ids and of its texts."""
    path = os.path.join(self.folder, shard['name'])
    check_size(path, shard)
    with damaged(path, REMEDY):
      found = list(batches(path))
      ids = [hashes(batch.column('id').to_pylist()) for batch in found]
      return np.concatenate(ids), np.concatenate([b.column('text_hash').to_numpy() for b in found])

  def _described(self, number: int, rows: int) -> dict[str, Any]:
    path = self._path(number)
    return {'name': os.path.basename(path), 'rows': rows, **digests.of(path)}

  def _path(self, number: int) -> str:
    return os.path.join(self.folder, f'vectors-{self._first + number:05d}.arrow')


def _needed(
  rows: Iterable[tuple[str, str]], there: TextHashes, size: int, bar: tqdm
) -> Iterator[tuple[str, str]]:
  """Rows that are to be encoded, of as many at a time as a shard takes."""
  stream, number = iter(rows), 0
  while chunk := list(itertools.islice(stream, size)):
    for row in chunk:
      if isinstance(row, str) or len(row) != 2:
        raise InputError(f'row {number}: an id and a text are needed')
      for value, what in zip(row, ('an id', 'a text'), strict=True):
        if not isinstance(value, str):
          raise InputError(f'row {number}: {shown(value)} is not {what}')
      number += 1
    ids, texts = zip(*chunk, strict=True)
    yield from (chunk[place] for place in there.add(ids, texts))
    bar.update(len(chunk))


def _number(name: str) -> int:
  """The number in a shard's name."""
  found = re.search(r'\d+', name)
  return int(found[0]) if found else -1


class ShardWriter:
  """Writes one shard, in pieces; a context.

  Args:
    path: Path of the shard.
    description: Shape, dtype, encoder and side, from `store.description`.
  """

  def __init__(self, path: str, description: dict[str, Any]):
    self.path, self.description = path, description

  def __enter__(self) -> 'ShardWriter':
    width = math.prod(self.description['shape'])
    vectors = pa.from_numpy_dtype(self.description['dtype'])
    fields: list[Any] = [('id', pa.string()), ('vectors', pa.list_(vectors, width))]
    if self.description['version'] > 1:
      fields.insert(1, ('text_hash', pa.uint64()))
    if self.description['dtype'] == 'int8':
      fields.append(('scale', pa.list_(pa.float32(), width // self.description['shape'][-1])))
    self._schema = pa.schema(fields, metadata=_metadata(self.description))
    self._writer = pa.ipc.new_file(self.path, self._schema)
    return self

  def __exit__(self, *exception: object) -> None:
    self._writer.close()

  def write(self, ids: Sequence[str], texts: Sequence[str], vectors: np.ndarray) -> None:
    """Adds ids, and float32 vectors [n, *shape] of their texts; refuses NaN and infinity."""
    folder, shape = os.path.dirname(self.path), (len(ids), *self.description['shape'])
    if vectors.shape != shape:
      raise InputError(f'{folder}: vectors of shape {vectors.shape}; {shape} is needed')
    stored, scale = narrowed(finite(vectors, folder), self.description['dtype'])
    if stored.dtype == np.float16:
      finite(stored, f'{folder}, in float16')
    columns = [pa.array(ids, pa.string()), pa.array(hashes(texts))]
    columns.append(_lists(stored.reshape([len(ids), -1])))
    if scale is not None:
      columns.append(_lists(scale.reshape([len(ids), -1])))
    self._writer.write_batch(pa.record_batch(columns, schema=self._schema))

  def copy(self, batch: pa.RecordBatch) -> None:
    """Adds rows of another shard of this description, from `batches`, as they are stored."""
    self._writer.write_batch(pa.record_batch(batch.columns, schema=self._schema))


def _lists(values: np.ndarray) -> pa.Array:
  return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def _metadata(description: dict[str, Any]) -> dict[bytes, bytes]:
  return {b'store': json.dumps(description).encode()}
