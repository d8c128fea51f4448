"""Teachers' scores of a distillation set of any size, on Apache Beam (§4.3).

  python -m common.pipelines.annotate --teachers=runs/p2t/teacher --input=pairs-*.tsv \\
    --text_columns=left,right --output=distill

The output is a record set, ready to be trained on: give its folder as `--distillation_file`. A run
makes the soft labels of its logits by its own `--temperature`.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from apache_beam.io.filesystems import FileSystems

from common import extras

with extras.needed('train'):
  import tensorflow as tf

from common import flags, sharded
from common.data import record_writer, records
from common.data.examples import Example
from common.data.items import ItemWriter
from common.data.records import Manifest, Table
from common.data.task import Task
from common.data.tuples import parse, serialize
from common.distillation import annotate as annotation
from common.distillation import teacher
from common.distillation.teacher import MAX_LENGTH, Teacher
from common.errors import InputError
from common.pipelines import files, jobs, reading, shards
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.pipelines.models import limit_threads
from common.pipelines.shards import Mark, Shard
from common.pipelines.units import Unit

_CHUNK = 4096  # tuples in memory at a time
_TEMPERATURE = 1.0  # of the soft labels, which a run makes anew
_GROUP = 64  # rows that stay together in training, so that a sorted file costs fewer encodings


@dataclasses.dataclass(frozen=True)
class AnnotateConfig:
  """Tuples to annotate, and the teachers for it."""

  teachers: tuple[str, ...] = flags.option(
    (), "teachers' folders, whose mean logits are kept", alias='teacher'
  )
  files: FilesConfig = flags.group(FilesConfig, heading='input')
  text_columns: tuple[str, ...] = flags.option(('left', 'right'), 'columns of the texts')
  id_column: str = flags.option('', 'column of a unique id; empty: rows are named by their place')
  teacher_max_length: int = flags.option(
    MAX_LENGTH, 'most tokens of a packed tuple, for a Hugging Face classifier', bounds=(4, 8192)
  )
  classes: tuple[str, ...] = flags.option(
    (), 'labels in order of the outputs, for a Hugging Face classifier of classes'
  )
  threads: int = flags.option(0, 'threads of a worker; 0: one a core', bounds=(0, 1024))
  out: OutputConfig = flags.group(OutputConfig, heading='output')

  @property
  def columns(self) -> list[str]:
    """Columns that are read: the texts', then that of the id, if there is one."""
    return [*self.text_columns, *filter(None, [self.id_column])]


@dataclasses.dataclass(frozen=True)
class AnnotateJob:
  """`jobs.Job`: a unit's tuples with logits and soft labels, as a shard of a record set.

  The shard has item tables of its own.
  """

  config: AnnotateConfig

  def load(self) -> list[Teacher]:
    config = self.config
    limit_threads(config.threads)
    length = config.teacher_max_length
    task = Task('multiclass', config.classes) if config.classes else Task('binary')
    return [Teacher.load(files.local(folder), length, task) for folder in config.teachers]

  def run(self, unit: Unit, teachers: list[Teacher], shard: Shard) -> int:
    slots = len(self.config.text_columns)
    with contextlib.ExitStack() as stack:
      names = [_table_name(unit.number, slot) for slot in range(slots)]
      tables = [stack.enter_context(shard.file(name)) for name in names]
      items = [stack.enter_context(ItemWriter(table.path)) for table in tables]
      tuples = stack.enter_context(shard.file(record_writer.shard_name(unit.number)))
      writer = stack.enter_context(tf.io.TFRecordWriter(tuples.path))
      for cells in reading.cells(unit, self.config.columns, _CHUNK, shard.refuse):
        texts = list(zip(*cells[:slots], strict=True))
        ids = cells[-1] if self.config.id_column else [''] * len(texts)
        groups = record_writer.of_examples(map(Example, ids, texts), _GROUP)(items)
        logits = teacher.of_texts(teachers, texts)
        for group in annotation.with_logits(groups, logits, _TEMPERATURE):
          writer.write(serialize(group))
        tuples.count += len(texts)
      for table, own in zip(tables, items, strict=True):
        table.count = len(own)
    return tuples.count


def main(config: AnnotateConfig, options: Sequence[str]) -> None:
  """Runs the job; the record set's manifest comes last."""
  if not config.teachers:
    raise InputError("--teachers: a teacher's folder is needed")
  todo = config.files.units()
  reading.check_columns(todo, config.columns)
  info = {'teachers': list(config.teachers), 'temperature': _TEMPERATURE}
  plan = {
    **info,
    'columns': [*config.text_columns, config.id_column],
    'contents of the teachers': [files.version(folder) for folder in config.teachers],
    'teacher_max_length': config.teacher_max_length,
    'classes': list(config.classes),
  }
  output = config.out.output
  with shards.alone(output):
    marks = jobs.run(AnnotateJob(config), todo, config.out, plan, options)
    manifest = _manifest([mark for mark in marks if mark.rows], len(config.text_columns), info)
    if config.id_column:
      paths = [FileSystems.join(output, shard.name) for shard in manifest.shards]
      jobs.check_ids(output, paths, _ids)
    files.write(FileSystems.join(output, sharded.NAME), sharded.text(manifest))


def _ids(path: str) -> Iterator[Sequence[str]]:
  """The ids of a shard's tuples, local or remote, a group at a time."""
  for record in reading.records(path, 'give another --output'):
    yield parse(record).ids


def _manifest(marks: Sequence[Mark], slots: int, info: dict[str, Any]) -> Manifest:
  """The manifest of a record set; each unit wrote a shard and its own tables."""
  listed, tables = [], []
  for number, mark in enumerate(marks):
    written = {file.name: vars(file) for file in mark.shards}
    own = written[record_writer.shard_name(mark.unit.number)]
    listed.append(records.Shard(**own, tables=(number,) * slots))
    tables.append([Table(**written[_table_name(mark.unit.number, slot)]) for slot in range(slots)])
  return Manifest(tuple(listed), tuple(zip(*tables, strict=True)), info)


def _table_name(unit: int, slot: int) -> str:
  return f'items/{unit:05d}-{slot}.tfrecord'


if __name__ == '__main__':
  from common.pipelines import annotate  # by the name that workers know it by

  jobs.command(annotate.main, annotate.AnnotateConfig)
