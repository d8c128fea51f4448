"""Teachers' scores of a distillation set of any size, on Apache Beam (§4.3).

  python -m common.pipelines.annotate --teachers=runs/p2t/teacher --input=pairs-*.tsv \\
    --text_columns=left,right --temperature=2 --output=distill

The output is a record set: what `--distillation_file` would have become, ready to be trained on.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf
from apache_beam.io.filesystems import FileSystems

from common import flags
from common.data import records
from common.data.examples import Example
from common.distillation import annotate as annotation
from common.errors import InputError
from common.pipelines import jobs, shards, units
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.pipelines.models import TeacherHandler
from common.pipelines.shards import Shard
from common.pipelines.units import Unit

_CHUNK = 4096  # tuples in memory at a time


@dataclasses.dataclass(frozen=True)
class AnnotateConfig:
  """Which tuples, by which teachers."""

  teachers: tuple[str, ...] = flags.option(
    (), "teachers' folders, whose mean logits are kept", alias='teacher'
  )
  files: FilesConfig = flags.group(FilesConfig, heading='input')
  text_columns: tuple[str, ...] = flags.option(('left', 'right'), 'columns of the texts')
  id_column: str = flags.option('', 'column of a unique id; empty: rows are named by their place')
  temperature: float = flags.option(1.0, 'T of the soft labels sigmoid(z / T)')
  threads: int = flags.option(0, 'threads of a worker; 0: one a core')
  out: OutputConfig = flags.group(OutputConfig, heading='output')

  def __post_init__(self):
    if self.temperature <= 0:
      raise InputError(f'--temperature={self.temperature}: must be above 0')


@dataclasses.dataclass(frozen=True)
class AnnotateJob:
  """`jobs.Job`: a unit's tuples with logits and soft labels, as one shard of a record set."""

  config: AnnotateConfig

  def load(self) -> tuple[TeacherHandler, list]:
    handler = TeacherHandler(self.config.teachers, self.config.threads)
    return handler, handler.load_model()

  def run(self, unit: Unit, model: tuple[TeacherHandler, list], shard: Shard) -> int:
    config, count = self.config, 0
    handler, teachers = model
    columns = [*config.text_columns, *filter(None, [config.id_column])]
    with shard.file(f'{unit.number:05d}.tfrecord') as path, tf.io.TFRecordWriter(path) as writer:
      for cells in units.cells(unit, columns, _CHUNK, shard.refuse):
        tuples = list(zip(*cells[: len(config.text_columns)], strict=True))
        numbers = range(count, count + len(tuples))
        ids = cells[-1] if config.id_column else [f'{unit.number}-{i}' for i in numbers]
        examples = [Example(key, texts) for key, texts in zip(ids, tuples, strict=True)]
        logits = handler.run_inference(tuples, teachers)
        for example in annotation.labelled(examples, logits, config.temperature):
          writer.write(records.serialize(example))
        count += len(examples)
    return count


def main(config: AnnotateConfig, options: Sequence[str]) -> None:
  """Runs the job; the record set's manifest comes last."""
  if not config.teachers:
    raise InputError("--teachers: a teacher's folder is needed")
  todo = config.files.units()
  units.check_columns(todo[0], [*config.text_columns, *filter(None, [config.id_column])])
  info = {'teachers': list(config.teachers), 'temperature': config.temperature}
  plan = {**info, 'columns': [*config.text_columns, config.id_column]}
  marks = jobs.run(AnnotateJob(config), todo, config.out, plan, options)
  listed = tuple(
    records.Shard(file['name'], mark['rows'], file['bytes'], file['sha256'])
    for mark in marks
    if mark['rows']
    for file in mark['files'][:1]
  )
  count = sum(shard.count for shard in listed)
  manifest = records.Manifest(len(config.text_columns), count, listed, 1, info)
  path = FileSystems.join(config.out.output, records.MANIFEST)
  shards.write_json(path, dataclasses.asdict(manifest))


if __name__ == '__main__':
  from common.pipelines import annotate  # by the name that workers know it by

  jobs.command(annotate.main, annotate.AnnotateConfig)
