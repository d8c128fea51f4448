"""Digests: what the files of a folder must be, as their writer left word; checked before use.

`digests.json` names files with their sizes and sha256. It is written where they are, last, and found
from any of them. A folder without it is not checked.
"""

import contextlib
import functools
import hashlib
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from common import files, schema
from common.errors import InputError, damaged

NAME = 'digests.json'
CONTENTS = 'contents of '  # a path, in the keys of `contents`
FILE = 'sha256 of '  # a path, in what a stage depends on
STAGE = 'stage.json'  # a run's note of a stage, sealed, written again when the stage is done
ENTRY = {'bytes': int, 'sha256': str}  # the schema of a file's size and digest
_ABOVE = 3  # folders above a file, at the most, that digests of it may stand in
_AGAIN = 'delete its folder and run again'


def of(path: str) -> dict[str, Any]:
  """A file's size and digest, for a manifest."""
  found = files.stat(path)
  if found is None:
    raise FileNotFoundError(path)
  return {'bytes': found[0], 'sha256': files.sha256(path)}


def write(folder: str, names: Iterable[str] = ()) -> None:
  """Writes the digests of files in a folder: of those named, beside others that there are; or of all.

  All below a local folder are taken where none is named, but for what is sealed itself.
  """
  names = list(names)
  found = _read(folder, _AGAIN) if names else {}
  for name in sorted(names or set(_below(folder)) - {NAME, STAGE}):
    found[name] = of(os.path.join(folder, name))
  files.write_json(os.path.join(folder, NAME), {'files': found}, sealed=True)


def contents(*paths: str) -> dict[str, str]:
  """{'contents of PATH': digest} of local folders and archives, for what is made of the models in them.

  Where a folder has a list of digests it stands for the files; of others hidden files and notes (.md) do
  not count. Any other name has none: a built-in checkpoint, a hub's id, a remote folder.
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
  """Takes a local folder's digests away, before its files are written anew."""
  if os.path.exists(path := os.path.join(folder, NAME)):
    os.remove(path)


def check(path: str, remedy: str = _AGAIN) -> None:
  """Refuses a file, or a folder with any, that is not what its digest says.

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
        check_entry(os.path.join(base, name), expected, remedy)
    if found:
      return
    base = os.path.dirname(base)


def check_entry(path: str, entry: Any, remedy: str = _AGAIN) -> None:
  """`check_file` by a manifest's entry, which is refused where it is none."""
  with damaged(path, remedy):
    schema.check(entry, ENTRY)
  check_file(path, bytes=entry['bytes'], sha256=entry['sha256'], remedy=remedy)


def check_file(path: str, *, bytes: int, sha256: str, remedy: str = _AGAIN) -> None:
  """Refuses a file of another size or digest; a process reads it once for that."""
  found = files.stat(path)
  if found is None:
    raise InputError(f'{path}: missing; {remedy}')
  if found[0] != bytes:
    raise InputError(f'{path}: damaged: {found[0]} bytes; {bytes} were written; {remedy}')
  if _sha256(path, *found) != sha256:
    raise InputError(f'{path}: damaged: its bytes are not those that were written; {remedy}')


def read_arrays(path: str, remedy: str) -> Any:
  """The array of a `.npy` file, or those of a `.npz` by name, checked."""
  check(path, remedy)
  with damaged(path, remedy), contextlib.ExitStack() as stack:
    found = np.load(path)
    return found if isinstance(found, np.ndarray) else dict(stack.enter_context(found))


def _read(folder: str, remedy: str) -> dict[str, dict[str, Any]]:
  path = os.path.join(folder, NAME)
  try:
    value = files.read_json(path, remedy)
  except (FileNotFoundError, NotADirectoryError):
    return {}
  with damaged(path, remedy):
    schema.check(value, {'files': dict})
  return value['files']


def _below(folder: str) -> Iterable[str]:
  for base, _, names in os.walk(folder):
    for name in names:
      yield os.path.relpath(os.path.join(base, name), folder)


@functools.cache
def _sha256(path: str, size: int, changed: int) -> str:
  del size, changed  # another file then
  return files.sha256(path)
