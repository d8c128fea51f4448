"""Inputs of requests: what a caller gives, checked, and cut to what a server takes at once."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from common.data.texts import listed, shown
from common.errors import InputError

Arrays = dict[str, np.ndarray]
_NUMBERS = 1 << 21  # of a request: some 45 MB as JSON; the local server takes 64 MiB
_MATRIX = 'an array [n, width] of numbers is needed'
_TEXT = 1 << 21  # bytes of a request's texts; the local server takes 4 MiB


def of_encoder(texts: Sequence[str] | np.ndarray, side: str) -> Arrays:
  """The input of an encoder: 'text' [n] as bytes, or 'vector' [n, w] of an array, or rows, of numbers.

  Raises:
    InputError: If it is neither; begins with `side`.
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


def rows(most: int, *inputs: np.ndarray) -> int:
  """Rows of a request: `most`, fewer where they have many numbers."""
  numbers = sum(math.prod(value.shape[1:]) for value in inputs)
  return max(1, min(most, _NUMBERS // max(1, numbers)))


def requests(most: int, inputs: Arrays) -> Iterator[Arrays]:
  """Cuts inputs, of equal numbers of rows, into requests of `most` rows, fewer of wide or long ones."""
  size = rows(most, *inputs.values())
  count = len(next(iter(inputs.values())))
  ends = np.zeros(count, np.int64)  # bytes of texts up to a row's end
  for value in inputs.values():
    if value.dtype == object:
      ends += np.cumsum([len(text) for text in value], dtype=np.int64)
  start = 0
  while True:
    before = int(ends[start - 1]) if start else 0
    fitting = int(np.searchsorted(ends, before + _TEXT, side='right'))
    stop = min(start + size, max(start + 1, fitting))  # one text at least, whatever its length
    yield {name: value[start:stop] for name, value in inputs.items()}
    start = stop
    if start >= count:
      return
