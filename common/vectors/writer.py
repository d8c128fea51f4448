"""Writes vector stores: shards whole or not at all, the manifest last."""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from common import files
from common.data.texts import check_text, distinct, shown
from common.errors import InputError, check_whole, damaged
from common.vectors import changes, manifest
from common.vectors.ids import Ids, hashes
from common.vectors.manifest import Description, Manifest, Shard
from common.vectors.shards import ShardWriter, batches, columns, made_with
from common.vectors.store import VectorStore
from common.vectors.values import DTYPES


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
    self.folder = folder = manifest.folder_of_store(folder)
    if dtype not in DTYPES:
      raise InputError(f'dtype={dtype!r}: one of {", ".join(DTYPES)}')
    self.description = Description(tuple(shape), dtype, fingerprint, side)
    self.runtime = runtime
    os.makedirs(folder, exist_ok=True)
    self._read()

  def _read(self) -> None:
    """Reads the manifest of the store in the folder, if there is one."""
    self.before = Manifest(self.description)
    if manifest.is_there(self.folder):
      self.before = manifest.read(self.folder)
      for name, value in vars(self.description).items():
        if (found := getattr(self.before.vectors, name)) != value:
          raise InputError(f'{self.folder}: a store of {name} {found}, not {value}')
    self._first = changes.free_number(self.before.shards)

  def has(self, number: int, ids: Sequence[str], texts: Sequence[Any]) -> bool:
    """Whether this writer's shard `number` is there, by the same runtime and of the same rows."""
    path, own = self._path(number), made_with(self.description, self.runtime)
    if not os.path.exists(path):
      return False
    with damaged(path, 'delete it and run again'):
      found = list(batches(path))
      if len(found) != 1 or found[0].schema.metadata != own:
        return False
      same = found[0].column('id').to_pylist() == list(ids)
      return same and np.array_equal(found[0].column('text_hash').to_numpy(), hashes(texts))

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
    """Writes the (id, text) or (id, vector) rows that are not there as shards, and finishes.

    A row whose id is there with the same text changes nothing. With `replace`, a row with another
    text moves: its new vectors stand among the added rows, at the end, and its old row is deleted.
    The manifest changes at once, when all is encoded: a call that is killed leaves the store as it
    was, and the same call goes on with the shards that it wrote.

    Args:
      rows: Ids with their texts.
      encode: Float32 vectors [n, *shape] of n texts; those alike in a shard are encoded once.
      replace: Whether another text for a stored id replaces its vectors; otherwise it is an error.
      shard_size: Rows a shard.
      total: Number of rows, for the progress bar.
      progress: Name of the bar; empty: none is shown.

    Raises:
      InputError: If a row holds no text, or an id comes with another text than the store's, or with
        two in this call; or if another process changes the store.
    """
    check_whole('shard_size', shard_size, 1)
    with files.alone(self.folder, 'folder'):
      self._read()
      changes.clear(self.folder, self.before.shards)
      contents, number = Contents(self.folder, self.before, replace), 0
      with tqdm(total=total, desc=progress, disable=not progress, unit=' texts') as bar:
        stream = _needed(_checked(rows, shard_size), contents, bar)
        while chunk := list(itertools.islice(stream, shard_size)):
          ids, texts = map(list, zip(*chunk, strict=True))
          if not self.has(number, ids, texts):
            once, numbers = distinct(texts)
            self.write(number, ids, texts, encode(once)[numbers])
          number += 1
      if not number and not len(contents.replaced) and manifest.is_there(self.folder):
        return VectorStore(self.folder)  # as it is, so that a folder may be one that is only read
      return self.finish(number, contents.replaced)

  def write(
    self, number: int, ids: Sequence[str], texts: Sequence[Any], vectors: np.ndarray
  ) -> None:
    """Writes shard `number`: ids that are in no other, their texts' vectors [n, *shape] float32."""
    with (
      files.whole(self._path(number)) as path,
      ShardWriter(path, self.description, self.runtime) as shard,
    ):
      shard.write(ids, texts, vectors)

  def finish(self, shards: int, replaced: np.ndarray | None = None) -> VectorStore:
    """Makes shards 0 to `shards` - 1, and what was there before, the store.

    Args:
      shards: How many were written.
      replaced: Rows of what was there before that are left out of it.
    """
    rows = np.zeros(0, np.int64) if replaced is None else replaced
    listed = changes.without(self.before.shards, rows)
    for path in map(self._path, range(shards)):
      count = sum(batch.num_rows for batch in batches(path))
      listed.append(Shard.written(self.folder, os.path.basename(path), count))
    changes.publish(self.folder, self.before, listed)
    return VectorStore(self.folder)

  def _path(self, number: int) -> str:
    return os.path.join(self.folder, changes.shard_name(self._first + number))


