"""Changes of a vector store: ids deleted, shards compacted.

A change counts at once, when the new manifest is renamed into place. A row is deleted by its number
in the manifest. Files that no manifest names any more are removed after that; a store that is open
has them memory-mapped, and stays whole.
"""

import contextlib
import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from common import files, sharded
from common.data.texts import check_text, shown
from common.errors import InputError
from common.vectors.arrow import pyarrow
from common.vectors.ids import Ids, by_part
from common.vectors.manifest import REMEDY, Manifest, Shard, folder_of_store, read
from common.vectors.shards import ShardWriter, columns, pieces, taken

if TYPE_CHECKING:
  import pyarrow as pa

_SHARD = 16_384  # rows up to which shards become one


def delete(folder: str, ids: Iterable[str]) -> None:
  """Deletes ids from a store; those that it does not have change nothing.

  Raises:
    InputError: If there is no store, an id is none, or another process changes the store.
  """
  if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
    raise InputError(f'ids: a list of ids is needed, not {shown(ids)}')
  ids = list(ids)
  for number, value in enumerate(ids):
    if not isinstance(value, str):
      raise InputError(f'ids, row {number}: {shown(value)} is not an id')
    check_text(value, f'ids, row {number}')
  with _changed(folder) as manifest:
    stored = Ids(column for (column,) in columns(folder, manifest, 'id'))
    rows = stored.find(ids)
    publish(folder, manifest, without(manifest.shards, rows[rows >= 0]))


def compact(folder: str, shard_size: int = _SHARD) -> None:
  """Writes shards without their deleted rows, small neighbours as one; rows keep their order.

  Args:
    folder: The store's folder.
    shard_size: Rows up to which neighbours become one shard; a larger shard is left, or loses its
      deleted rows alone.

  Raises:
    InputError: If there is no store, a shard that is to be written is damaged, or another process
      changes the store.
  """
  with _changed(folder) as manifest:
    groups = list(_groups(manifest.shards, shard_size))
    if not all(map(_stays, groups)):  # else a killed `fill` may yet go on with what it began
      clear(folder, manifest.shards, begun=True)
    try:
      publish(folder, manifest, _compacted(folder, manifest, groups))
    except BaseException:  # as of a full disk, which the copy so far would keep full
      clear(folder, read(folder).shards, begun=True)
      raise


@contextlib.contextmanager
def _changed(folder: str) -> Iterator[Manifest]:
  """A store's manifest, which nobody else changes in the block."""
  read(folder_of_store(folder))  # what is no store is refused before it is locked
  with files.alone(folder, 'folder'):
    manifest = read(folder)
    clear(folder, manifest.shards)
    yield manifest


def without(shards: Sequence[Shard], rows: np.ndarray) -> list[Shard]:
  """A manifest's shards less some rows of the store; a shard without others is left out."""
  ends = np.cumsum([shard.rows for shard in shards], dtype=np.int64)
  gone = {number: inside for number, _, inside in by_part(rows, ends)}
  left = []
  for number, shard in enumerate(shards):
    if number in gone:
      live = np.arange(shard.count) if (own := shard.live) is None else own
      deleted = sorted({*shard.deleted, *live[gone[number]].tolist()})
      shard = dataclasses.replace(shard, deleted=tuple(deleted))
    if shard.rows:
      left.append(shard)
  return left


def publish(folder: str, before: Manifest, shards: Iterable[Shard]) -> None:
  """Makes shards the store, at once, and then removes the files of the shards that it lost."""
  after = dataclasses.replace(before, shards=tuple(shards))
  sharded.write(os.path.join(folder, sharded.NAME), after)
  for name in {s.name for s in before.shards} - {s.name for s in after.shards}:
    os.remove(os.path.join(folder, name))


def _groups(shards: Sequence[Shard], size: int) -> Iterator[list[Shard]]:
  """Neighbours that become one shard."""
  group: list[Shard] = []
  for shard in shards:
    if group and sum(of.rows for of in [*group, shard]) > size:
      yield group
      group = []
    group.append(shard)
  if group:
    yield group


def _stays(group: Sequence[Shard]) -> bool:
  """Whether a group is one shard, and without deleted rows."""
  return len(group) == 1 and not group[0].deleted


def _compacted(folder: str, manifest: Manifest, groups: Iterable[list[Shard]]) -> list[Shard]:
  """A shard a group; one that does not stay as it is is written."""
  number, made = free_number(manifest.shards), []
  for group in groups:
    if _stays(group):
      made += group
      continue
    name = shard_name(number)
    with (
      files.whole(os.path.join(folder, name)) as temporary,
      ShardWriter(temporary, manifest.vectors) as writer,
    ):
      for piece in _joined(folder, group):
        if piece.num_rows:
          writer.copy(piece)
    made.append(Shard.written(folder, name, sum(shard.rows for shard in group)))
    number += 1
  return made


def _joined(folder: str, group: Sequence[Shard]) -> Iterator['pa.RecordBatch']:
  """The rows of shards that are not deleted: of several shards as one piece."""
  paths = [shard.path(folder) for shard in group]
  for path, shard in zip(paths, group, strict=True):
    shard.check(path, REMEDY)  # what is copied gets a digest of its own
  found = (
    taken(batch, live)
    for path, shard in zip(paths, group, strict=True)
    for batch, live in pieces(path, shard)
  )
  if len(group) == 1:
    yield from found
  else:
    yield from pyarrow().Table.from_batches(list(found)).combine_chunks().to_batches()


def shard_name(number: int) -> str:
  """The file name of a shard."""
  return f'vectors-{number:05d}.arrow'


def clear(folder: str, shards: Sequence[Shard], *, begun: bool = False) -> None:
  """Removes shards that a killed `publish` left: the manifest is past their numbers, without them.

  Args:
    folder: The store's folder.
    shards: The manifest's shards.
    begun: Whether shards of later numbers go too, which a call that was broken off had begun.
  """
  listed, first = {shard.name for shard in shards}, free_number(shards)
  for name in files.names(folder):
    number = _number(name.removesuffix('.tmp'))
    if number >= 0 and (begun or number < first) and name not in listed:
      os.remove(os.path.join(folder, name))


def free_number(shards: Sequence[Shard]) -> int:
  """A shard number above all in a manifest."""
  return 1 + max((_number(shard.name) for shard in shards), default=-1)


def _number(name: str) -> int:
  """The number in a shard's name; -1 of a name that `shard_name` does not give."""
  found = re.fullmatch(r'vectors-(\d{5,})\.arrow', name)
  return int(found[1]) if found else -1
