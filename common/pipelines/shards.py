"""A job's output: one shard per unit, whole or absent, with a mark that describes it.

A mark is the manifest (`common.sharded`) of a unit's files. A second run skips what is marked.
Paths are those of Beam's filesystems.
"""

import atexit
import contextlib
import dataclasses
import functools
import glob
import hashlib
import json
import os
import posixpath
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from typing import Any, ClassVar

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from common import digests, files, sharded
from common.errors import InputError
from common.pipelines.files import copy_out, each, open_file
from common.scoring import exported, hub
from common.sharded import Of

_MARKS = 'done'
_BAD = 'bad'


@dataclasses.dataclass(frozen=True)
class Mark:
  """Contents of a finished unit's mark.

  Attributes:
    number: Number of the unit.
    rows: Rows written.
    bad_rows: Rows refused.
    seconds: Time that they took.
    shards: The unit's files.
    note: What else the job says of them.
  """

  form: ClassVar[str] = 'unit of a job 1'

  number: int
  rows: int
  bad_rows: int
  seconds: float
  shards: tuple[sharded.Shard, ...]
  note: dict[str, Any]


@dataclasses.dataclass
class File:
  """A file that is being written: a local path, and the rows in it so far."""

  path: str
  count: int = 0


class Shard:
  """The output of one unit: files that are written whole, rows that were refused, and a mark.

  Args:
    output: Folder of the job's output.
    number: Number of the unit.
  """

  def __init__(self, output: str, number: int):
    self.output, self.number = output, number
    self.files: list[sharded.Shard] = []
    self.refused = 0
    self._bad: Any = None  # a temporary file of the refused rows: a unit may be all of a large file
    self.note: dict[str, Any] = {}  # what else the mark holds

  @contextlib.contextmanager
  def file(self, name: str) -> Iterator[File]:
    """A local file to write to; at the end of the block it is the output's file `name`."""
    with tempfile.TemporaryDirectory() as folder:
      file = File(os.path.join(folder, posixpath.basename(name)))
      yield file
      of_file = vars(digests.Digest.of(file.path))
      self.files.append(sharded.Shard(name=name, count=file.count, **of_file))
      copy_in(file.path, FileSystems.join(self.output, name))

  def refuse(self, where: str, why: str, row: str) -> None:
    """Sets a refused row aside."""
    if not self._bad:
      self._bad = tempfile.TemporaryFile('w+', encoding='utf-8')  # noqa: SIM115 (`finish` closes it)
    self._bad.write(json.dumps({'where': where, 'why': why, 'row': row}) + '\n')
    self.refused += 1

  def finish(self, rows: int, seconds: float) -> Mark:
    """Writes the refused rows, then the mark; returns the mark."""
    if self.refused:
      self._bad.seek(0)
      with self._bad, self.file(f'{_BAD}/{self.number:05d}.jsonl') as bad:
        bad.count = self.refused
        with open(bad.path, 'w', encoding='utf-8') as file:
          shutil.copyfileobj(self._bad, file)
    mark = Mark(self.number, rows, self.refused, seconds, tuple(self.files), self.note)
    write_manifest(_mark_path(self.output, self.number), mark)
    return mark


@contextlib.contextmanager
def alone(output: str) -> Iterator[None]:
  """Keeps other processes out of a local output, which is made, until a job's manifest is written.

  Raises:
    InputError: If there is no folder, or another process works in it.
  """
  if not output:
    raise InputError('--output: a folder is needed')
  if files.is_remote(output):
    yield
    return
  os.makedirs(output, exist_ok=True)
  with files.alone(output, '--output'):
    yield


def marks(output: str) -> dict[int, Mark]:
  """The marks of an output's finished shards, by number.

  Raises:
    InputError: If a mark is damaged, or a file that one names is missing or of another size.
  """
  found, there, mark_files = {}, sizes(output), _mark_files(output)
  for mark_file, mark in zip(mark_files, each(_read_mark, mark_files), strict=True):
    found[mark.number] = mark
    for of in mark.shards:
      path, size = FileSystems.join(output, of.name), of.bytes
      if there.get(path) != size:
        raise InputError(
          f'{path}: {there.get(path, 0)} bytes; {size} were written; {_remedy(mark_file)}'
        )
  return found


def a_mark(output: str) -> Mark | None:
  """Mark of any finished shard, or None."""
  return next(map(_read_mark, _mark_files(output)), None)


def rows(output: str, number: int) -> int:
  """Rows of a shard by its mark, whatever has become of its files; 0 without one."""
  path = _mark_path(output, number)
  return _read_mark(path).rows if exists(path) else 0


