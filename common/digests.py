"""Digests: sizes and SHA-256 of files, as they were written; checked before use.

`digests.json` names the files of a folder with their digests. It is written last, and found from
any of them. A folder without it is not checked.
"""

import contextlib
import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from common import files, schema
from common.errors import InputError, damaged

NAME = 'digests.json'
CONTENTS = 'contents of '  # a path, in the keys of `contents`
FILE = 'sha256 of '  # a path, in what a stage depends on
STAGE = 'stage.json'  # a run's note of a stage, sealed, written again when the stage is done
_ABOVE = 3  # folders above a file, at the most, that digests of it may stand in
_AGAIN = 'delete its folder and run again'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Digest:
  """Size and SHA-256 that a file must have."""

  bytes: int
  sha256: str

  @classmethod
  def of(cls, path: str) -> Self:
    """The digest of a file that has been written."""
    found = files.stat(path)
    if found is None:
      raise FileNotFoundError(path)
    return cls(bytes=found[0], sha256=files.sha256(path))

  def check_size(self, path: str, remedy: str = _AGAIN) -> tuple[int, int]:
    """Refuses a file that is missing or of another size; returns its `files.stat`."""
    found = files.stat(path)
    if found is None:
      raise InputError(f'{path}: missing; {remedy}')
    if found[0] != self.bytes:
      raise InputError(f'{path}: damaged: {found[0]} bytes; {self.bytes} were written; {remedy}')
    return found

  def check(self, path: str, remedy: str = _AGAIN) -> None:
    """Refuses a file that is missing, cut or changed; a process reads it once for that."""
    if _sha256(path, *self.check_size(path, remedy)) != self.sha256:
      raise InputError(f'{path}: damaged: its bytes are not those that were written; {remedy}')


def write(folder: str, names: Iterable[str] = ()) -> None:
  """Writes digests of files of a folder: the named ones, beside digests that are there; or all.

  All files below a local folder are taken where none is named, without those that are sealed.
  """
  names = list(names)
  found = _read(folder, _AGAIN) if names else {}
  for name in sorted(names or set(_below(folder)) - {NAME, STAGE}):
    found[name] = Digest.of(os.path.join(folder, name))
  listed = {name: dataclasses.asdict(digest) for name, digest in found.items()}
  files.write_json(os.path.join(folder, NAME), {'files': listed}, sealed=True)


def contents(*paths: str) -> dict[str, str]:
  """{'contents of PATH': digest} of local folders and archives of models.

  Where a folder has a list of digests, the list stands for the files; elsewhere hidden files and
  notes (.md) do not count. Any other name has none: a built-in checkpoint, a hub's id, a remote
  folder.
  """
  found = {}
  for path in filter(os.path.isfile, paths):
    found[f'{CONTENTS}{path}'] = files.sha256(path)[:16]
  for folder in filter(os.path.isdir, paths):
    names = [NAME] if os.path.exists(os.path.join(folder, NAME)) else sorted(_below(folder))
    of_files = [
      f'{name} {files.sha256(os.path.join(folder, name))}'
      for name in names
      if not (name.endswith('.md') or any(part.startswith('.') for part in name.split(os.sep)))
    ]
    digest = hashlib.sha256('\n'.join(of_files).encode())
    found[f'{CONTENTS}{folder}'] = digest.hexdigest()[:16]
  return found


def remove(folder: str) -> None:
  """Removes a local folder's digests before its files are written anew."""
  if os.path.exists(path := os.path.join(folder, NAME)):
    os.remove(path)


def check(path: str, remedy: str = _AGAIN) -> None:
  """Refuses a file that differs from its digest, or a folder with such a file.

  Raises:
    InputError: Names the first file that is missing, cut or changed, and the remedy.
  """
  path = path if files.is_remote(path) else os.path.abspath(path)
  base = path
  for _ in range(1 + _ABOVE):
    found = _read(base, remedy)
    own = os.path.relpath(path, base)
    for name, expected in found.items():
      if own in (name, '.') or name.startswith(own + '/'):
        expected.check(os.path.join(base, name), remedy)
    if found:
      return
    base = os.path.dirname(base)


def read_arrays(path: str, remedy: str) -> Any:
  """The checked array of a `.npy` file, or arrays by name of a `.npz`."""
  check(path, remedy)
  with damaged(path, remedy), contextlib.ExitStack() as stack:
    found = np.load(path)
    return found if isinstance(found, np.ndarray) else dict(stack.enter_context(found))


def _read(folder: str, remedy: str) -> dict[str, Digest]:
  path = os.path.join(folder, NAME)
  try:
    value = files.read_json(path, remedy)
  except (FileNotFoundError, NotADirectoryError):
    return {}
  with damaged(path, remedy):
    return schema.check(value, {'files': dict[str, Digest]})['files']


def _below(folder: str) -> Iterable[str]:
  for base, _, names in os.walk(folder):
    for name in names:
      yield os.path.relpath(os.path.join(base, name), folder)


@functools.cache
def _sha256(path: str, size: int, changed: int) -> str:
  del size, changed  # another file then
  return files.sha256(path)
