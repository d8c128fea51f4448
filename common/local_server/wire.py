"""A request's bytes, looked over before they are parsed: protobuf makes a hundred bytes of some two."""

from typing import Any

from common.local_server.errors import invalid

_MOST = 1 << 14  # fields of a request: each is a message, a text or a size
_NAME = 1 << 12  # bytes of a name
_INTEGERS = 1 << 22  # bytes of numbers of variable length, each of which becomes four or eight
# Fields by number: the most bytes of one, or what is in it. Resources and variants (14, 15) are none
# that a model takes; the others of a tensor hold as many bytes as they take.
_TENSOR: dict[int, Any] = {2: {}, 14: 0, 15: 0, **dict.fromkeys((7, 10, 11, 13, 16, 17), _INTEGERS)}
PREDICT: dict[int, Any] = {1: _NAME, 2: {1: _NAME, 2: _TENSOR}, 3: _NAME}
OTHER: dict[int, Any] = {1: _NAME, 2: _NAME}

_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}


def check(data: bytes, inside: dict[int, Any]) -> None:
  """Refuses bytes of more fields than any request needs; those that are no message are let pass.

  Args:
    data: Bytes as they came.
    inside: Fields by number, as in `PREDICT`.

  Raises:
    ServingError: If they are too many, or one is too long.
  """
  try:
    _count(data, 0, len(data), inside, _MOST)
  except IndexError:  # cut off: the parser says it better
    return


def _count(data: bytes, at: int, end: int, inside: dict[int, Any], left: int) -> int:
  """How many fields are left to count, after those of the message between two places."""
  while at < end:
    left -= 1
    if left < 0:
      raise invalid(f'a request has {_MOST:,} fields and texts at the most')
    tag, at = _varint(data, at)
    field, kind = tag >> 3, tag & 7
    if kind == _VARINT:
      _, at = _varint(data, at)
    elif kind == _SIZED:
      size, at = _varint(data, at)
      known = inside.get(field)
      if isinstance(known, dict):
        left = _count(data, at, min(at + size, end), known, left)
      elif known is not None and size > known:
        raise invalid(f'field {field} has {size:,} bytes; {known:,} are the most')
      at += size
    else:
      at += _SIZES.get(kind, 0)
  return left


def _varint(data: bytes, at: int) -> tuple[int, int]:
  value = shift = 0
  while data[at] > 127:
    value |= (data[at] & 127) << shift
    shift, at = shift + 7, at + 1
    if shift > 63:
      raise IndexError
  return value | data[at] << shift, at + 1
