"""A side of pairs as callers give it: vectors of the model's, or what is to be encoded."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from common.data import texts
from common.errors import InputError
from common.vectors.values import Stored, are_vectors

# Or, in a slot of `widths`, vectors in their place.
Texts = Sequence[str] | Sequence[np.ndarray] | np.ndarray


def listed(side: Any, slot: str, width: int) -> list[str] | np.ndarray:
  """What is to be encoded, each row checked: a list of texts, or vectors [n, width] in their place.

  Args:
    side: Texts or vectors, any iterable of them.
    slot: Name of the side, for the message.
    width: Width of the vectors; 0: the slot takes texts.

  Raises:
    InputError: If a row is none; names it.
  """
  return texts.stacked(side, width, slot) if width else texts.listed(side, slot)


def are_raw(side: Any, width: int) -> bool:
  """Whether a side is to be encoded, and not vectors of the model's."""
  values = side.values if isinstance(side, Stored) else side
  return not are_vectors(side) or (width > 0 and values.ndim == 2)


def checked(side: Any, slot: str, shape: tuple[int, ...], width: int) -> Any:
  """Vectors [n, *shape] as they are, numbers not looked at; any other side as from `listed`."""
  if are_raw(side, width):
    return listed(side, slot, width)
  found = (side.values if isinstance(side, Stored) else side).shape[1:]
  if found != shape:
    raise InputError(f'{slot}: vectors of shape {found}; this model has {shape}')
  return side
