"""Shards of a vector store: Arrow files of ids, hashes of texts, vectors, and scales of int8.

Bytes of a text of k tokens, D wide: float32 4 k D, float16 2 k D, int8 k D + 4 k; 8 of its hash.
"""

import dataclasses
import json
import math
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common import sharded
from common.errors import InputError, damaged
from common.vectors.arrow import lists, pyarrow
from common.vectors.ids import hashes
from common.vectors.manifest import REMEDY, Description, Manifest, Shard
from common.vectors.values import Stored, finite, narrowed

if TYPE_CHECKING:
  import pyarrow as pa


@dataclasses.dataclass(frozen=True)
class Piece:
  """Rows of a shard, memory-mapped.

  Attributes:
    stored: The rows.
    live: Numbers of the rows that the store has; None: all.
    ids: Those rows' ids, an Arrow array.
  """

  stored: Stored
  live: np.ndarray | None
  ids: Any


class ShardWriter:
  """Writes one shard, in pieces; a context.

  Args:
    path: Path of the shard.
    description: What all vectors of the store have in common.
    runtime: Name of the encoder's runtime.
  """

  def __init__(self, path: str, description: Description, runtime: str = ''):
    self.path, self.description, self.runtime = path, description, runtime

  def __enter__(self) -> 'ShardWriter':
    arrow, shape, dtype = pyarrow(), self.description.shape, self.description.dtype
    width = math.prod(shape)
    fields = [('id', arrow.string()), ('text_hash', arrow.uint64())]
    fields.append(('vectors', arrow.list_(arrow.from_numpy_dtype(dtype), width)))
    if dtype == 'int8':
      fields.append(('scale', arrow.list_(arrow.float32(), width // shape[-1])))
    self._schema = arrow.schema(fields, metadata=made_with(self.description, self.runtime))
    self._writer = arrow.ipc.new_file(self.path, self._schema)
    return self

  def __exit__(self, *exception: object) -> None:
    self._writer.close()

  def write(self, ids: Sequence[str], texts: Sequence[Any], vectors: np.ndarray) -> None:
    """Adds ids, and float32 vectors [n, *shape] of their texts; refuses NaN and infinity."""
    folder, shape = os.path.dirname(self.path), (len(ids), *self.description.shape)
    if vectors.shape != shape:
      raise InputError(f'{folder}: vectors of shape {vectors.shape}; {shape} is needed')
    stored = Stored(*narrowed(finite(vectors, folder), self.description.dtype))
    if stored.values.dtype == np.float16:
      finite(stored.values, f'{folder}, in float16')
    self.add(ids, hashes(texts), stored)

  def add(self, ids: Sequence[str], text_hashes: np.ndarray, stored: Stored) -> None:
    """Adds ids, hashes of their texts and their vectors as they are stored."""
    arrow = pyarrow()
    columns = [arrow.array(ids, arrow.string()), arrow.array(text_hashes)]
    columns.append(lists(stored.values.reshape([len(ids), -1])))
    if stored.scale is not None:
      columns.append(lists(stored.scale.reshape([len(ids), -1])))
    self._writer.write_batch(arrow.record_batch(columns, schema=self._schema))

  def copy(self, batch: 'pa.RecordBatch') -> None:
    """Adds rows of another shard of this description, from `pieces`, as they are stored."""
    self._writer.write_batch(pyarrow().record_batch(batch.columns, schema=self._schema))


def made_with(description: Description, runtime: str) -> dict[bytes, bytes]:
  """Metadata of a shard's Arrow schema; shards of one store may be of several runtimes."""
  about = json.dumps(sharded.as_json(description))
  return {b'store': about.encode(), b'runtime': runtime.encode()}


def batches(path: str) -> Iterator['pa.RecordBatch']:
  """The record batches of a shard, memory-mapped."""
  arrow = pyarrow()
  reader = arrow.ipc.open_file(arrow.memory_map(path))
  for number in range(reader.num_record_batches):
    yield reader.get_batch(number)


def pieces(path: str, shard: Shard) -> Iterator[tuple['pa.RecordBatch', np.ndarray | None]]:
  """The record batches of a shard, each with the numbers of its live rows; None: all.

  Raises:
    ValueError: If the file has another number of rows than the manifest says.
  """
  live, start = shard.live, 0
  for batch in batches(path):
    stop = start + batch.num_rows
    own = None if live is None else live[slice(*np.searchsorted(live, [start, stop]))] - start
    yield batch, own if own is None or len(own) < batch.num_rows else None
    start = stop
  if start != shard.count:
    raise ValueError(f'{start} rows; {sharded.NAME} says {shard.count}')


def taken(values: Any, rows: np.ndarray | None) -> Any:
  """Rows of an Arrow array or record batch; None: all."""
  return values if rows is None else values.take(pyarrow().array(rows))


def columns(folder: str, manifest: Manifest, *names: str) -> Iterator[list[Any]]:
  """Columns of a store's live rows, record batch by record batch: Arrow arrays, checked."""
  for shard in manifest.shards:
    path = shard.path(folder)
    shard.check_size(path, REMEDY)
    with damaged(path, REMEDY):
      for batch, live in pieces(path, shard):
        found = [taken(batch.column(name), live) for name in names]
        for column in found:
          column.validate(full=True)
        yield found


def opened(path: str, shard: Shard, description: Description) -> list[Piece]:
  """A shard's pieces; one that is missing, damaged or of another description is refused."""
  shard.check_size(path, REMEDY)
  with damaged(path, REMEDY):
    needed = sharded.as_json(description)
    return [_piece(batch, live, description, needed) for batch, live in pieces(path, shard)]


def _piece(
  batch: 'pa.RecordBatch',
  live: np.ndarray | None,
  description: Description,
  needed: dict[str, Any],
) -> Piece:
  said = json.loads((batch.schema.metadata or {}).get(b'store', b'{}'))
  for name, value in needed.items():
    if said.get(name) != value:
      raise ValueError(f'made with {name} {said.get(name)}; {sharded.NAME} says {value}')
  arrays = {
    name: batch.column(name).flatten().to_numpy(zero_copy_only=True)
    for name in batch.schema.names
    if name not in ('id', 'text_hash')
  }
  vectors = arrays['vectors'].reshape([batch.num_rows, *description.shape])
  if vectors.dtype != description.dtype:
    raise ValueError(f'vectors of {vectors.dtype}; {sharded.NAME} says {description.dtype}')
  scale = arrays.get('scale')
  if scale is not None:
    scale = scale.reshape([batch.num_rows, *description.shape[:-1]])
  return Piece(Stored(vectors, scale), live, taken(batch.column('id'), live))
