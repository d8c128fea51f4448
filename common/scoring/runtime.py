"""What every runtime of an exported head answers for, and the blocks that it scores rows in.

Rows are scored in blocks that stay in cache. XLA and LiteRT have fixed shapes: a block is filled up
to one of a few sizes, so nothing is compiled after the first calls.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

Inputs = dict[str, np.ndarray]
Shapes = dict[str, Sequence[int]]  # of named inputs, without the batch
HeadFunction = tuple[Callable[..., dict[str, tf.Tensor]], Shapes]


class Runtime(Protocol):
  """A head that can be called."""

  def score(self, signature: str, inputs: Inputs) -> np.ndarray:
    """Scores [B] or [B, C] of a signature's inputs, B rows each; one row goes with all of them."""


class Kind(NamedTuple):
  """A kind of runtime.

  Attributes:
    load: Makes a `Runtime` of an export's folder, its head's SavedModel, and threads.
    threaded: Whether it has threads of its own; if not, it is always given 0.
    write: Writes the file that it loads, if it has one, when a student is exported; takes the
      export's folder, the head's functions by signature, each of which gives 'score', and all
      variables that they read.
  """

  load: Callable[[str, Any, int], Runtime]
  threaded: bool = False
  write: Callable[[str, dict[str, HeadFunction], Sequence[tf.Variable]], None] | None = None


def rows_of(inputs: Inputs) -> int:
  """B."""
  return max(len(value) for value in inputs.values())


def blocks(rows: int, sizes: Sequence[int], largest: int = 0) -> Iterator[tuple[int, int, int]]:
  """Yields (start, stop, size to be filled up to): the largest size, and the least that holds the rest.

  Args:
    rows: B.
    sizes: Those that a block is filled up to; none: it stays as it is.
    largest: Most rows of a block where there are no sizes.
  """
  largest = max(sizes, default=largest)
  for start in range(0, rows, largest):
    stop = min(start + largest, rows)
    yield start, stop, next((s for s in sorted(sizes) if s >= stop - start), stop - start)


def filled(block: np.ndarray, rows: int) -> np.ndarray:
  """A block with rows of zeros up to a number, as one piece of memory."""
  if len(block) == rows:
    return np.ascontiguousarray(block, np.float32)
  full = np.zeros([rows, *block.shape[1:]], np.float32)
  full[: len(block)] = block
  return full
