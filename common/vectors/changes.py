"""Changes of a vector store: ids deleted, shards compacted. The manifest, renamed into place, makes each at once.

A row is deleted by its number in the manifest. Files that no manifest names any more are removed after
that; a store that is open has them memory-mapped, and stays whole.
"""

import contextlib
import importlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common import digests, files
from common.data.texts import check_text, shown
from common.errors import InputError, damaged
from common.vectors.shard_writer import ShardWriter
from common.vectors.store import (
  MANIFEST,
  REMEDY,
  VectorStore,
  batches,
  check_size,
  folder_of_store,
  pieces,
  pyarrow,
  read_manifest,
  taken,
  verify_shard,
)

if TYPE_CHECKING:
  import pyarrow as pa
  import pyarrow.compute as pc
else:
  pa = pyarrow()
  pc = importlib.import_module('pyarrow.compute')

_SHARD = 16_384  # rows up to which shards become one


def delete(folder: str, ids: Iterable[str]) -> VectorStore:
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
    shards = without(folder, manifest['shards'], pa.array(ids, pa.string()))
    return publish(folder, manifest, shards)


def compact(folder: str, shard_size: int = _SHARD) -> VectorStore:
  """Writes a store's shards without their deleted rows, small neighbours as one; rows keep their order.

  Args:
    folder: The store's folder.
    shard_size: Rows up to which neighbours become one shard; what is larger is left, or loses its deleted
      rows alone.

  Raises:
    InputError: If there is no store, a shard that is to be written is damaged, or another process
      changes the store.
  """
  with _changed(folder) as manifest:
    groups = list(_groups(manifest['shards'], shard_size))
    if not all(map(_stays, groups)):  # else a killed `fill` may yet go on with what it began
      clear(folder, manifest['shards'], begun=True)
    try:
      return publish(folder, manifest, _compacted(folder, manifest, groups))
    except BaseException:  # as of a full disk, which the copy so far would keep full
      clear(folder, read_manifest(folder)['shards'], begun=True)
      raise


def _compacted(
  folder: str, manifest: dict[str, Any], groups: Iterable[list[dict[str, Any]]]
) -> list[dict[str, Any]]:
  """Entries of a shard a group, which is written where none is it."""
  description = {name: value for name, value in manifest.items() if name != 'shards'}
  number, shards = free_number(manifest['shards']), []
  for group in groups:
    if _stays(group):
      shards += group
      continue
    path = shard_path(folder, number)
    with files.whole(path) as temporary, ShardWriter(temporary, description) as writer:
      for piece in _joined(folder, group):
        if piece.num_rows:
          writer.copy(piece)
    shards.append(shard_entry(path, sum(shard['rows'] for shard in group)))
    number += 1
  return shards


@contextlib.contextmanager
def _changed(folder: str) -> Iterator[dict[str, Any]]:
  """A store's manifest, which nobody else changes in the block."""
  read_manifest(folder_of_store(folder))  # what is no store is refused before it is locked
  with files.alone(folder, 'folder'):
    manifest = read_manifest(folder)
    clear(folder, manifest['shards'])
    yield manifest


def _groups(shards: Sequence[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
  """Neighbours that become one shard."""
  group: list[dict[str, Any]] = []
  for shard in shards:
    if group and sum(of['rows'] for of in [*group, shard]) > size:
      yield group
      group = []
    group.append(shard)
  if group:
    yield group


def _stays(group: Sequence[dict[str, Any]]) -> bool:
  """Whether a group is one shard, and without deleted rows."""
  return len(group) == 1 and 'deleted' not in group[0]


def _joined(folder: str, group: Sequence[dict[str, Any]]) -> Iterator['pa.RecordBatch']:
  """The rows of shards that are not deleted: of several shards as one piece."""
  for shard in group:
    verify_shard(folder, shard)  # what is copied gets a digest of its own
  found = (
    taken(batch, live)
    for shard in group
    for batch, live in pieces(os.path.join(folder, shard['name']), shard)
  )
  if len(group) == 1:
    yield from found
  else:
    yield from pa.Table.from_batches(list(found)).combine_chunks().to_batches()


def without(
  folder: str, shards: Sequence[dict[str, Any]], ids: 'pa.Array | pa.ChunkedArray'
) -> list[dict[str, Any]]:
  """Entries of a manifest's shards, the rows of some ids deleted; a shard of no other row has none.

  Args:
    folder: The store's folder.
    shards: The entries as they are.
    ids: The ids, strings.
  """
  if not len(ids) or not shards:
    return list(shards)
  stored, sizes = [], []
  for shard in shards:
    path = os.path.join(folder, shard['name'])
    check_size(path, shard)
    with damaged(path, REMEDY):
      own = [batch.column('id') for batch in batches(path)]
      for piece in own:
        piece.validate(full=True)
    stored += own
    sizes.append(sum(map(len, own)))
  # One call, which makes its table of `ids` once.
  found = pc.is_in(pa.chunked_array(stored, pa.string()), ids).to_numpy()
  listed = []
  for shard, of_shard in zip(shards, np.split(found, np.cumsum(sizes)[:-1]), strict=True):
    if of_shard.any():
      deleted = sorted({*shard.get('deleted', ()), *np.flatnonzero(of_shard).tolist()})
      shard = {**shard, 'rows': len(of_shard) - len(deleted), 'deleted': deleted}
    if shard['rows']:
      listed.append(shard)
  return listed


def publish(folder: str, before: dict[str, Any], shards: Sequence[dict[str, Any]]) -> VectorStore:
  """Makes shards the store, at once, and then removes the files of those that it had before alone.

  Args:
    folder: The store's folder.
    before: The manifest as it was.
    shards: The entries of the manifest that takes its place.
  """
  path = os.path.join(folder, MANIFEST)
  files.write_json(path, {**before, 'shards': list(shards)}, sealed=True)
  for name in {s['name'] for s in before['shards']} - {s['name'] for s in shards}:
    os.remove(os.path.join(folder, name))
  return VectorStore(folder)


def shard_entry(path: str, rows: int) -> dict[str, Any]:
  """A shard's entry of a manifest."""
  return {'name': os.path.basename(path), 'rows': rows, **digests.of(path)}


def shard_path(folder: str, number: int) -> str:
  """Path of a shard."""
  return os.path.join(folder, f'vectors-{number:05d}.arrow')


def clear(folder: str, shards: Sequence[dict[str, Any]], *, begun: bool = False) -> None:
  """Removes shards that a killed `publish` left: of numbers that a manifest has passed, and not in it.

  Args:
    folder: The store's folder.
    shards: The manifest's entries.
    begun: Whether shards of later numbers go too, which a call that was broken off had begun.
  """
  listed, first = {shard['name'] for shard in shards}, free_number(shards)
  for name in files.names(folder):
    number = _number(name.removesuffix('.tmp'))
    if number >= 0 and (begun or number < first) and name not in listed:
      os.remove(os.path.join(folder, name))


def free_number(shards: Sequence[dict[str, Any]]) -> int:
  """A number above those of a manifest's shards."""
  return 1 + max((_number(shard['name']) for shard in shards), default=-1)


def _number(name: str) -> int:
  """The number in a shard's name; -1 of a name that `shard_path` does not give."""
  found = re.fullmatch(r'vectors-(\d{5,})\.arrow', name)
  return int(found[1]) if found else -1
