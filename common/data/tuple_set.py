"""Sets of tuples as their readers see them, and one in memory, which needs no TensorFlow."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from common.data.examples import Example
from common.data.texts import blake2b
from common.data.tuples import Tuples


class ItemTable(Protocol):
  """The distinct items of a slot, texts or vectors, by number."""

  def __len__(self) -> int: ...

  def contents(self, numbers: np.ndarray | None = None) -> Iterator[Any]:
    """Streams all items, or the items `numbers` in their order."""

  def keys(self) -> list[str]:
    """A name for each item."""


class TupleSet:
  """Tuples of items: a `RecordSet`, or a `MemorySet`.

  Attributes:
    folder: Its folder, or the file that it was read of.
    slots: Number of items of a tuple.
  """

  folder: str
  slots: int

  def tuples(self) -> Tuples:
    """Arrays of all tuples."""
    raise NotImplementedError

  def items(self, slot: int) -> ItemTable:
    """The distinct items of a slot."""
    raise NotImplementedError

  def texts(self, rows: Any = slice(None)) -> list[tuple[Any, ...]]:
    """The texts (or vectors) of tuples: all, or some rows; for small sets."""
    items = self.tuples().items[rows]
    columns = [self.items(slot).contents(items[:, slot]) for slot in range(self.slots)]
    return list(zip(*columns, strict=True))


@dataclasses.dataclass
class MemoryItems:
  """The items of a slot in memory.

  Attributes:
    items: Texts or vectors, each once.
    digests: Each one's number by the hash of its content, as item tables have it.
  """

  items: list[Any] = dataclasses.field(default_factory=list)
  digests: dict[bytes, int] = dataclasses.field(default_factory=dict)

  def __len__(self) -> int:
    return len(self.items)

  def number(self, item: Any) -> int:
    """The item's number; a new one is added."""
    number = self.digests.setdefault(blake2b(item, 16), len(self.items))
    if number == len(self.items):
      self.items.append(item)
    return number

  def contents(self, numbers: np.ndarray | None = None) -> Iterator[Any]:
    """Streams all items, or the items `numbers` in their order."""
    wanted = range(len(self)) if numbers is None else np.asarray(numbers).tolist()
    return (self.items[number] for number in wanted)

  def keys(self) -> list[str]:
    """16 digits of each item's hash, as of item tables without ids."""
    return [digest.hex()[:16] for digest in self.digests]


class MemorySet(TupleSet):
  """Labelled tuples in memory.

  Args:
    folder: The file that they were read of.
    examples: One or more, all with a label; all or none with the teacher's logits.
  """

  def __init__(self, folder: str, examples: Iterable[Example]):
    rows, labels, logits = [], [], []
    self._items: list[MemoryItems] = []
    for example in examples:
      self._items = self._items or [MemoryItems() for _ in example.texts]
      rows.append([of.number(item) for of, item in zip(self._items, example.texts, strict=True)])
      labels.append(example.label)
      logits.append(example.teacher_logits)
    self.folder, self.slots = folder, len(self._items)
    self._tuples = Tuples(
      np.array(rows, np.int32),
      np.array(labels, np.float32)[:, None],
      np.array(logits, np.float32) if logits[0] is not None else None,
    )

  def tuples(self) -> Tuples:
    """Arrays of all tuples."""
    return self._tuples

  def items(self, slot: int) -> MemoryItems:
    """The distinct items of a slot."""
    return self._items[slot]
