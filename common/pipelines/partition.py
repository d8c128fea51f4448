"""A vector store cut into buckets by a hash of the id, on Apache Beam.

  python -m common.pipelines.partition --store=products --buckets=64 --output=products-64

For a store that no worker can open whole: `common.pipelines.score` takes the output in its place
and opens two buckets at a time. A bucket is itself a store; vectors are copied byte for byte.
"""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from common import digests, flags
from common.data.texts import hash64
from common.errors import InputError
from common.pipelines import jobs, shards
from common.pipelines.files import on_disk
from common.pipelines.jobs import OutputConfig
from common.pipelines.shards import Shard
from common.pipelines.units import Unit
from common.vectors import store
from common.vectors.shard_writer import ShardWriter

PARTITION = 'partition.json'
_SOURCE = 'source'  # in it: digest of the manifest of the store that was cut, so of its contents
_MOST = 512  # buckets: a worker has a file of each open


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
      fields = {'buckets': int, 'rows': int, _SOURCE: str}
      manifest = store.check_manifest(shards.read_json(path), path, **fields)
      names = map(_name, range(manifest['buckets']))
      buckets, rows = [FileSystems.join(folder, name) for name in names], manifest['rows']
      version = manifest[_SOURCE]
    else:
      manifest = _manifest(folder)
      _shard_units(folder, manifest)
      buckets, rows = [folder], sum(shard['rows'] for shard in manifest['shards'])
      version = _digest(manifest)
    return cls(folder, tuple(buckets), rows, manifest['fingerprint'], manifest['side'], version)

  def check(self, opened: store.VectorStore) -> None:
    """Refuses an opened bucket, or its copy, of another version than these."""
    whole = self.buckets == (self.folder,)
    found = Buckets.of(opened.folder if whole else self.folder)
    if found.version != self.version or not opened.is_current():
      raise InputError(f'{self.folder}: changed since the job began; choose another --output')


@dataclasses.dataclass(frozen=True)
class PartitionJob:
  """`jobs.Job`: a shard of the store, as one shard of each bucket that it has rows of."""

  description: dict[str, Any]
  shards: list[dict[str, Any]]
  buckets: int

  def load(self) -> None:
    """There is no model."""

  def run(self, unit: Unit, model: None, shard: Shard) -> int:
    del model
    counts: dict[str, int] = {}
    with contextlib.ExitStack() as open_files:
      writers: dict[int, tuple[str, ShardWriter]] = {}
      source = open_files.enter_context(on_disk(unit.path))
      own = self.shards[unit.number]  # what is copied gets digests of its own
      digests.check_file(
        source, bytes=own['bytes'], sha256=own['sha256'], remedy=f'{store.REMEDY} ({unit.path})'
      )
      for batch, live in store.pieces(source, own):
        batch = store.taken(batch, live)
        rows: dict[int, list[int]] = {}
        for row, key in enumerate(batch.column('id').to_pylist()):
          rows.setdefault(hash64(key) % self.buckets, []).append(row)
        for number, of_bucket in rows.items():
          if number not in writers:
            name = f'{_name(number)}/vectors-{unit.number:05d}.arrow'
            path = open_files.enter_context(shard.file(name))
            writer = open_files.enter_context(ShardWriter(path, self.description))
            writers[number] = (name, writer)
          name, writer = writers[number]
          writer.copy(batch.take(pa.array(of_bucket)))
          counts[name] = counts.get(name, 0) + len(of_bucket)
    for file in shard.files:
      file['rows'] = counts[file['name']]
    return sum(counts.values())


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
  description = {name: value for name, value in manifest.items() if name != 'shards'}
  todo = _shard_units(config.store, manifest)
  plan = {'store': manifest, 'buckets': config.buckets}
  job = PartitionJob(description, manifest['shards'], config.buckets)
  with shards.alone(config.out.output):
    marks = jobs.run(job, todo, config.out, plan, options)
    of_bucket: dict[str, list[dict[str, Any]]] = {_name(n): [] for n in range(config.buckets)}
    for mark in marks:
      for file in mark['files']:
        folder, name = file['name'].split('/')
        of_bucket[folder].append({**file, 'name': name})
    for folder, files in of_bucket.items():
      path = FileSystems.join(config.out.output, folder, store.MANIFEST)
      shards.write_json(path, {**description, 'shards': files})
    whole = {**description, 'buckets': config.buckets, 'rows': sum(mark['rows'] for mark in marks)}
    whole[_SOURCE] = _digest(manifest)
    shards.write_json(FileSystems.join(config.out.output, PARTITION), whole)


def _name(number: int) -> str:
  return f'bucket-{number:05d}'


def _digest(manifest: dict[str, Any]) -> str:
  return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _manifest(folder: str) -> dict[str, Any]:
  path = FileSystems.join(folder, store.MANIFEST)
  if not shards.exists(path):
    raise InputError(f'{folder}: no whole vector store there ({store.MANIFEST} is missing)')
  return store.check_manifest(shards.read_json(path), path, shards=store.SHARDS)


def _shard_units(folder: str, manifest: dict[str, Any]) -> list[Unit]:
  """A store's shards; raises InputError if one is missing or not as long as it was."""
  sizes = shards.sizes(folder)
  shards_of = enumerate(manifest['shards'])
  todo = [Unit(i, FileSystems.join(folder, s['name']), 0, s['bytes']) for i, s in shards_of]
  for unit in todo:
    if sizes.get(unit.path) != unit.stop:
      raise InputError(f'{unit.path}: missing or cut short; write the store anew')
  return todo


if __name__ == '__main__':
  from common.pipelines import partition  # by the name that workers know it by

  jobs.command(partition.main, partition.PartitionConfig)