class Contents:
  """Ids of a store and of added rows, each with its text's hash: 25 bytes an id, and the new ids.

  Args:
    folder: The store's folder.
    before: Its manifest.
    replace: Whether another text may take the place of a stored one.

  Attributes:
    replaced: Rows of the store whose ids were given another text.
  """

  def __init__(self, folder: str, before: Manifest, replace: bool = False):
    found = list(columns(folder, before, 'id', 'text_hash'))
    self._ids = Ids(ids for ids, _ in found)
    self._texts = np.concatenate([np.zeros(0, np.uint64), *(of.to_numpy() for _, of in found)])
    self._given = np.zeros(len(self._ids), bool)  # to `add`, beside what was stored
    self._folder, self._replace = folder, replace
    self.replaced = np.zeros(0, np.int64)

  def add(self, ids: Sequence[str], texts: Sequence[Any]) -> np.ndarray:
    """Adds rows; returns the numbers of rows that need vectors, in order.

    Raises:
      InputError: If an id comes with two texts, or with another than the store's and must not.
    """
    values, first = hashes(texts), {}
    of_row = np.array([first.setdefault(key, row) for row, key in enumerate(ids)], np.int64)
    rows = np.array([*first.values()], np.int64)  # the first of each id
    at = self._ids.find([*first])
    new, (at, known) = rows[at < 0], (at[at >= 0], rows[at >= 0])
    other, given = self._texts[at] != values[known], self._given[at]
    twice = [*np.flatnonzero(values != values[of_row]), *known[other & given]]
    if twice:
      raise InputError(f'id {ids[min(twice)]!r}: given with two texts; an id has one')
    if other.any() and not self._replace:
      key = ids[min(known[other])]
      raise InputError(
        f'{self._folder}: id {key!r} is there with another text; replace=True replaces its vectors'
      )
    self.replaced = np.concatenate([self.replaced, at[other]])
    self._texts[at], self._given[at] = values[known], True
    self._ids.add([ids[row] for row in new.tolist()])
    self._texts = np.concatenate([self._texts, values[new]])
    self._given = np.concatenate([self._given, np.ones(len(new), bool)])
    return np.sort(np.concatenate([new, known[other]]))


def _checked(rows: Iterable[tuple[str, Any]], size: int) -> Iterator[list[tuple[str, Any]]]:
  """Rows of an id and a text, as many at a time as a shard takes."""
  if not isinstance(rows, Iterable):
    raise InputError(f'rows: pairs of an id and a text are needed, not {shown(rows)}')
  stream, number, first = iter(rows), 0, None
  while chunk := list(itertools.islice(stream, size)):
    for place, row in enumerate(chunk):
      chunk[place] = key, item = _checked_row(row, f'row {number}')
      first = item if first is None else first
      if isinstance(item, str) != isinstance(first, str) or np.shape(item) != np.shape(first):
        raise InputError(
          f'row {number} (id {key!r}): {_kind(item)}; the first row has {_kind(first)}'
        )
      number += 1
    yield chunk


def _checked_row(row: Any, where: str) -> tuple[str, Any]:
  """An id and a text, or a vector as an array."""
  if not isinstance(row, (Sequence, np.ndarray)) or isinstance(row, str) or len(row) != 2:
    raise InputError(f'{where}: an id and a text are needed')
  key, item = row
  if isinstance(item, (list, tuple)):
    try:
      item = np.asarray(item, np.float32)
    except (TypeError, ValueError) as error:
      raise InputError(f'{where} (id {key!r}): no vector of numbers: {error}') from error
  if not isinstance(key, str):
    raise InputError(f'{where}: {shown(key)} is not an id; ids are texts: str(id)')
  check_text(key, where)
  if isinstance(item, str):
    check_text(item, where)
  elif not isinstance(item, np.ndarray):
    raise InputError(f'{where}: {shown(item)} is not a text')
  elif item.dtype.kind not in 'fiu' or not np.isfinite(item).all():
    raise InputError(f'{where} (id {key!r}): not all of its numbers are finite numbers')
  return key, item


def _needed(
  chunks: Iterable[list[tuple[str, Any]]], contents: Contents, bar: tqdm
) -> Iterator[tuple[str, Any]]:
  """Rows that are to be encoded."""
  for chunk in chunks:
    ids, texts = zip(*chunk, strict=True)
    yield from (chunk[added] for added in contents.add(ids, texts))
    bar.update(len(chunk))


def _kind(item: str | np.ndarray) -> str:
  return 'a text' if isinstance(item, str) else f'numbers of shape {item.shape}'
