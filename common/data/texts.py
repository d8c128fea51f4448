"""Texts as callers give them: a list of texts, and nothing that only looks like one; their hashes."""

import hashlib
from collections.abc import Iterable
from typing import Any

from common.errors import InputError


def listed(texts: Any, name: str = '') -> list[str]:
  """The texts as a list.

  Args:
    texts: Any iterable of texts, each a `str` (or UTF-8 `bytes`, as arrays of them hold).
    name: Name of the texts' side, for the message.

  Raises:
    InputError: If it is one text, or a row (counted from 0) is none.
  """
  what = f'{name} texts'.lstrip()
  if isinstance(texts, (str, bytes)):
    raise InputError(f'{what}: a list of texts is needed, not one text')
  if not isinstance(texts, Iterable):
    raise InputError(f'{what}: a list of texts is needed, not {shown(texts)}')
  rows = list(texts)
  for number, text in enumerate(rows):
    if not isinstance(text, (str, bytes)):
      raise InputError(f'{what}, row {number}: {shown(text)} is not a text')
  return rows


def shown(value: Any) -> str:
  """A value in an error's one line: a number or None as it is, of anything else the type."""
  plain = value is None or isinstance(value, (int, float))
  return str(value) if plain else f'a value of type {type(value).__name__}'


def hash64(text: str) -> int:
  """A number of 64 bits for a text, the same in every process."""
  return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), 'little')
