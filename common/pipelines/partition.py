"""A vector store cut into buckets by a hash of the id, on Apache Beam.

  python -m common.pipelines.partition --store=products --buckets=64 --output=products-64

For a store that no worker can open whole: `common.pipelines.score` takes the output in its place
and opens two buckets at a time. A bucket is itself a store; vectors are copied byte for byte.
"""

import contextlib
import dataclasses
import hashlib
from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from common import flags, sharded
from common.data.texts import hash64
from common.errors import InputError
from common.pipelines import jobs, shards
from common.pipelines.files import on_disk
from common.pipelines.jobs import OutputConfig
from common.pipelines.shards import File, Shard
from common.pipelines.units import Unit
from common.vectors.changes import shard_name
from common.vectors.manifest import REMEDY, Description, Manifest
from common.vectors.manifest import Shard as StoreShard
from common.vectors.shards import ShardWriter, pieces, taken
from common.vectors.store import VectorStore

PARTITION = 'partition.json'
_MOST = 512  # buckets: a worker has a file of each open


@dataclasses.dataclass(frozen=True)
class Partition:
  """Contents of `partition.json`, which is written when all buckets are there.

  Attributes:
    vectors: What the vectors of all buckets have in common.
    buckets: Number of buckets.
    rows: Rows of all buckets together.
    source: Digest of the manifest of the store that was cut, so of its contents.
  """

  form: ClassVar[str] = 'partitioned store 2'

  vectors: Description
  buckets: int
  rows: int
  source: str


@dataclasses.dataclass(frozen=True)
class PartitionConfig:
  """The store to cut, and the number of its buckets."""

  store: str = flags.option('', 'folder of the vectors')
  buckets: int = flags.option(
    16, 'buckets; a worker opens one of each side at a time', bounds=(1, _MOST)
  )
  out: OutputConfig = flags.group(OutputConfig, heading='output')


@dataclasses.dataclass(frozen=True)
class Buckets:
  """A partitioned store; one that is not is its only bucket.

  Attributes:
    folder: The folder of buckets.
    buckets: Folders of stores.
    rows: Rows of all buckets together.
    fingerprint: Fingerprint of the encoder.
    side: Side of the texts: 'left' or 'right'.
    version: Digest of the manifest, which differs once the store has changed.
  """

  folder: str
  buckets: tuple[str, ...]
  rows: int
  fingerprint: str
  side: str
  version: str

  @classmethod
  def of(cls, folder: str) -> 'Buckets':
    """Reads a folder; refuses one that is neither a partition nor a store."""
    if is_partition(folder):
      path = FileSystems.join(folder, PARTITION)
      found = shards.read_manifest(path, Partition, REMEDY)
      names = map(_name, range(found.buckets))
      buckets = tuple(FileSystems.join(folder, name) for name in names)
      vectors, rows, version = found.vectors, found.rows, found.source
    else:
      whole = _manifest(folder)
      _shard_units(folder, whole)
      buckets, rows = (folder,), sum(shard.rows for shard in whole.shards)
      vectors, version = whole.vectors, _digest(whole)
    return cls(folder, buckets, rows, vectors.fingerprint, vectors.side, version)

  def check(self, opened: VectorStore) -> None:
    """Refuses an opened bucket, or its copy, of another version than these."""
    whole = self.buckets == (self.folder,)
    found = Buckets.of(opened.folder if whole else self.folder)
    if found.version != self.version or not opened.is_current():
      raise InputError(f'{self.folder}: changed since the job began; choose another --output')


@dataclasses.dataclass(frozen=True)
class PartitionJob:
  """`jobs.Job`: a shard of the store, as one shard of each bucket that it has rows of."""

  manifest: Manifest
  buckets: int

  def load(self) -> None:
    """No model to load."""

  def run(self, unit: Unit, model: None, shard: Shard) -> int:
    del model
    with contextlib.ExitStack() as open_files:
      writers: dict[int, tuple[File, ShardWriter]] = {}
      source = open_files.enter_context(on_disk(unit.path))
      own = self.manifest.shards[unit.number]
      own.check(source, f'{REMEDY} ({unit.path})')  # what is copied gets digests of its own
      for batch, live in pieces(source, own):
        batch = taken(batch, live)
        rows: dict[int, list[int]] = {}
        for row, key in enumerate(batch.column('id').to_pylist()):
          rows.setdefault(hash64(key) % self.buckets, []).append(row)
        for number, of_bucket in rows.items():
          if number not in writers:
            name = f'{_name(number)}/{shard_name(unit.number)}'
            file = open_files.enter_context(shard.file(name))
            writer = open_files.enter_context(ShardWriter(file.path, self.manifest.vectors))
            writers[number] = (file, writer)
          file, writer = writers[number]
          writer.copy(batch.take(pa.array(of_bucket)))
          file.count += len(of_bucket)
    return sum(file.count for file, _ in writers.values())


def is_partition(folder: str) -> bool:
  """Whether a folder holds the output of this job, all of it."""
  return shards.exists(FileSystems.join(folder, PARTITION))


def main(config: PartitionConfig, options: Sequence[str]) -> None:
  """Runs the job; the buckets' manifests come last, and then what says how many there are."""
  if not config.store:
    raise InputError('--store: a folder of vectors is needed')
  if is_partition(config.store):
    raise InputError(f'--store={config.store}: a partition already; give the store it was cut from')
  manifest = _manifest(config.store)
  todo = _shard_units(config.store, manifest)
  plan = {'store': sharded.as_json(manifest), 'buckets': config.buckets}
  job = PartitionJob(manifest, config.buckets)
  with shards.alone(config.out.output):
    marks = jobs.run(job, todo, config.out, plan, options)
    of_bucket: dict[str, list[StoreShard]] = {_name(n): [] for n in range(config.buckets)}
    for mark in marks:
      for file in mark.shards:
        folder, name = file.name.split('/')
        of_bucket[folder].append(StoreShard(**{**vars(file), 'name': name}))
    for folder, files in of_bucket.items():
      path = FileSystems.join(config.out.output, folder, sharded.NAME)
      shards.write_manifest(path, Manifest(manifest.vectors, tuple(files)))
    rows = sum(mark.rows for mark in marks)
    whole = Partition(manifest.vectors, config.buckets, rows, _digest(manifest))
    shards.write_manifest(FileSystems.join(config.out.output, PARTITION), whole)


def _name(number: int) -> str:
  return f'bucket-{number:05d}'


def _digest(manifest: Manifest) -> str:
  return hashlib.sha256(sharded.text(manifest).encode()).hexdigest()


def _manifest(folder: str) -> Manifest:
  path = FileSystems.join(folder, sharded.NAME)
  if not shards.exists(path):
    raise InputError(f'{folder}: no whole vector store there ({sharded.NAME} is missing)')
  return shards.read_manifest(path, Manifest, REMEDY)


def _shard_units(folder: str, manifest: Manifest) -> list[Unit]:
  """A store's shards; raises InputError if one is missing or not as long as it was."""
  sizes = shards.sizes(folder)
  shards_of = enumerate(manifest.shards)
  todo = [Unit(i, FileSystems.join(folder, s.name), 0, s.bytes) for i, s in shards_of]
  for unit in todo:
    if sizes.get(unit.path) != unit.stop:
      raise InputError(f'{unit.path}: missing or cut short; write the store anew')
  return todo


if __name__ == '__main__':
  from common.pipelines import partition  # by the name that workers know it by

  jobs.command(partition.main, partition.PartitionConfig)
