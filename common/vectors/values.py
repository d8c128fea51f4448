"""Vectors as a store holds them: narrower than float32, and wide again."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from common.errors import InputError

DTYPES = ('float32', 'float16', 'int8')


@dataclasses.dataclass(frozen=True)
class Stored:
  """Rows of a store as they lie in it; a slice of them is widened to float32.

  Attributes:
    values: [n, *shape] of the store's dtype.
    scale: [n, *shape without the last] float32, where they are int8.
  """

  values: np.ndarray
  scale: np.ndarray | None

  def __len__(self) -> int:
    return len(self.values)

  def __getitem__(self, rows: slice) -> np.ndarray:
    found = self.at(rows)
    return widened(found.values, found.scale)

  def at(self, rows: slice | np.ndarray) -> Stored:
    """Some of the rows."""
    return Stored(self.values[rows], None if self.scale is None else self.scale[rows])


def are_vectors(side: Any) -> bool:
  """Whether a side is stored vectors or an array of numbers, and not texts or an empty list."""
  values = side.values if isinstance(side, Stored) else side
  return isinstance(values, np.ndarray) and values.dtype.kind not in 'OUST' and values.shape != (0,)


def narrowed(vectors: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray | None]:
  """Float32 vectors [n, ..., D] as they are stored, and for int8 the scale [n, ...] of each."""
  if dtype != 'int8':
    with np.errstate(over='ignore'):  # infinity, which is refused where it is written
      return vectors.astype(dtype, copy=False), None
  scale = (np.abs(vectors).max(-1) / 127).astype(np.float32)
  return np.rint(vectors / np.where(scale == 0, 1, scale)[..., None]).astype(np.int8), scale


def widened(stored: np.ndarray, scale: np.ndarray | None) -> np.ndarray:
  """Vectors from `narrowed`, in float32 again."""
  wide = stored.astype(np.float32, copy=False)
  if scale is not None:
    wide *= scale[..., None]
  return wide


def finite(vectors: np.ndarray, where: str, rows: np.ndarray | None = None) -> np.ndarray:
  """Vectors [n, ...] in float32; refuses NaN and infinity, by the first such row."""
  if vectors.dtype.kind not in 'fiu':
    raise InputError(f'{where}: vectors of {vectors.dtype}; numbers are needed')
  with np.errstate(over='ignore', invalid='ignore'):
    vectors = vectors.astype(np.float32, copy=False)
    suspect = not np.isfinite(vectors.sum())  # one sum, without memory of its own
  if suspect and (wrong := ~np.isfinite(vectors.reshape([len(vectors), -1])).all(-1)).any():
    row = int(wrong.argmax() if rows is None else rows[wrong][0])
    raise InputError(f'{where}: NaN or infinity among the vectors of row {row}')
  return vectors
