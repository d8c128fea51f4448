"""Inner products of one text's tokens with those of many, as they lie in a store.

NumPy widens int8 a block at a time, which stays in cache, and scales after the product. A product
is so small that OpenBLAS takes its kernel for small matrices, and no threads.

Dimensions: n texts, N left and M right tokens a text, D their width.
"""

from __future__ import annotations

import numpy as np

from common.scoring.runtime import Vectors
from common.vectors.values import Stored

_BLOCK_BYTES = 1 << 21  # of float32 tokens
_MULTIPLICATIONS = 1 << 18  # of a product: OpenBLAS shares out larger ones


def products(left: np.ndarray, right: Vectors) -> tuple[np.ndarray, np.ndarray]:
  """Inner products [n, M, N] of all tokens, and squared lengths [n, M] of the right ones, float32.

  Args:
    left: [N, D] float32.
    right: [n, M, D].
  """
  stored = right if isinstance(right, Stored) else Stored(right, None)
  *texts, width = stored.values.shape
  tokens = stored.values.reshape(-1, width)
  rows = max(1, _MULTIPLICATIONS // left.size)  # of one product
  wide = np.empty([max(1, _BLOCK_BYTES // (4 * rows * width)), rows, width], np.float32)
  flat = wide.reshape(-1, width)
  steps = -(-len(tokens) // len(flat))
  found = np.empty([steps, *wide.shape[:2], len(left)], np.float32)
  squares = np.empty([steps, *wide.shape[:2]], np.float32)
  kernel = np.ascontiguousarray(left.T)
  for step in range(steps):
    block = tokens[step * len(flat) : (step + 1) * len(flat)]
    flat[: len(block)], flat[len(block) :] = block, 0
    np.matmul(wide, kernel, out=found[step])
    np.vecdot(wide, wide, out=squares[step])
  inner = found.reshape(-1, len(left))[: len(tokens)].reshape(*texts, len(left))
  lengths = squares.reshape(-1)[: len(tokens)].reshape(texts)
  if stored.scale is not None:
    inner *= stored.scale[..., None]
    lengths *= np.square(stored.scale)
  return inner, lengths
