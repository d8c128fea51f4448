"""Interfaces of the runtimes of an export, and the blocks that heads score rows in.

Rows are scored in blocks that stay in cache. LiteRT has fixed shapes: there a block is filled up.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from common.errors import InputError
from common.vectors.values import Stored

if TYPE_CHECKING:
  import tensorflow as tf


ANY_SLOT = '0'  # in a slot's place: one encoder for all of them (no column can name a slot so)
Vectors = np.ndarray | Stored  # of a store as they lie in it: a slice of them is in float32
Inputs = Mapping[str, Vectors]
Outputs = dict[str, np.ndarray]
Shapes = dict[str, Sequence[int]]  # of named inputs, without the batch


@dataclasses.dataclass(frozen=True)
class HeadFunction:
  """A head's signature.

  Attributes:
    call: Of tensors by name, [B, ...] each; gives tensors by name.
    shapes: Shapes of its inputs.
  """

  call: Callable[..., dict[str, tf.Tensor]]
  shapes: Shapes

  @functools.cached_property
  def concrete(self) -> Any:
    """The concrete function of any B, traced once."""
    return self.traced(None)

  def traced(self, rows: int | None) -> Any:
    """A concrete function of so many rows, or of any."""
    import tensorflow as tf

    shapes = self.shapes.items()
    specs = {name: tf.TensorSpec([rows, *shape], tf.float32, name=name) for name, shape in shapes}
    return tf.function(self.call, autograph=False).get_concrete_function(**specs)


class EncoderFunction(NamedTuple):
  """A slot's encoder.

  Attributes:
    call: Of word ids [B, L], or of vectors [B, w].
    length: The greatest L.
    width: w; 0: it takes word ids.
  """

  call: Callable[..., tf.Tensor]
  length: int
  width: int = 0


class HeadRuntime(Protocol):
  """A head that can be called."""

  def inputs(self, signature: str) -> Collection[str]:
    """Names of a signature's inputs."""

  def run(self, signature: str, inputs: Inputs) -> Outputs:
    """Outputs of a signature by name, of B rows of each input, or of one for all.

    A signature gives 'score' [B] or [B, C] and as many 'logits', or 'part' [B, ...]. Logits rank:
    in float32 the scores of logits from 17 on are all 1.
    """


class EncoderRuntime(Protocol):
  """The encoders of all slots.

  Attributes:
    name: Name of the runtime, given by `runtimes.load_encoder`.
  """

  name: str

  def encode(
    self,
    texts: Any,
    slot: str,
    vectors: np.ndarray,
    batch_size: int,
    done: Callable[[int], Any],
  ) -> None:
    """Encodes texts.

    Args:
      texts: n texts; vectors [n, w] of a slot of vectors.
      slot: Name of their slot.
      vectors: [n, *vector shape], to be filled.
      batch_size: Texts at a time, where the runtime is free in it.
      done: Told the number of texts after each batch.
    """


def rows_of(inputs: Inputs) -> int:
  """B; inputs of other sizes, which blocks would fill up with zeros, are refused."""
  rows = max(len(value) for value in inputs.values())
  if wrong := [name for name, value in inputs.items() if len(value) not in (1, rows)]:
    raise InputError(f'{wrong[0]}: {len(inputs[wrong[0]])} rows; another input has {rows}')
  return rows


def blocks(rows: int, most: int) -> Iterator[tuple[int, int]]:
  """Yields (start, stop) of blocks of so many rows, the last one of the rest."""
  for start in range(0, rows, most):
    yield start, min(start + most, rows)


def filled(block: np.ndarray, rows: int) -> np.ndarray:
  """A block with rows of zeros up to a number, as one piece of memory."""
  if len(block) == rows:
    return np.ascontiguousarray(block, np.float32)
  full = np.zeros([rows, *block.shape[1:]], np.float32)
  full[: len(block)] = block
  return full
