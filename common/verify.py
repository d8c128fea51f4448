"""Compares every file of a run, an export, a store or a job's output with its digest.

  python -m common.verify --folder=runs/p2t

What is read in the course of work is checked then; a vector store's vectors are too many for that,
and checked here (or by `VectorStore.verify`).
"""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from common import digests, files, flags, schema, sharded
from common.digests import Digest
from common.errors import InputError, damaged

_MARKS = 'done'


@dataclasses.dataclass(frozen=True)
class VerifyConfig:
  """The folder to verify."""

  folder: str = flags.option('', 'folder, local; all below it is verified too')


def verify(folder: str) -> tuple[int, int]:
  """Compares the files that digests below a folder name; returns how many, and their bytes.

  Raises:
    InputError: If there are no digests, or at the first file that is missing or differs.
  """
  sizes: dict[str, int] = {}
  for base, _, names in os.walk(folder, onerror=_unread, followlinks=True):
    marks = os.path.basename(base) == _MARKS
    if marks and os.path.exists(os.path.join(os.path.dirname(base), sharded.NAME)):
      continue  # a job's, whose manifest names what there is
    for name in sorted(names):
      if name not in (digests.NAME, sharded.NAME, digests.STAGE) and not (
        marks and name.endswith('.json')
      ):
        continue
      value = files.read_json(listed := os.path.join(base, name))
      with damaged(listed, 'delete its folder and run again'):
        entries = list(_entries(value))
      for path, entry in entries:
        path = os.path.normpath(os.path.join(os.path.dirname(base) if marks else base, path))
        entry.check(path)
        sizes[path] = entry.bytes
  if not sizes:
    raise InputError(f'--folder={folder}: nothing there names the digests of its files')
  return len(sizes), sum(sizes.values())


def _unread(error: OSError) -> None:
  raise InputError(f'{error.filename}: cannot be read: {error.strerror}') from error


def _entries(value: Any, name: str = '') -> Iterator[tuple[str, Digest]]:
  """Names of files, and what they must be, wherever in a manifest they stand."""
  if isinstance(value, list):
    for item in value:
      yield from _entries(item)
  elif isinstance(value, dict):
    if {'bytes', 'sha256'} <= value.keys():
      yield str(value.get('name', name)), schema.check(value, Digest, name)
      return
    for key, item in value.items():
      yield from _entries(item, key)


def main(config: VerifyConfig) -> None:
  """Verifies, and says how much."""
  if not os.path.isdir(config.folder):
    raise InputError(f'--folder={config.folder}: no such folder')
  count, size = verify(config.folder)
  print(f'{config.folder}: {count:,} files, {size:,} bytes, are what was written')


if __name__ == '__main__':
  flags.command(main, VerifyConfig)
