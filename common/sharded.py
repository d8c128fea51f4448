"""Sharded folders: files of rows, and a manifest, written last, that says what each must be.

A folder that has its manifest is whole; without it the folder counts as absent. The owner of the
contents says with dataclasses what else a shard and the manifest hold: item tables, deleted rows.
Record sets, vector stores and the outputs of jobs are such folders.
"""

import dataclasses
import json
import os
from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, Self, TypeVar

from common import digests, files, schema
from common.errors import InputError, damaged

NAME = 'manifest.json'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard(digests.Digest):
  """A file of rows. Owners derive classes with fields of their own from it.

  Attributes:
    name: Its path, relative to the folder.
    count: Rows in it.
  """

  name: str
  count: int

  @classmethod
  def written(cls, folder: str, name: str, count: int, **fields: Any) -> Self:
    """The shard of a file that has been written."""
    of_file = digests.Digest.of(_located(folder, name))
    return cls(**dataclasses.asdict(of_file), name=name, count=count, **fields)

  def path(self, folder: str) -> str:
    """Path of the shard, from the manifest's `folder`."""
    return _located(folder, self.name)


def _located(folder: str, name: str) -> str:
  """Path of a file by its name in a folder, which may lead out of it: 'items/0', '../items/0'."""
  scheme, found, root = folder.rpartition('://')  # gs://, which is no part of a path
  return scheme + found + os.path.normpath(os.path.join(root, name))


def check_counts(shards: Iterable[Shard]) -> None:
  """Refuses more rows than bytes, where each row takes some: memory for so many would be asked."""
  for shard in shards:
    if shard.count > shard.bytes:
      raise ValueError(f'{shard.name}: {shard.count} rows in {shard.bytes} bytes')


class Manifest(Protocol):
  """A dataclass of JSON values, dataclasses and tuples.

  Attributes:
    form: Its kind and version, which its file names; others are refused.
  """

  form: ClassVar[str]
  __dataclass_fields__: ClassVar[dict[str, Any]]


Of = TypeVar('Of', bound=Manifest)


def read(path: str, kind: type[Of], remedy: str) -> Of:
  """Reads a manifest's file; raises FileNotFoundError where there is none.

  Args:
    path: The file.
    kind: The class of its contents.
    remedy: For the message of a damaged one.

  Raises:
    InputError: If it is damaged, or of another form.
  """
  with files.opened(path, 'rb') as file:
    return parsed(file.read(), path, kind, remedy)


def parsed(content: bytes, path: str, kind: type[Of], remedy: str) -> Of:
  """A manifest, of its file's bytes; refused as in `read`."""
  value = files.parse_json(content, path, remedy)
  with damaged(path, remedy):
    schema.check(value, {}, 'manifest')
    if (form := value.get('form')) != kind.form:
      raise InputError(f'{path}: of the form {form!r}, not {kind.form!r}; {remedy}')
    return schema.check(value, kind, 'manifest')


def write(path: str, manifest: Manifest) -> None:
  """Writes a manifest's file, whole or not at all: this declares its folder whole."""
  with files.whole(path) as temporary, files.opened(temporary, 'w') as file:
    file.write(text(manifest))


def text(manifest: Manifest) -> str:
  """The text of a manifest's file; `parsed` reads it."""
  return files.json_text({'form': manifest.form, **dataclasses.asdict(manifest)}, sealed=True)


def as_json(value: Any) -> dict[str, Any]:
  """A dataclass as JSON has it."""
  return json.loads(json.dumps(dataclasses.asdict(value)))
