"""Digests numbered in the order in which they came, in some 30 bytes each; a dict takes 130."""

import array

_SIZE = 16  # bytes of a digest
_FREE = -1


class NumberedDigests:
  """A hash table with open addressing: digests end to end, and numbers at places that they name.

  Example:
    digests = NumberedDigests()
    [digests.number(one * 16) for one in (b'x', b'y', b'x')]  # [0, 1, 0]
  """

  def __init__(self) -> None:
    self._digests = bytearray()
    self._places = array.array('i', [_FREE]) * 64  # a power of two

  def __len__(self) -> int:
    return len(self._digests) // _SIZE

  def number(self, digest: bytes) -> int:
    """The number of a digest of 16 bytes, evenly spread; of a new one, how many there were."""
    place = self._place(digest)
    if (number := self._places[place]) == _FREE:
      number = self._places[place] = len(self)
      self._digests += digest
      if 3 * len(self) > 2 * len(self._places):
        self._grow()
    return number

  def _at(self, number: int) -> bytearray:
    return self._digests[_SIZE * number : _SIZE * (number + 1)]

  def _place(self, digest: bytes | bytearray) -> int:
    """The place of the digest's number, or the free one that it would have."""
    last = len(self._places) - 1
    place = int.from_bytes(digest[:8], 'little') & last
    while (number := self._places[place]) != _FREE and self._at(number) != digest:
      place = (place + 1) & last
    return place

  def _grow(self) -> None:
    self._places = array.array('i', [_FREE]) * (2 * len(self._places))
    for number in range(len(self)):
      self._places[self._place(self._at(number))] = number
