"""A side of pairs as callers give it: vectors of the model's, or what is to be encoded."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from common.data import texts
from common.errors import InputError
from common.vectors.values import Stored, are_vectors

# Or, in a slot of `widths`, vectors in their place.
Texts = Sequence[str] | Sequence[np.ndarray] | np.ndarray


@dataclasses.dataclass(frozen=True)
class Side:
  """A side of pairs; its rows were checked once, when a caller gave them.

  Attributes:
    rows: Vectors of the model's, whose numbers were not looked at; or what is to be encoded, from
      `listed`.
    encoded: Whether they are vectors of the model's.
  """

  rows: Any
  encoded: bool

  def __len__(self) -> int:
    return len(self.rows)


def listed(side: Any, slot: str, width: int) -> list[str] | np.ndarray:
  """Rows to be encoded, each checked: a list of texts, or vectors [n, width] in their place.

  Args:
    side: Texts or vectors, any iterable of them.
    slot: Name of the side, for the message.
    width: Width of the vectors; 0: the slot takes texts.

  Raises:
    InputError: If a row is none; names it.
  """
  return texts.stacked(side, width, slot) if width else texts.listed(side, slot)


def checked(side: Any, slot: str, shape: tuple[int, ...], width: int) -> Side:
  """A side's rows: vectors [n, *shape] or [n, width], `Stored` ones, or texts."""
  values = side.values if isinstance(side, Stored) else side
  if not are_vectors(side) or (width > 0 and values.ndim == 2):
    return Side(listed(side, slot, width), encoded=False)
  if values.shape[1:] != shape:
    raise InputError(f'{slot}: vectors of shape {values.shape[1:]}; this model has {shape}')
  return Side(side, encoded=True)
