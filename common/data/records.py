"""Record sets: tuples of items as row numbers, with labels and soft labels.

A record set is a sharded folder (`common.sharded`) of tuple shards. Its manifest names the item
tables too (`common.data.items`), which may lie in another folder of the run. A record of a shard is
a group (`common.data.tuples`): tuples that share items and stand together in training. Match tuples
of two sets by id or by their items, never by position.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from common import files, sharded
from common.data.items import Items
from common.data.tuple_set import TupleSet
from common.data.tuples import FLOATS, Tuples, concatenated, parse
from common.errors import InputError, damaged

BLOCKS = 'blocks'  # in a manifest's `info`, true: a group is many pairs of few items
_REMEDY = 'delete its folder and run again'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table(sharded.Shard):
  """An item table, maybe of another folder, and the width of its vectors; 0: it holds texts."""

  width: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard(sharded.Shard):
  """A file of tuples, and the number of each slot's table."""

  tables: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Manifest:
  """Contents of a record set; `tables` by slot. `info` is free: temperature, teacher, source."""

  form: ClassVar[str] = 'record set 3'

  shards: tuple[Shard, ...]
  tables: tuple[tuple[Table, ...], ...]
  info: dict[str, Any]

  def __post_init__(self):
    sharded.check_counts(itertools.chain(self.shards, *self.tables))
    for shard in self.shards:
      if any(n >= len(slot) for n, slot in zip(shard.tables, self.tables, strict=True)):
        raise ValueError(f'{shard.name} names tables that are not there')

  @property
  def count(self) -> int:
    """Number of tuples."""
    return sum(shard.count for shard in self.shards)


class RecordSet(TupleSet):
  """A record set, opened: sizes are checked now, digests when a file is first read.

  Args:
    folder: Folder with a manifest.

  Attributes:
    manifest: The folder's manifest.
    slots: Number of items of a tuple.

  Raises:
    InputError: If there is no whole record set of this schema.
  """

  def __init__(self, folder: str):
    self.folder = folder
    try:
      self.manifest = sharded.read(os.path.join(folder, sharded.NAME), Manifest, _REMEDY)
    except FileNotFoundError as error:
      raise InputError(f'{folder}: no {sharded.NAME}; not a whole record set') from error
    self.slots = len(self.manifest.tables)
    self._items: dict[int, Items] = {}
    self._tuples: Tuples | None = None
    for file in (*itertools.chain(*self.manifest.tables), *self.manifest.shards):
      file.check_size(file.path(folder), _REMEDY)

  def __len__(self) -> int:
    return self.manifest.count

  def items(self, slot: int) -> Items:
    """The distinct items of a slot."""
    if slot not in self._items:
      self._items[slot] = open_items(self.folder, self.manifest.tables[slot])
    return self._items[slot]

  @property
  def widths(self) -> tuple[int, ...]:
    """Width of each slot's vectors; 0: it holds texts."""
    return tuple(map(_width, self.manifest.tables))

  def shard(self, shard: Shard) -> Iterator[Tuples]:
    """Streams a shard's groups, with the set's item numbers."""
    shard.check(path := shard.path(self.folder), _REMEDY)
    count, tables = 0, self.manifest.tables
    rows = [tables[slot][number].count for slot, number in enumerate(shard.tables)]
    for group in groups_of(path):
      count += len(group)
      _check_rows(group, rows, path)
      columns = [
        self.items(slot).number(group.items[:, slot], table)
        for slot, table in enumerate(shard.tables)
      ]
      yield dataclasses.replace(group, items=np.stack(columns, 1))
    if count != shard.count:
      raise InputError(f'{path}: {count} tuples; the manifest says {shard.count}; {_REMEDY}')

  def groups(self) -> Iterator[Tuples]:
    """Streams all groups in order."""
    for shard in self.manifest.shards:
      yield from self.shard(shard)

  def head(self, count: int) -> Tuples:
    """The first groups that hold `count` tuples, or all."""
    some: list[Tuples] = []
    for group in self.groups():
      some.append(group)
      if sum(map(len, some)) >= count:
        break
    if not some:
      raise InputError(f'{self.folder}: holds no tuples')
    return concatenated(some)

  def tuples(self, cache: str = '') -> Tuples:
    """Arrays of all tuples.

    Args:
      cache: A folder for the arrays, which are memory-mapped then; empty: they are in memory, read
        once.
    """
    if cache:
      return self._read(cache)
    if self._tuples is None:
      self._tuples = self._read('')
    return self._tuples

  def _read(self, cache: str) -> Tuples:
    arrays: dict[str, Any] = {}
    sizes, start = [], 0

    def put(name: str, values: np.ndarray) -> None:
      if name not in arrays:
        shape = (len(self), *values.shape[1:])
        if cache:
          os.makedirs(cache, exist_ok=True)
          path = os.path.join(cache, f'{name}.npy')
          arrays[name] = np.lib.format.open_memmap(path, 'w+', values.dtype, shape)
          files.reserve(path)
        else:
          arrays[name] = np.empty(shape, values.dtype)
        if name in FLOATS:
          arrays[name][:start] = np.nan  # of groups that have none
      arrays[name][start : start + len(values)] = values

    for group in self.groups():
      for name in ('items', *FLOATS):
        if (values := getattr(group, name)) is not None:
          put(name, values)
        elif name in arrays:
          arrays[name][start : start + len(group)] = np.nan
      sizes.append(len(group))
      start += len(group)
    groups = np.cumsum([0, *sizes], dtype=np.int64)
    return Tuples(**{'items': np.zeros([0, self.slots], np.int32), **arrays}, groups=groups)


def open_items(folder: str, tables: Sequence[Table]) -> Items:
  """The items of a slot, of the tables that a set in `folder` names; a damaged table is refused."""
  paths = [table.path(folder) for table in tables]
  for path, table in zip(paths, tables, strict=True):
    table.check(path, _REMEDY)
  counts, sha256 = [table.count for table in tables], [table.sha256 for table in tables]
  return Items.open(paths, counts, sha256, _width(tables))


def _width(tables: Sequence[Table]) -> int:
  return max((table.width for table in tables), default=0)


def groups_of(path: str) -> Iterator[Tuples]:
  """Streams the groups of a shard's file as they stand in it; a damaged one is refused."""
  records = tf.data.TFRecordDataset(path).as_numpy_iterator()
  while True:
    with damaged(path, _REMEDY):
      record = next(records, None)
      group = None if record is None else parse(record)
    if group is None:
      return
    yield group


def _check_rows(group: Tuples, rows: Sequence[int], path: str) -> None:
  """Refuses row numbers that the shard's tables, of so many rows, do not have."""
  if group.items.shape[1] != len(rows) or (group.items < 0).any() or (group.items >= rows).any():
    raise InputError(f'{path}: names items that are not in its tables; {_REMEDY}')
