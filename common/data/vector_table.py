"""Items that are vectors, as a student takes them: memory-mapped, and gathered batch by batch."""

import dataclasses
import os

import numpy as np
import tensorflow as tf

from common import digests, files
from common.data.items import Items
from common.errors import damaged

_VECTORS = 'vectors.npy'
_REMEDY = 'delete it and run again'


@dataclasses.dataclass(frozen=True)
class VectorTable:
  """The vectors of a slot's items, with the methods of a `TokenTable` of items without word pieces.

  Attributes:
    rows: [items, width] float32.
  """

  rows: np.ndarray

  @classmethod
  def of_items(cls, items: Items) -> 'VectorTable':
    """The table beside the item tables, which is made where it is missing."""
    shape = (len(items), items.width)

    def write_rows(part: str) -> None:
      path = os.path.join(part, _VECTORS)
      rows = np.lib.format.open_memmap(path, 'w+', np.float32, shape)
      files.reserve(path)
      for number, vector in enumerate(items.contents()):
        rows[number] = vector
      rows.flush()
      digests.write(part, (_VECTORS,))

    folder = items.beside('vectors', write_rows)
    digests.check(folder, _REMEDY)
    with damaged(folder, _REMEDY):
      rows = np.load(os.path.join(folder, _VECTORS), mmap_mode='r')
      if rows.shape != shape:
        raise ValueError(f'of shape {rows.shape}, not {shape}')
    return cls(rows)

  def __len__(self) -> int:
    return len(self.rows)

  def sizes(self, numbers: np.ndarray) -> np.ndarray:
    """Word pieces of each item, [b] int64: none."""
    return np.zeros(len(numbers), np.int64)

  def padded(self, numbers: np.ndarray, max_length: int, length: int = 0) -> np.ndarray:
    """Vectors of items: [b, width] float32."""
    del max_length, length
    return np.asarray(self.rows[numbers])

  def spec(self, rows: int | None, length: int) -> tf.TensorSpec:
    """Shape and type of `padded` for so many items."""
    del length
    return tf.TensorSpec([rows, self.rows.shape[1]], tf.float32)
