"""Writes vector stores: shards whole or not at all, the manifest last."""

import importlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from common import files
from common.data.texts import check_text, distinct, shown
from common.errors import InputError, check_whole, damaged
from common.vectors import changes
from common.vectors.shard_writer import ShardWriter, metadata
from common.vectors.store import (
  MANIFEST,
  REMEDY,
  VectorStore,
  check_size,
  description,
  folder_of_store,
  pieces,
  pyarrow,
  read_manifest,
  taken,
)
from common.vectors.text_hashes import TextHashes, hashes

pa = pyarrow()
pc = importlib.import_module('pyarrow.compute')


class VectorWriter:
  """Writes shards into a folder; `finish` makes them a store, or adds them to the one there.

  Args:
    folder: The store's folder.
    shape: Shape of a text's vectors.
    dtype: One of `DTYPES`.
    fingerprint: Fingerprint of the encoder.
    side: Side of the texts: 'left' or 'right'.
    runtime: Name of the encoder's runtime; what a killed call left of another one is made anew.

  Raises:
    InputError: If the folder has a store of another shape, dtype or encoder.
  """

  def __init__(
    self,
    folder: str,
    shape: Sequence[int],
    dtype: str,
    fingerprint: str,
    side: str,
    runtime: str = '',
  ):
    self.folder = folder = folder_of_store(folder)
    self.description, self.runtime = description(shape, dtype, fingerprint, side), runtime
    os.makedirs(folder, exist_ok=True)
    self._read()

  def _read(self) -> None:
    """Takes in what is there."""
    self.before: list[dict[str, Any]] = []
    if os.path.exists(os.path.join(self.folder, MANIFEST)):
      there = read_manifest(self.folder)
      self.before = there.pop('shards')
      for name, value in self.description.items():
        if there[name] != value:
          raise InputError(f'{self.folder}: a store of {name} {there[name]}, not {value}')
    self._first = changes.free_number(self.before)

  def has(self, number: int, ids: Sequence[str], texts: Sequence[Any]) -> bool:
    """Whether shard `number` of this writer's is there, of the same description, runtime and rows."""
    path, own = self._path(number), metadata(self.description, self.runtime)
    if not os.path.exists(path):
      return False
    with damaged(path, 'delete it and run again'), pa.memory_map(path) as file:
      reader = pa.ipc.open_file(file)
      if reader.num_record_batches != 1 or reader.schema.metadata != own:
        return False
      batch = reader.get_batch(0)
      same = batch.column('id').to_pylist() == list(ids)
      return same and np.array_equal(batch.column('text_hash').to_numpy(), hashes(texts))

  def fill(
    self,
    rows: Iterable[tuple[str, Any]],
    encode: Callable[[list[Any]], np.ndarray],
    *,
    replace: bool = False,
    shard_size: int = 16_384,
    total: int | None = None,
    progress: str = '',
  ) -> VectorStore:
    """Writes (id, text) or (id, vector) rows as shards, but what is there, and finishes.

    A row whose id is there with the same text changes nothing. With `replace`, one with another text
    moves: its new vectors stand among the added rows, at the end, and its old row is deleted. The
    manifest changes at once, when all is encoded, so a call that is killed leaves the store as it was.

    Args:
      rows: Ids with their texts.
      encode: Float32 vectors [n, *shape] of n texts; those alike in a shard are encoded once.
      replace: Whether another text for a stored id replaces its vectors; otherwise it is an error.
      shard_size: Rows a shard.
      total: Number of rows, for the progress bar.
      progress: Name of the bar; empty: none is shown.

    Raises:
      InputError: If a row holds no text, or an id another text than the store, or two in this call; or
        if another process changes the store.
    """
    check_whole('shard_size', shard_size, 1)
    with files.alone(self.folder, 'folder'):
      self._read()
      changes.clear(self.folder, self.before)
      return self._fill(rows, encode, replace, shard_size, total, progress)

  def _fill(
    self,
    rows: Iterable[tuple[str, Any]],
    encode: Callable[[list[Any]], np.ndarray],
    replace: bool,
    shard_size: int,
    total: int | None,
    progress: str,
  ) -> VectorStore:
    chunks = _checked(rows, shard_size)
    first = next(chunks, [])
    # Where these are all rows, no others are looked for.
    ids = pa.array([key for key, _ in first], pa.string()) if len(first) < shard_size else None
    stored = (self._hashes(shard, ids) for shard in self.before)
    there, number = TextHashes(self.folder, stored, replace), 0
    with tqdm(total=total, desc=progress, disable=not progress, unit=' texts') as bar:
      stream = _needed(filter(None, itertools.chain([first], chunks)), there, bar)
      while chunk := list(itertools.islice(stream, shard_size)):
        ids, texts = map(list, zip(*chunk, strict=True))
        if not self.has(number, ids, texts):
          once, numbers = distinct(texts)
          self.write(number, ids, texts, encode(once)[numbers])
        number += 1
    replaced = there.replaced
    if not number and not len(replaced) and os.path.exists(os.path.join(self.folder, MANIFEST)):
      return VectorStore(self.folder)  # as it is, so that a folder may be one that is only read
    return self.finish(number, replaced)

  def write(
    self, number: int, ids: Sequence[str], texts: Sequence[Any], vectors: np.ndarray
  ) -> None:
    """Writes shard `number`: ids that are in no other, their texts' vectors [n, *shape] float32."""
    with (
      files.whole(self._path(number)) as path,
      ShardWriter(path, self.description, self.runtime) as shard,
    ):
      shard.write(ids, texts, vectors)

  def finish(self, shards: int, replaced: Any = ()) -> VectorStore:
    """Makes shards 0 to `shards` - 1, and what was there before, the store.

    Args:
      shards: How many were written.
      replaced: Ids that were there before, and are left out of it: an Arrow array of strings.
    """
    listed = changes.without(self.folder, self.before, replaced)
    for place in range(shards):
      with pa.memory_map(self._path(place)) as file:
        rows = pa.ipc.open_file(file).get_batch(0).num_rows
      listed.append(changes.shard_entry(self._path(place), rows))
    return changes.publish(self.folder, {**self.description, 'shards': self.before}, listed)

  def _hashes(self, shard: dict[str, Any], wanted: Any) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of a shard's ids and of its texts, but of deleted rows; of ids that are wanted, or (None) of all."""
    path = os.path.join(self.folder, shard['name'])
    check_size(path, shard)
    with damaged(path, REMEDY):
      ids, texts = [], []
      for batch, live in pieces(path, shard):
        of_batch, of_texts = (taken(batch.column(name), live) for name in ('id', 'text_hash'))
        if wanted is not None:
          of_batch.validate(full=True)
          found = pc.is_in(of_batch, wanted)
          of_batch, of_texts = of_batch.filter(found), of_texts.filter(found)
        ids.append(hashes(of_batch.to_pylist()))
        texts.append(of_texts.to_numpy())
      return np.concatenate(ids), np.concatenate(texts)

  def _path(self, number: int) -> str:
    return changes.shard_path(self.folder, self._first + number)


