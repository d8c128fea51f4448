"""Record sets: tuples of items as row numbers, with labels and soft labels; what stages hand on.

A folder with tuple shards, item tables (`common.data.items`; its own, or those of another folder of
the run) and `manifest.json`, written last: a folder that has one is whole. A record of a shard is a
group (`common.data.tuples`): tuples that share items and stand together in training. Match tuples of
two sets by id or by their items, never by position.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common import digests, files, schema
from common.data.items import Items
from common.data.tuples import FLOATS, Tuples, concatenated, parse
from common.errors import InputError, damaged

SCHEMA_VERSION = 2
MANIFEST = 'manifest.json'
BLOCKS = 'blocks'  # in a manifest's `info`, true: a group is many pairs of few items
_REMEDY = 'delete its folder and run again'
_TABLE = {'path': str, 'count': int, **digests.ENTRY}
_SHARD = {'name': str, 'count': int, **digests.ENTRY, 'tables': [int]}
_SCHEMA = {'count': int, 'shards': [_SHARD], 'tables': [[_TABLE]], 'info': dict}


@dataclasses.dataclass(frozen=True)
class Table:
  """An item table: its path, relative to the set's folder, what the file must be, its vectors' width."""

  path: str
  count: int
  bytes: int
  sha256: str
  width: int = 0


@dataclasses.dataclass(frozen=True)
class Shard:
  """A file of tuples: its name, what it must be, and the number of each slot's table."""

  name: str
  count: int
  bytes: int
  sha256: str
  tables: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Manifest:
  """Contents of a record set; `tables` by slot. `info` is free: temperature, teacher, source."""

  count: int
  shards: tuple[Shard, ...]
  tables: tuple[tuple[Table, ...], ...]
  info: dict[str, Any]
  schema_version: int = SCHEMA_VERSION


class RecordSet:
  """A record set, opened: sizes are checked, nothing is read. Digests are, when a file first is.

  Args:
    folder: Folder with a manifest.

  Attributes:
    manifest: The folder's manifest.
    slots: Number of items of a tuple.

  Raises:
    InputError: If there is no whole record set of this schema.
  """

  def __init__(self, folder: str):
    self.folder, self.manifest = folder, read_manifest(folder)
    self.slots = len(self.manifest.tables)
    self._items: dict[int, Items] = {}
    self._tuples: Tuples | None = None
    for table in (table for slot in self.manifest.tables for table in slot):
      _check_size(os.path.join(folder, table.path), table.bytes)
    for shard in self.manifest.shards:
      _check_size(os.path.join(folder, shard.name), shard.bytes)

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

  def texts(self, rows: Any = slice(None)) -> list[tuple[Any, ...]]:
    """The texts (or vectors) of tuples: all, or some rows; for small sets."""
    items = self.tuples().items[rows]
    columns = [self.items(slot).contents(items[:, slot]) for slot in range(self.slots)]
    return list(zip(*columns, strict=True))

  def shard(self, shard: Shard) -> Iterator[Tuples]:
    """Streams a shard's groups, their items numbered as those of the set."""
    path = os.path.join(self.folder, shard.name)
    digests.check_file(path, bytes=shard.bytes, sha256=shard.sha256, remedy=_REMEDY)
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
    """All tuples as arrays.

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
    if start != len(self):
      raise InputError(f'{self.folder}: {start} tuples; the manifest says {len(self)}; {_REMEDY}')
    groups = np.cumsum([0, *sizes], dtype=np.int64)
    return Tuples(**{'items': np.zeros([0, self.slots], np.int32), **arrays}, groups=groups)


def read_manifest(folder: str) -> Manifest:
  """Reads the manifest of a record set; a missing or foreign one is refused."""
  path = os.path.join(folder, MANIFEST)
  try:
    fields = files.read_json(path, _REMEDY)
  except FileNotFoundError as error:
    raise InputError(f'{folder}: no {MANIFEST}; not a whole record set') from error
  if not isinstance(fields, dict):
    raise InputError(f'{path}: damaged: no manifest; {_REMEDY}')
  if (version := fields.get('schema_version')) != SCHEMA_VERSION:
    raise InputError(
      f'{path}: schema version {version}; this program reads {SCHEMA_VERSION}: make the set anew'
    )
  with damaged(path, _REMEDY):
    schema.check(fields, _SCHEMA, 'set')
    shards = tuple(
      Shard(**{**shard, 'tables': tuple(shard['tables'])}) for shard in fields['shards']
    )
    tables = tuple(tuple(Table(**table) for table in slot) for slot in fields['tables'])
    manifest = Manifest(**{**fields, 'shards': shards, 'tables': tables})
    if (found := sum(shard.count for shard in shards)) != manifest.count:
      raise ValueError(f'its shards have {found} tuples, not {manifest.count}')
    for shard in shards:
      if any(n >= len(slot) for n, slot in zip(shard.tables, tables, strict=True)):
        raise ValueError(f'{shard.name} names tables that are not there')
    listed: list[Shard | Table] = [*shards, *itertools.chain(*tables)]
    for file in listed:
      schema.check(getattr(file, 'width', 0), int, 'width')
      if file.count > file.bytes:
        raise ValueError(f'{file.count} rows in {file.bytes} bytes')
  return manifest


def open_items(folder: str, tables: Sequence[Table]) -> Items:
  """The items of a slot, of the tables that a set in `folder` names; a damaged table is refused."""
  scheme, found, root = folder.rpartition('://')  # gs://, which is no part of a path
  paths = [scheme + found + os.path.normpath(os.path.join(root, table.path)) for table in tables]
  for path, table in zip(paths, tables, strict=True):
    digests.check_file(path, bytes=table.bytes, sha256=table.sha256, remedy=_REMEDY)
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


def _check_size(path: str, size: int) -> None:
  found = tf.io.gfile.stat(path).length if tf.io.gfile.exists(path) else None
  if found != size:
    state = 'missing' if found is None else f'{found} bytes'
    raise InputError(f'{path}: {state}; the manifest says {size} bytes; {_REMEDY}')
