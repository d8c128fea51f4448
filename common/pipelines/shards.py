"""A job's output: its plan, and one shard per unit, whole or absent, with a mark that describes it.

A mark is the manifest (`common.sharded`) of a unit's files. A second run skips what is marked, and
goes on with the same flags and units alone. Paths are those of Beam's filesystems.
"""

import contextlib
import dataclasses
import json
import os
import posixpath
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from apache_beam.io.filesystems import FileSystems

from common import digests, schema, sharded
from common import files as local_files
from common.errors import InputError, damaged
from common.pipelines import files
from common.pipelines.units import Unit

PLAN = 'plan.json'


@dataclasses.dataclass(frozen=True)
class Mark:
  """Contents of a finished unit's mark.

  Attributes:
    unit: The unit, with the state of its file.
    rows: Rows written.
    bad_rows: Rows refused.
    seconds: Time that they took.
    shards: The unit's files.
  """

  form: ClassVar[str] = 'unit of a job 2'

  unit: Unit
  rows: int
  bad_rows: int
  seconds: float
  shards: tuple[sharded.Shard, ...]


@dataclasses.dataclass
class File:
  """A file that is being written: a local path, and the rows in it so far."""

  path: str
  count: int = 0


class Shard:
  """The output of one unit: files that are written whole, rows that were refused, and a mark.

  Args:
    output: Folder of the job's output.
    unit: The unit.
  """

  def __init__(self, output: str, unit: Unit):
    self.output, self.unit = output, unit
    self.files: list[sharded.Shard] = []
    self.refused = 0
    self._bad: Any = None  # a temporary file of the refused rows: a unit may be all of a large file

  @contextlib.contextmanager
  def file(self, name: str) -> Iterator[File]:
    """A local file to write to; at the end of the block it is the output's file `name`."""
    with tempfile.TemporaryDirectory() as folder:
      file = File(os.path.join(folder, posixpath.basename(name)))
      yield file
      of_file = vars(digests.Digest.of(file.path))
      self.files.append(sharded.Shard(name=name, count=file.count, **of_file))
      files.copy_in(file.path, FileSystems.join(self.output, name))

  def refuse(self, where: str, why: str, row: str) -> None:
    """Sets a refused row aside."""
    if not self._bad:
      self._bad = tempfile.TemporaryFile('w+', encoding='utf-8')  # noqa: SIM115 (closed at the end)
    self._bad.write(json.dumps({'where': where, 'why': why, 'row': row}) + '\n')
    self.refused += 1

  def finish(self, rows: int, seconds: float) -> Mark:
    """Writes the refused rows, then the mark; returns the mark."""
    if self.refused:
      self._bad.seek(0)
      with self._bad, self.file(f'{files.BAD}/{self.unit.number:05d}.jsonl') as bad:
        bad.count = self.refused
        with open(bad.path, 'w', encoding='utf-8') as file:
          shutil.copyfileobj(self._bad, file)
    mark = Mark(self.unit, rows, self.refused, seconds, tuple(self.files))
    path = FileSystems.join(self.output, files.MARKS, f'{self.unit.number:05d}.json')
    files.write(path, sharded.text(mark))
    return mark


@contextlib.contextmanager
def alone(output: str) -> Iterator[None]:
  """Keeps other processes out of a local output, which is made, until a job's manifest is written.

  Raises:
    InputError: If there is no folder, or another process works in it.
  """
  if not output:
    raise InputError('--output: a folder is needed')
  if local_files.is_remote(output):
    yield
    return
  os.makedirs(output, exist_ok=True)
  with local_files.alone(output, '--output'):
    yield


def keep_plan(output: str, plan: dict[str, Any]) -> None:
  """Writes the flags that an output depends on into it; refuses an output of others."""
  path, remedy = FileSystems.join(output, PLAN), 'delete the output and run again'
  plan = json.loads(json.dumps(plan))  # as it is read again: lists, no tuples
  if not files.exists(path):
    files.write(path, local_files.json_text(plan, sealed=True))
    return
  there = local_files.parse_json(files.read(path), path, remedy)
  with damaged(path, remedy):
    schema.check(there, {}, 'plan')
  if differs := [name for name in plan if there.get(name) != plan[name]]:
    raise InputError(
      f'{output}: begun with other {", ".join(differs)}; '
      'go on with those or choose another --output'
    )


def check_units(output: str, done: dict[int, Mark], todo: Sequence[Unit]) -> None:
  """Refuses an output with a shard of a unit that the input does not have, or not as it was."""
  units = {unit.number: unit for unit in todo}
  for number, mark in done.items():
    if mark.unit != units.get(number):
      raise InputError(
        f'{output}: begun with other --input or --unit_bytes, or {mark.unit.path} has changed '
        'since rows of it were done; go on with those or choose another --output'
      )


def marks(output: str) -> dict[int, Mark]:
  """The marks of an output's finished shards, by number.

  Raises:
    InputError: If a mark is damaged, or a file that one names is missing or of another size.
  """
  there, found = files.sizes(output), {}
  for mark_file, mark in _read_marks(output).items():
    for of in mark.shards:
      path, size = FileSystems.join(output, of.name), of.bytes
      if there.get(path) != size:
        raise InputError(
          f'{path}: {there.get(path, 0)} bytes; {size} were written; {_remedy(mark_file)}'
        )
    found[mark.unit.number] = mark
  return found


def rows(output: str) -> dict[int, int]:
  """Rows of each finished shard by its mark, whatever has become of its files."""
  return {mark.unit.number: mark.rows for mark in _read_marks(output).values()}


def count_marks(output: str) -> int:
  """Number of finished shards."""
  return len(_mark_files(output))


def _read_marks(output: str) -> dict[str, Mark]:
  """The marks by their files."""
  found = _mark_files(output)
  return dict(zip(found, files.each(_read_mark, found), strict=True))


def _read_mark(path: str) -> Mark:
  return sharded.parsed(files.read(path), path, Mark, _remedy(path))


def _remedy(mark_file: str) -> str:
  return f'delete {mark_file} and run again'


def _mark_files(output: str) -> list[str]:
  return [
    path for path in files.sizes(FileSystems.join(output, files.MARKS)) if path.endswith('.json')
  ]
