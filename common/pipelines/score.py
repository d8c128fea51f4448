"""Scores of pairs, or tuples, of any number, on Apache Beam.

  python -m common.pipelines.score --export_dir=runs/p2t/export --runtime=litert-int8 \\
    --left_store=terms --right_store=products --input=pairs-*.parquet --output=scores \\
    --direct_running_mode=multi_processing --direct_num_workers=8 --threads=1

Three shapes. `--shape=pairs`: a table of pairs of ids (of texts, without stores). `--shape=candidates`:
a table of ids, each with its candidates' ids, whose best are kept. `--shape=all`: every text of the
left store with every one of the right, whose best are kept. Stores are memory-mapped by each worker;
what is read of them at a time is a block. With `--shape=pairs`, a store that is too large for that may
be one that `common.pipelines.partition` has cut: the pairs are then joined by id (`join.py`).

A student of other than two texts takes `--shape=pairs`, with `--columns` and `--stores` in the order
of its slots.
"""

import dataclasses
import json
from collections.abc import Iterator, Sequence

import numpy as np

from common import flags
from common.errors import InputError
from common.pipelines import jobs, outputs, partition, shards, units
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.pipelines.join import Grid, JoinJob
from common.pipelines.models import ScorerHandler, TupleModel
from common.pipelines.partition import Buckets
from common.pipelines.shards import Shard
from common.pipelines.units import Unit
from common.scoring import exported, runtimes
from common.vectors.store import VectorStore

SHAPES = ('pairs', 'candidates', 'all')
_CHUNK = 4096  # tuples in memory at a time
_QUERIES = 64  # left texts that share the reading of the right store


@dataclasses.dataclass(frozen=True)
class ScoreConfig:
  """Pairs to score, and the head for it."""

  export_dir: str = flags.option('', "a run's export")
  runtime: str = flags.option('litert-int8', 'runtime of the head', tuple(runtimes.HEADS))
  threads: int = flags.option(
    0, 'threads of a worker; 0: one a core, of LiteRT 16 at the most', bounds=(0, 1024)
  )
  shape: str = flags.option('pairs', 'pairs, candidates of each left text, or all with all', SHAPES)
  files: FilesConfig = flags.group(FilesConfig, heading='input')
  left_store: str = flags.option('', 'folder of the left vectors; no stores: columns hold texts')
  right_store: str = flags.option('', 'folder of the right vectors')
  left_column: str = flags.option('left', 'column of the left ids, or texts')
  right_column: str = flags.option(
    'right', 'column of the right ids, or texts; for candidates, of JSON lists of ids'
  )
  columns: tuple[str, ...] = flags.option(
    (),
    "each slot's column of ids, or texts; empty: --left_column and --right_column, or, of other "
    "than two slots, the slots' names",
  )
  stores: tuple[str, ...] = flags.option(
    (), "folder of each slot's vectors, in place of --left_store and --right_store"
  )
  top_k: int = flags.option(10, 'best candidates kept of each left text', bounds=(1, 10**6))
  unit_rows: int = flags.option(
    1024, 'left texts of --shape=all that become one shard', bounds=(1, 10**9)
  )
  output_format: str = flags.option('parquet', 'format of the scores', outputs.FORMATS)
  join_salts: int = flags.option(
    4,
    'with a partitioned store: shards over which the pairs of two buckets are spread; the more, '
    'the fewer pairs in each, and the oftener a bucket is opened',
    bounds=(1, 4096),
  )
  encoder_runtime: str = flags.option(
    'litert-int8', 'runtime of the encoders, for texts', tuple(runtimes.ENCODERS)
  )
  out: OutputConfig = flags.group(OutputConfig, heading='output')

  def __post_init__(self):
    if bool(self.left_store) != bool(self.right_store):
      raise InputError('--left_store and --right_store: both, or neither')
    if self.stores and self.left_store:
      raise InputError('--stores or --left_store and --right_store, not both')
    if self.shape != 'pairs' and not self.folders:
      raise InputError(f'--shape={self.shape} takes --left_store and --right_store')
    if self.shape == 'all' and self.files.input:
      raise InputError('--shape=all takes the stores alone, no --input')

  @property
  def folders(self) -> tuple[str, ...]:
    """Folder of each slot's vectors; none: columns hold texts."""
    return self.stores or tuple(filter(None, (self.left_store, self.right_store)))

  def columns_of(self, slots: Sequence[str]) -> tuple[str, ...]:
    """Column of each slot's ids or texts."""
    default = (self.left_column, self.right_column) if len(slots) == 2 else tuple(slots)
    return self.columns or default

  def handler(self) -> ScorerHandler:
    """What loads the export."""
    return ScorerHandler(self.export_dir, self.runtime, self.threads, self.encoder_runtime)


