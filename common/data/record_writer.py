"""Writing record sets (`common.data.records`): shards, item tables, manifests."""

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common import files, sharded
from common.data.examples import Example
from common.data.items import ItemWriter
from common.data.records import Manifest, RecordSet, Shard, Table
from common.data.tuples import FLOATS, Tuples, serialize

SHARD_TUPLES = 65_536  # of a shard, about: it ends with a group

Numbered = Callable[[Sequence[ItemWriter]], Iterable[Tuples]]  # writers of the slots to groups


def write(
  folder: str,
  groups: Iterable[Tuples],
  tables: Sequence[Sequence[Table]],
  *,
  info: dict[str, Any] | None = None,
) -> Manifest:
  """Streams groups into `folder`, in shards, then writes the manifest.

  Args:
    folder: Made if need be.
    groups: Their items are row numbers into each slot's one table.
    tables: Tables by slot, relative to `folder` (see `tables_from`).
    info: Goes into the manifest.

  Returns:
    The manifest.
  """
  shards = write_shards(folder, groups, len(tables))
  return finish(folder, shards, tables, info or {})


def write_sets(
  folder: str, sets: Mapping[str, Numbered], slots: int, *, info: dict[str, Any] | None = None
) -> dict[str, Manifest]:
  """Writes record sets that share one item table a slot.

  Args:
    folder: Folder that gets a folder a set, and `items/` with the tables. Files of an earlier call
      that was cut short are written anew.
    sets: For each name ('' is `folder` itself), a function that streams a set's groups; it numbers
      their items with the slots' writers, which it is given.
    slots: Items of a tuple.
    info: Goes into the manifests.

  Returns:
    Their manifests.
  """
  tf.io.gfile.makedirs(os.path.join(folder, 'items'))
  paths = [os.path.join(folder, 'items', f'{slot}.tfrecord') for slot in range(slots)]
  with contextlib.ExitStack() as stack:
    temporary = [stack.enter_context(files.whole(path)) for path in paths]
    writers = [stack.enter_context(ItemWriter(path)) for path in temporary]
    shards = {
      name: write_shards(os.path.join(folder, name), groups(writers), slots)
      for name, groups in sets.items()
    }
  sizes = [(len(writer), writer.width) for writer in writers]
  manifests = {}
  for name, of_set in shards.items():
    own = os.path.join(folder, name)
    tables = [[table(own, path, *size)] for path, size in zip(paths, sizes, strict=True)]
    manifests[name] = finish(own, of_set, tables, info or {})
  return manifests


def tables_from(record_set: RecordSet, folder: str) -> tuple[tuple[Table, ...], ...]:
  """The tables of a set, for the manifest of another one in `folder` that shares them."""

  def shared(of: Table) -> Table:
    return dataclasses.replace(of, name=os.path.relpath(of.path(record_set.folder), folder))

  return tuple(tuple(map(shared, of_slot)) for of_slot in record_set.manifest.tables)


def extended(
  record_set: RecordSet, folder: str, more: Mapping[int, Iterable[str]]
) -> tuple[list[Sequence[Table]], dict[int, np.ndarray]]:
  """The tables of a set with more texts after its own, which keep their numbers.

  Args:
    record_set: The set.
    folder: Folder of the other set; gets `items/` with the tables that have grown.
    more: Texts by slot; one may be among the set's, or come twice.

  Returns:
    The tables by slot, relative to `folder`, and the numbers [texts] of `more`, by slot.
  """
  tables: list[Sequence[Table]] = list(tables_from(record_set, folder))
  numbers = {}
  for slot, texts in more.items():
    path = os.path.join(folder, 'items', f'{slot}.tfrecord')
    tf.io.gfile.makedirs(os.path.dirname(path))
    with files.whole(path) as temporary, ItemWriter(temporary) as writer:
      writer.copy(record_set.items(slot))
      numbers[slot] = np.array([writer.number(text) for text in texts], np.int32)
    tables[slot] = [table(folder, path, len(writer))]
  return tables, numbers


def write_shards(folder: str, groups: Iterable[Tuples], slots: int) -> list[Shard]:
  """Streams groups with one table per slot into shards of about `SHARD_TUPLES`."""
  tf.io.gfile.makedirs(folder)
  shards: list[Shard] = []
  some: list[Tuples] = []
  for group in groups:
    some.append(group)
    if sum(map(len, some)) >= SHARD_TUPLES:
      shards.append(write_shard(folder, len(shards), some, (0,) * slots))
      some = []
  if some:
    shards.append(write_shard(folder, len(shards), some, (0,) * slots))
  return shards


def write_shard(folder: str, number: int, groups: Iterable[Tuples], tables: Sequence[int]) -> Shard:
  """Writes a shard whole or not at all; returns its entry of the manifest."""
  path, count = os.path.join(folder, shard_name(number)), 0
  with files.whole(path) as temporary, tf.io.TFRecordWriter(temporary) as writer:
    for group in groups:
      writer.write(serialize(group))
      count += len(group)
  return shard_entry(folder, number, count, tables)


def shard_name(number: int) -> str:
  """The file name of a shard."""
  return f'{number:05d}.tfrecord'


def shard_entry(folder: str, number: int, count: int, tables: Sequence[int]) -> Shard:
  """The manifest's entry of a shard that was written."""
  return Shard.written(folder, shard_name(number), count, tables=tuple(tables))


def table(folder: str, path: str, count: int, width: int = 0) -> Table:
  """The entry, in the manifest of the set in `folder`, of an item table of `count` items."""
  return Table.written(folder, os.path.relpath(path, folder), count, width=width)


def finish(
  folder: str, shards: Sequence[Shard], tables: Sequence[Sequence[Table]], info: dict[str, Any]
) -> Manifest:
  """Writes the manifest, which declares the folder whole, and returns it."""
  manifest = Manifest(tuple(shards), tuple(map(tuple, tables)), info)
  sharded.write(os.path.join(folder, sharded.NAME), manifest)
  return manifest


def of_examples(examples: Iterable[Example], group: int = 64) -> Numbered:
  """Numbers rows of texts as they come; so many that follow one another are a group."""

  def numbered(writers: Sequence[ItemWriter]) -> Iterator[Tuples]:
    stream = iter(examples)
    while some := list(itertools.islice(stream, group)):
      items = [[w.number(text) for w, text in zip(writers, e.texts, strict=True)] for e in some]
      floats: dict[str, Any] = {}
      for name in FLOATS:
        values = [getattr(example, name) for example in some]
        if any(value is not None for value in values):
          floats[name] = np.array(values, np.float32).reshape([len(some), -1])  # None is NaN
      ids = [example.id for example in some] if some[0].id else ()
      yield Tuples(np.array(items, np.int32), **floats, ids=ids)

  return numbered
