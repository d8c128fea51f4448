"""Inputs of requests: what a caller gives, checked, and cut to what a server takes at once."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from common.data.texts import listed, shown
from common.errors import InputError

Arrays = dict[str, np.ndarray]
_NUMBERS = 1 << 21  # of a request: 8 MB
_MATRIX = 'an array [n, width] of numbers is needed'


def of_encoder(texts: Sequence[str] | np.ndarray, side: str) -> Arrays:
  """The input of an encoder: 'text' [n] as bytes, or 'vector' [n, w] of numbers.

  Args:
    texts: Texts; or an array, or rows, of numbers.
    side: What a refusal begins with.

  Raises:
    InputError: If it is neither.
  """
  if _holds_numbers(texts):
    try:
      found = np.asarray(texts, np.float32)
    except (TypeError, ValueError) as error:
      raise InputError(f'{side}: {_MATRIX}: {error}') from error
    if found.ndim != 2:
      raise InputError(f'{side}: {_MATRIX}, not one of shape {list(found.shape)}')
    return {'vector': found}
  rows = [text.encode() if isinstance(text, str) else text for text in listed(texts, side)]
  return {'text': np.array(rows, object)}


def _holds_numbers(texts: Any) -> bool:
  """Whether it is an array of numbers, or its first row is one."""
  if isinstance(texts, np.ndarray):
    return texts.dtype.kind in 'fiu'
  return isinstance(texts, (list, tuple)) and any(
    isinstance(row, (list, tuple, np.ndarray)) for row in texts[:1]
  )


def vectors(given: Any, name: str) -> np.ndarray:
  """Vectors [n, ...] in float32; raises InputError where they are none, as of texts."""
  try:
    found = np.asarray(given)
    if found.ndim and found.dtype.kind not in 'US':
      return found.astype(np.float32, copy=False)
    why = shown(given)
  except (TypeError, ValueError) as error:
    why = str(error)
  raise InputError(f'{name}: vectors are needed, as of encode(texts, side): {why}')


def blocks(most: int, *inputs: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
  """Cuts inputs into blocks of `most` rows, fewer of wide ones; of no rows it gives one block."""
  numbers = sum(math.prod(value.shape[1:]) for value in inputs)
  size = max(1, min(most, _NUMBERS // max(1, numbers)))
  for start in range(0, max(1, len(inputs[0])), size):
    yield tuple(value[start : start + size] for value in inputs)
