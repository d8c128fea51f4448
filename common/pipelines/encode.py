"""Texts, or vectors in their place, of any number into a vector store, on Apache Beam.

  python -m common.pipelines.encode --export_dir=runs/p2t/export --side=right \\
    --input=products.jsonl --id_column=id --text_column=title --output=products \\
    --direct_running_mode=multi_processing --direct_num_workers=8 --threads=1

The output is what `common.vectors.store.VectorStore` opens, once all of it is there.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from common import flags, sharded
from common.data import vector_cells
from common.data.texts import distinct
from common.errors import InputError, damaged
from common.pipelines import files, jobs, reading, shards
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.pipelines.models import ScorerHandler
from common.pipelines.shards import Shard
from common.pipelines.units import Unit
from common.scoring import exported, runtimes
from common.scoring.scorer import PairScorer
from common.vectors import manifest, values
from common.vectors.changes import shard_name
from common.vectors.manifest import Description, Manifest
from common.vectors.shards import ShardWriter

_CHUNK = 16_384  # texts in memory at a time


@dataclasses.dataclass(frozen=True)
class EncodeConfig:
  """Texts to encode, the encoder, and the form of its vectors."""

  export_dir: str = flags.option('', "a run's export")
  side: str = flags.option('right', 'side of the texts, which has its encoder')
  files: FilesConfig = flags.group(FilesConfig, heading='input')
  id_column: str = flags.option('id', 'column of the unique id')
  text_column: str = flags.option(
    'text', 'column of the text; of a side of vectors, of lists of numbers'
  )
  dtype: str = flags.option('int8', 'dtype of the stored vectors', values.DTYPES)
  encoder_runtime: str = flags.option(
    'litert-int8', 'runtime of the encoder', tuple(runtimes.RUNTIMES)
  )
  threads: int = flags.option(
    0, 'threads of a worker; 0: one a core, of LiteRT 16 at the most', bounds=(0, 1024)
  )
  out: OutputConfig = flags.group(OutputConfig, heading='output')


@dataclasses.dataclass(frozen=True)
class EncodeJob:
  """`jobs.Job`: a unit's texts as one shard of a store, each text of a chunk encoded once."""

  config: EncodeConfig
  description: Description

  def load(self) -> PairScorer:
    config = self.config
    runtime = config.encoder_runtime
    handler = ScorerHandler(config.export_dir, runtime, config.threads, encoder_runtime=runtime)
    return handler.load_model()

  def run(self, unit: Unit, model: PairScorer, shard: Shard) -> int:
    columns, count = (self.config.id_column, self.config.text_column), 0
    with contextlib.ExitStack() as opened:
      for ids, texts in reading.cells(unit, columns, _CHUNK, shard.refuse):
        if width := model.widths.get(self.config.side):
          where = [f'{unit.path} (id {key})' for key in ids]
          vectors = vector_cells.of_cells(texts, width, where, shard.refuse)
          ids, texts = [ids[row] for row in vectors], list(vectors.values())
        if ids:
          if not count:  # a unit without rows has no file
            file = opened.enter_context(shard.file(shard_name(unit.number)))
            writer = opened.enter_context(ShardWriter(file.path, self.description))
          once, of_row = distinct(texts)
          writer.write(ids, texts, model.encode(once, self.config.side)[of_row])
          file.count = count = count + len(ids)
    return count


def main(config: EncodeConfig, options: Sequence[str]) -> None:
  """Runs the job; the store's manifest comes last."""
  if not config.export_dir:
    raise InputError('--export_dir is needed')
  export = exported.describe(files.local(config.export_dir))
  slots = export['slots']
  if config.side not in slots:
    raise InputError(f'--side={config.side}: one of {", ".join(slots)}')
  shape = export['vector_shapes'][slots.index(config.side)]
  fingerprint = exported.fingerprints(export)[config.side]
  description = Description(tuple(shape), config.dtype, fingerprint, config.side)
  todo = config.files.units()
  columns = [config.id_column, config.text_column]
  reading.check_columns(todo, columns)
  plan = {
    'store': sharded.as_json(description),
    'columns': columns,
    'encoder_runtime': config.encoder_runtime,
  }
  output = config.out.output
  with shards.alone(output):
    _refuse_changed(output, todo)
    marks = jobs.run(EncodeJob(config, description), todo, config.out, plan, options)
    listed = tuple(manifest.Shard(**vars(mark.shards[0])) for mark in marks if mark.rows)
    jobs.check_ids(output, [FileSystems.join(output, shard.name) for shard in listed], _ids)
    path = FileSystems.join(output, sharded.NAME)
    files.write(path, sharded.text(Manifest(description, listed)))


def _refuse_changed(output: str, todo: Sequence[Unit]) -> None:
  """Refuses a store that is not as this job left it: its manifest would be written as it was."""
  path, plan = (FileSystems.join(output, name) for name in (sharded.NAME, shards.PLAN))
  if not files.exists(path):
    return
  kept = 'the store there stays as it is: choose another --output'
  if not files.exists(plan):
    raise InputError(f'{plan}: missing: no job made what is there; {kept}')
  there = sharded.parsed(files.read(path), path, Manifest, manifest.REMEDY).shards
  listed, rows = {shard.name for shard in there}, shards.rows(output)
  made = {shard_name(number) for number, count in rows.items() if count}
  left = {shard_name(unit.number) for unit in todo if unit.number not in rows}
  if any(shard.deleted for shard in there) or not made <= listed <= made | left:
    raise InputError(
      f'{path}: changed since a job made it (ids deleted, texts added, compacted); {kept}'
    )


def _ids(path: str) -> Iterator[list[str]]:
  """The ids of a shard, local or remote, by piece; its vectors are not read."""
  options = pa.ipc.IpcReadOptions(included_fields=[0])
  with files.open_file(path) as file, damaged(path, manifest.REMEDY):
    reader = pa.ipc.open_file(file, options=options)
    for number in range(reader.num_record_batches):
      yield reader.get_batch(number).column('id').to_pylist()


if __name__ == '__main__':
  from common.pipelines import encode  # by the name that workers know it by

  jobs.command(encode.main, encode.EncodeConfig)
