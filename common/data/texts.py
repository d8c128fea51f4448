"""Texts, or vectors in their place, as callers give them, checked; and their hashes."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from common.errors import InputError

Item = str | np.ndarray  # a text, or a vector of floats


def listed(texts: Any, name: str = '') -> list[str]:
  """The texts as a list.

  Args:
    texts: Any iterable of texts, each a `str` (or UTF-8 `bytes`, as arrays of them hold).
    name: Name of the texts' side, for the message.

  Raises:
    InputError: If it is one text, or has no order, or a row (counted from 0) is none.
  """
  what = f'{name} texts'.lstrip()
  if isinstance(texts, (str, bytes)):
    raise InputError(f'{what}: a list of texts is needed, not one text')
  if not _in_order(texts):
    raise InputError(f'{what}: a list of texts is needed, not {shown(texts)}')
  if not isinstance(texts, np.ndarray) and getattr(texts, 'ndim', 1) > 1:  # a table: its columns
    raise InputError(f'{what}: {shown(texts)}; one column of it is needed')
  rows = list(texts)
  for number, text in enumerate(rows):
    check_text(text, f'{what}, row {number}')
  return rows


def check_text(text: Any, where: str) -> None:
  """Refuses what is no text: another type, or a `str` with half of a character."""
  if not isinstance(text, (str, bytes)):
    raise InputError(f'{where}: {shown(text)} is not a text')
  try:
    if isinstance(text, str):
      text.encode()  # half of a surrogate pair is no character
  except UnicodeEncodeError as error:
    raise InputError(f'{where}: not a text: {error}') from error


def _in_order(rows: Any) -> bool:
  """Whether rows can be taken one after another: a set has no order, and a dict gives its keys."""
  unordered = isinstance(rows, (Mapping, set, frozenset)) or getattr(rows, 'ndim', 1) == 0
  return isinstance(rows, Iterable) and not unordered


def stacked(vectors: Any, width: int, name: str) -> np.ndarray:
  """Vectors in texts' place as one array [n, width] float32.

  Args:
    vectors: An array [n, width], or any iterable of [width].
    width: Theirs.
    name: Name of their side, for the message.

  Raises:
    InputError: If they are none, or not of the width, or not finite; names the row, from 0.
  """
  what = f'{name} vectors'
  if isinstance(vectors, (str, bytes)) or not _in_order(vectors):
    raise InputError(f'{what}: an array [n, {width}] is needed, not {shown(vectors)}')
  rows: list[Any] = []
  if (
    isinstance(vectors, np.ndarray)
    and vectors.shape[1:] == (width,)
    and vectors.dtype.kind in 'fiu'
  ):
    found = np.asarray(vectors, np.float32)
  else:
    rows = list(vectors)
    found = np.zeros([len(rows), width], np.float32)
  for number, row in enumerate(rows):
    if np.shape(row) != (width,) or isinstance(row, (str, bytes)):
      raise InputError(f'{what}, row {number}: {width} numbers are needed, not {shown(row)}')
    try:
      found[number] = row
    except (TypeError, ValueError) as error:
      raise InputError(f'{what}, row {number}: {error}') from error
  finite = np.isfinite(found).all(1)
  if not finite.all():
    raise InputError(f'{what}, row {int(np.argmin(finite))}: not all of its numbers are finite')
  return found


def distinct(items: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
  """The items, texts or vectors, each once; and for each of those given, which one it is."""
  if len(items) and isinstance(items[0], np.ndarray):
    found, numbers = np.unique(np.stack(items), axis=0, return_inverse=True)
    return list(found), numbers.reshape(-1)
  # In UTF-8, so that bytes and texts may stand beside each other; it sorts as texts do.
  rows = np.array([text.encode() if isinstance(text, str) else text for text in items], object)
  _, firsts, numbers = np.unique(rows, return_index=True, return_inverse=True)
  return [items[row] for row in firsts], numbers


def places(ids: Sequence[str]) -> np.ndarray:
  """The place of each id in their order, [ids] int."""
  array = np.array(ids, object)  # of a width for all, one long id would widen each
  return np.argsort(np.argsort(array))


def shown(value: Any) -> str:
  """A value in an error's one line: a number or None as it is, of anything else the type."""
  plain = value is None or isinstance(value, (int, float))
  return str(value) if plain else f'a value of type {type(value).__name__}'


def blake2b(item: str | np.ndarray, size: int) -> bytes:
  """A digest of so many bytes of an item, a text or a vector of float32; each process gives it."""
  content = item.encode() if isinstance(item, str) else np.asarray(item, np.float32).tobytes()
  return hashlib.blake2b(content, digest_size=size).digest()


def hash64(item: str | np.ndarray) -> int:
  """A number of 64 bits for a text or a vector; each process gives it."""
  return int.from_bytes(blake2b(item, 8), 'little')
