"""A vector store's manifest: how its vectors were made, and the shards that belong to it."""

import dataclasses
import os
from typing import Any, ClassVar

import numpy as np

from common import files, sharded
from common.errors import InputError, local_path

REMEDY = 'write the store anew'


@dataclasses.dataclass(frozen=True)
class Description:
  """Properties shared by all vectors of a store.

  Attributes:
    shape: Shape of a text's vectors.
    dtype: One of `values.DTYPES`.
    fingerprint: Fingerprint of the encoder.
    side: Side of the texts: 'left' or 'right'.
  """

  shape: tuple[int, ...]
  dtype: str
  fingerprint: str
  side: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard(sharded.Shard):
  """An Arrow file; `deleted` are the numbers of its rows that the store no longer has, in order."""

  deleted: tuple[int, ...] = ()

  @property
  def rows(self) -> int:
    """Number of its rows that the store has."""
    return self.count - len(self.deleted)

  @property
  def live(self) -> np.ndarray | None:
    """Numbers of the rows that the store has; None: all."""
    if not self.deleted:
      return None
    return np.delete(np.arange(self.count), np.array(self.deleted, np.int64))


@dataclasses.dataclass(frozen=True)
class Manifest:
  """Contents of a store: the shards' rows, end to end."""

  form: ClassVar[str] = 'vector store 3'

  vectors: Description
  shards: tuple[Shard, ...] = ()

  def __post_init__(self):
    sharded.check_counts(self.shards)
    for shard in self.shards:
      if shard.name != os.path.basename(
        shard.name
      ):  # it is opened, and removed once it is replaced
        raise ValueError(f'{shard.name!r} is no file of this folder')
      deleted = sorted({*shard.deleted})
      if [*shard.deleted] != deleted or deleted[-1:] >= [shard.count]:
        raise ValueError(f'{shard.name}: its deleted rows are none of its {shard.count}')


def folder_of_store(folder: Any) -> str:
  """A store's folder; refuses what is none of this machine, where shards are memory-mapped."""
  folder = local_path(folder, 'folder')
  if files.is_remote(folder):
    raise InputError(f'{folder}: a folder of this machine is needed: copy the store here')
  return folder


def is_there(folder: str) -> bool:
  """Whether a folder holds a whole store."""
  return os.path.exists(os.path.join(folder, sharded.NAME))


def read(folder: str) -> Manifest:
  """A store's manifest; raises InputError where there is none."""
  try:
    return sharded.read(os.path.join(folder, sharded.NAME), Manifest, REMEDY)
  except OSError as error:
    raise InputError(
      f'{folder}: no whole vector store there ({sharded.NAME} is missing)'
    ) from error


def version(folder: str) -> str:
  """A digest of a store's manifest, another one where the store has changed; '' without a store."""
  path = os.path.join(folder, sharded.NAME)
  return files.sha256(path) if os.path.exists(path) else ''