def sizes(folder: str) -> dict[str, int]:
  """Bytes of all files in a folder, by path; none where there is no folder."""
  inside = folder.rstrip('/') + '/'
  if not files.is_remote(folder):
    return dict(_local_sizes(inside))
  (found,) = FileSystems.match([f'{glob.escape(inside)}**'])
  return {
    file.path: file.size_in_bytes
    for file in found.metadata_list
    if not file.path.endswith('/')  # as consoles make for an empty folder
  }


def _local_sizes(folder: str) -> Iterator[tuple[str, int]]:
  for base, _, names in os.walk(folder):
    for name in names:
      path = os.path.join(base, name)
      with contextlib.suppress(FileNotFoundError):  # a temporary file, renamed by now
        yield path, os.path.getsize(path)


def count_marks(output: str) -> int:
  """Number of finished shards."""
  return len(_mark_files(output))


def exists(path: str) -> bool:
  """Whether a file or a folder is there."""
  return FileSystems.exists(path) or FileSystems.exists(path.rstrip('/') + '/')


def read_json(path: str) -> Any:
  """Reads a JSON file, as `files.read_json` does."""
  with contextlib.closing(FileSystems.open(path)) as file:
    return files.parse_json(file.read(), path, 'delete it and run again')


def write_json(path: str, value: Any) -> None:
  """Writes a JSON file, sealed, whole or not at all."""
  _write_text(path, files.json_text(value, sealed=True))


def read_manifest(path: str, kind: type[Of], remedy: str) -> Of:
  """Reads a manifest's file, as `sharded.read` does."""
  with contextlib.closing(FileSystems.open(path)) as file:
    return sharded.parsed(file.read(), path, kind, remedy)


def write_manifest(path: str, manifest: sharded.Manifest) -> None:
  """Writes a manifest's file, which declares its folder whole."""
  _write_text(path, sharded.text(manifest))


def _write_text(path: str, text: str) -> None:
  with tempfile.TemporaryDirectory() as folder:
    local = os.path.join(folder, 'value.json')
    with open(local, 'w', encoding='utf-8') as file:
      file.write(text)
    copy_in(local, path)


def copy_in(local: str, path: str) -> None:
  """Copies a local file to `path`, where it appears whole."""
  folder = posixpath.dirname(path)
  if FileSystems.get_filesystem(path).has_dirs() and not exists(folder):
    with contextlib.suppress(OSError):  # another worker makes it too
      FileSystems.mkdirs(folder)
  # Here the next process overwrites what a killed one leaves; two workers may write one object.
  temporary = f'{path}.{uuid.uuid4().hex}.tmp' if files.is_remote(path) else f'{path}.tmp'
  plain = CompressionTypes.UNCOMPRESSED
  created = contextlib.closing(FileSystems.create(temporary, compression_type=plain))
  with files.blamed(path), open(local, 'rb') as source, created as target:
    shutil.copyfileobj(source, target, 1 << 20)
  if files.is_remote(path):
    FileSystems.rename([temporary], [path])
  else:
    files.put(temporary, path)


@functools.cache
def local(folder: str) -> str:
  """A folder as one that this process can memory-map: itself, or a copy of a remote one."""
  if files.is_remote(folder) and not folder.startswith(hub.PREFIX):
    copy = copied(folder)
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    return copy
  return exported.local(folder)


def version(folder: str) -> str:
  """A digest of a model's folder, or of its list of digests; empty: a remote folder without one."""
  path = FileSystems.join(folder, digests.NAME)
  if exists(path):
    with open_file(path) as file:
      return hashlib.sha256(file.read()).hexdigest()
  return files.sha256_of_folder(folder) if os.path.isdir(folder) else ''


def copied(folder: str) -> str:
  """A new temporary folder with a copy of a folder, without a job's marks and bad rows."""
  copy = tempfile.mkdtemp()
  for source in sizes(folder):
    name = source.removeprefix(folder.rstrip('/') + '/')
    if not name.startswith((f'{_MARKS}/', f'{_BAD}/')):
      path = os.path.join(copy, name)
      os.makedirs(os.path.dirname(path), exist_ok=True)
      copy_out(source, path)
  return copy


def _mark_path(output: str, number: int) -> str:
  return FileSystems.join(output, _MARKS, f'{number:05d}.json')


def _read_mark(path: str) -> Mark:
  return read_manifest(path, Mark, _remedy(path))


def _remedy(mark_file: str) -> str:
  return f'delete {mark_file} and run again'


def _mark_files(output: str) -> list[str]:
  return [path for path in sizes(FileSystems.join(output, _MARKS)) if path.endswith('.json')]
