"""Writes one shard of a vector store: an Arrow file."""

import json
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common.errors import InputError
from common.vectors.store import pyarrow
from common.vectors.text_hashes import hashes
from common.vectors.values import finite, narrowed

if TYPE_CHECKING:
  import pyarrow as pa
else:
  pa = pyarrow()


class ShardWriter:
  """Writes one shard, in pieces; a context.

  Args:
    path: Path of the shard.
    description: Shape, dtype, encoder and side, from `store.description`.
    runtime: Name of the encoder's runtime.
  """

  def __init__(self, path: str, description: dict[str, Any], runtime: str = ''):
    self.path, self.description, self.runtime = path, description, runtime

  def __enter__(self) -> 'ShardWriter':
    width = math.prod(self.description['shape'])
    vectors = pa.from_numpy_dtype(self.description['dtype'])
    fields: list[Any] = [('id', pa.string()), ('text_hash', pa.uint64())]
    fields.append(('vectors', pa.list_(vectors, width)))
    if self.description['dtype'] == 'int8':
      fields.append(('scale', pa.list_(pa.float32(), width // self.description['shape'][-1])))
    self._schema = pa.schema(fields, metadata=metadata(self.description, self.runtime))
    self._writer = pa.ipc.new_file(self.path, self._schema)
    return self

  def __exit__(self, *exception: object) -> None:
    self._writer.close()

  def write(self, ids: Sequence[str], texts: Sequence[Any], vectors: np.ndarray) -> None:
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


def metadata(description: dict[str, Any], runtime: str) -> dict[bytes, bytes]:
  """Metadata of a shard's schema: what its vectors were made with; a store may have several runtimes'."""
  return {b'store': json.dumps(description).encode(), b'runtime': runtime.encode()}