@dataclasses.dataclass(frozen=True)
class ScoreJob:
  """`jobs.Job`: a unit's scores, as one file.

  Attributes:
    config: The job.
    columns: Column of each slot's ids or texts.
    stores: Each slot's vectors, a whole store; none: columns hold texts.
  """

  config: ScoreConfig
  columns: tuple[str, ...]
  stores: tuple[Buckets, ...] = ()

  def load(self) -> TupleModel:
    stores = [VectorStore(shards.local(of.folder)) for of in self.stores]
    for of, opened in zip(self.stores, stores, strict=True):
      of.check(opened)
    return TupleModel(self.config.handler().load_model(), stores)

  def run(self, unit: Unit, model: TupleModel, shard: Shard) -> int:
    scores = {'pairs': self.pairs, 'candidates': self.candidates, 'all': self.all}
    columns = model.columns
    if self.config.shape != 'pairs':
      columns['rank'] = int
    name = f'scores-{unit.number:05d}.{self.config.output_format}'
    pieces = scores[self.config.shape](unit, model, shard)
    return outputs.write_table(shard, name, columns, pieces)

  def pairs(self, unit: Unit, model: TupleModel, shard: Shard) -> Iterator[tuple]:
    """(each slot's ids, scores of each output) of a table of pairs, or tuples."""
    for sides in self._cells(unit, shard):
      yield model.score(sides, [unit.path] * len(sides[0]), shard.refuse)

  def candidates(self, unit: Unit, model: TupleModel, shard: Shard) -> Iterator[tuple]:
    """(left ids, right ids, scores, ranks) of the best of each row's candidates."""
    left, right = model.stores
    for queries, lists in self._cells(unit, shard):
      for query, text in zip(queries, lists, strict=True):
        row = json.dumps({'left': query, 'right': text})
        try:
          listed = json.loads(text)
          if not isinstance(listed, list) or any(isinstance(of, (list, dict)) for of in listed):
            raise ValueError
          ids = list(dict.fromkeys(map(str, listed)))  # each has one place
          ''.join(ids).encode()  # half of a character, which JSON can escape, is no id's
        except (ValueError, RecursionError):
          shard.refuse(unit.path, 'no JSON list of ids', row)
          continue
        found, (one,) = right.find(ids), left.find([query])
        if one < 0 or (found < 0).any():
          missing = query if one < 0 else ids[int(np.argmin(found))]
          shard.refuse(unit.path, f'no vectors of id {missing!r}', row)
          continue
        (ranked,) = model.scorer.rank(left.vectors([one]), right, self.config.top_k, rows=found)
        yield _ranked(query, ranked, right)

  def all(self, unit: Unit, model: TupleModel, shard: Shard) -> Iterator[tuple]:
    """(left ids, right ids, scores, ranks) of the best of all."""
    del shard
    left, right = model.stores
    for start in range(unit.start, unit.stop, _QUERIES):
      rows = range(start, min(start + _QUERIES, unit.stop))
      vectors = left.vectors(rows)
      ranked = model.scorer.rank(vectors, right, self.config.top_k)
      for query, of_query in zip(left.ids(rows), ranked, strict=True):
        yield _ranked(query, of_query, right)

  def _cells(self, unit: Unit, shard: Shard) -> Iterator[tuple[list[str], ...]]:
    return units.cells(unit, self.columns, _CHUNK, shard.refuse)


def main(config: ScoreConfig, options: Sequence[str]) -> None:
  """Checks that all fits together, then runs the job."""
  if not config.export_dir:
    raise InputError('--export_dir is needed')
  export = shards.local(config.export_dir)
  description = exported.describe(export)
  slots, folders = description['slots'], config.folders
  columns = config.columns_of(slots)
  for name, given in (('columns', columns), ('stores', folders or slots)):
    if len(given) != len(slots):
      raise InputError(
        f'--{name}={",".join(given)}: {len(given)}, and {config.export_dir} scores '
        f'{len(slots)} texts ({", ".join(slots)}): one each'
      )
  if config.shape != 'pairs' and len(slots) != 2:
    raise InputError(
      f'--shape={config.shape} ranks for pairs; {config.export_dir} scores {len(slots)} texts '
      f'({", ".join(slots)}): --shape=pairs'
    )
  if config.shape != 'pairs' and description['outputs'] > 1:
    raise InputError(
      f'--shape={config.shape} ranks by one score; {config.export_dir} gives '
      f'{description["outputs"]} a pair: --shape=pairs'
    )
  parted = [folder for folder in folders if partition.is_partition(folder)]
  if parted and config.shape != 'pairs':
    raise InputError(f'--shape={config.shape}: {parted[0]} is cut into buckets; give a whole store')
  stores = [Buckets.of(folder) for folder in folders]
  for store, side in zip(stores, slots, strict=False):  # or no stores
    if (store.fingerprint, store.side) != (exported.fingerprints(description)[side], side):
      raise InputError(f'{store.folder}: not {side} vectors of {config.export_dir}; encode anew')
  if config.shape == 'all':
    todo = units.of_rows(folders[0], stores[0].rows, config.unit_rows)
  else:
    todo = config.files.units()
    units.check_columns(todo, columns)
  neither = {'threads', 'output', 'max_bad_rows'}  # changes a score
  if not parted:
    neither.add('join_salts')
  if config.shape != 'all':
    neither.add('unit_rows')
  if config.shape == 'pairs':
    neither.add('top_k')
  plan = {
    name: list(value) if isinstance(value, tuple) else value  # as JSON gives it back
    for name, value in flags.flat(config).items()
    if name not in neither
  }
  if config.shape != 'all':
    plan[jobs.FILES] = config.files.state()
  plan['export'] = shards.version(export)  # its fingerprint is that of its encoders alone
  if stores:
    plan['contents of the stores'] = [store.version for store in stores]
  with jobs.alone(config.out):
    if not parted:
      jobs.run(ScoreJob(config, columns, tuple(stores)), todo, config.out, plan, options)
      return
    job = JoinJob(config.handler(), Grid(stores, config.join_salts), columns, config.output_format)
    todo = job.todo(todo)
    jobs.run(job, todo, config.out, plan, options, job.source(todo, config.out.output))


def _ranked(query: str, ranked: Sequence[tuple[int, float]], store: VectorStore) -> tuple:
  rows, scores = [row for row, _ in ranked], [score for _, score in ranked]
  return [query] * len(rows), store.ids(rows), scores, list(range(1, len(rows) + 1))


if __name__ == '__main__':
  from common.pipelines import score  # by the name that workers know it by

  jobs.command(score.main, score.ScoreConfig)