def _checked(rows: Iterable[tuple[str, Any]], size: int) -> Iterator[list[tuple[str, Any]]]:
  """Rows of an id and a text, as many at a time as a shard takes."""
  if not isinstance(rows, Iterable):
    raise InputError(f'rows: pairs of an id and a text are needed, not {shown(rows)}')
  stream, number, first = iter(rows), 0, None
  while chunk := list(itertools.islice(stream, size)):
    for place, row in enumerate(chunk):
      if not isinstance(row, (Sequence, np.ndarray)) or isinstance(row, str) or len(row) != 2:
        raise InputError(f'row {number}: an id and a text are needed')
      (key, item), kinds = row, (str, np.ndarray)
      if isinstance(item, (list, tuple)):
        try:
          item = np.asarray(item, np.float32)
        except (TypeError, ValueError) as error:
          raise InputError(f'row {number} (id {key!r}): no vector of numbers: {error}') from error
        chunk[place] = key, item
      for value, what, known in ((key, 'an id', str), (item, 'a text', kinds)):
        if not isinstance(value, known):
          right = '; ids are texts: str(id)' if what == 'an id' else ''
          raise InputError(f'row {number}: {shown(value)} is not {what}{right}')
        if isinstance(value, str):
          check_text(value, f'row {number}')
      if isinstance(item, np.ndarray) and not (
        item.dtype.kind in 'fiu' and np.isfinite(item).all()
      ):
        raise InputError(f'row {number} (id {key!r}): not all of its numbers are finite numbers')
      first = item if first is None else first
      if isinstance(item, str) != isinstance(first, str) or np.shape(item) != np.shape(first):
        raise InputError(
          f'row {number} (id {key!r}): {_kind(item)}; the first row has {_kind(first)}'
        )
      number += 1
    yield chunk


def _needed(
  chunks: Iterable[list[tuple[str, Any]]], there: TextHashes, bar: tqdm
) -> Iterator[tuple[str, Any]]:
  """Rows that are to be encoded."""
  for chunk in chunks:
    ids, texts = zip(*chunk, strict=True)
    yield from (chunk[added] for added in there.add(ids, texts))
    bar.update(len(chunk))


def _kind(item: str | np.ndarray) -> str:
  return 'a text' if isinstance(item, str) else f'numbers of shape {item.shape}'
