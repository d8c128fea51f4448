"""Scores of pairs, or tuples, of any number, on Apache Beam.

  python -m common.pipelines.score --export_dir=runs/p2t/export --runtime=litert-int8 \\
    --stores=terms,products --input=pairs-*.parquet --output=scores \\
    --direct_running_mode=multi_processing --direct_num_workers=8 --threads=1

There are three shapes. `--shape=pairs`: a table of pairs of ids (of texts, without stores).
`--shape=candidates`: a table of ids, each with its candidates' ids; the best are kept.
`--shape=all`: every text of the left store with every one of the right; the best are kept.

Each worker maps the stores into memory. Stores that are too large for that are joined to the pairs
by id (`--join`, `join.py`).

`--stores` and `--columns` are in the order of the student's slots: left, right for pairs. A student
of three texts or more takes `--shape=pairs`.
"""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from common import flags
from common.errors import InputError
from common.pipelines import files, jobs, parquet, reading, shards, units
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.pipelines.join import JoinJob
from common.pipelines.models import ScorerHandler, Store, TupleModel
from common.pipelines.shards import Shard
from common.pipelines.units import Unit
from common.scoring import exported, runtimes
from common.vectors.store import VectorStore

SHAPES = ('pairs', 'candidates', 'all')
_CHUNK = 4096  # tuples in memory at a time
_QUERIES = 64  # left texts that share the reading of the right store
_FREE = ('threads', 'output', 'max_bad_rows')  # flags that no score depends on


@dataclasses.dataclass(frozen=True)
class ScoreConfig:
  """Pairs to score, and the head for it."""

  export_dir: str = flags.option('', "a run's export")
  runtime: str = flags.option('litert-int8', 'runtime of the head', tuple(runtimes.RUNTIMES))
  threads: int = flags.option(
    0, 'threads of a worker; 0: one a core, of LiteRT 16 at the most', bounds=(0, 1024)
  )
  shape: str = flags.option('pairs', 'pairs, candidates of each left text, or all with all', SHAPES)
  files: FilesConfig = flags.group(FilesConfig, heading='input')
  stores: tuple[str, ...] = flags.option(
    (), "folder of each slot's vectors; empty: the columns hold texts"
  )
  columns: tuple[str, ...] = flags.option(
    (),
    "column of each slot's ids, or texts; for candidates the right one holds JSON lists of ids; "
    "empty: the slots' names, left,right for pairs",
  )
  top_k: int = flags.option(10, 'best candidates kept of each left text', bounds=(1, 10**6))
  unit_rows: int = flags.option(
    1024, 'left texts of --shape=all that become one shard', bounds=(1, 10**9)
  )
  join: bool = flags.option(
    False, 'bring the vectors to the pairs by a join, for stores that no worker can hold'
  )
  encoder_runtime: str = flags.option(
    'litert-int8', 'runtime of the encoders, for texts', tuple(runtimes.RUNTIMES)
  )
  out: OutputConfig = flags.group(OutputConfig, heading='output')

  def __post_init__(self):
    if self.shape != 'pairs' and not self.stores:
      raise InputError(f'--shape={self.shape} takes --stores')
    if self.shape == 'all' and self.files.input:
      raise InputError('--shape=all takes the stores alone, no --input')
    if self.join and (self.shape != 'pairs' or not self.stores):
      raise InputError('--join takes --shape=pairs and --stores')


@dataclasses.dataclass(frozen=True)
class ScoreJob:
  """`jobs.Job`: a unit's scores, as one file.

  Attributes:
    config: The job.
    columns: Column of each slot's ids or texts.
    stores: Each slot's vectors; none: columns hold texts, or a join brings them.
  """

  config: ScoreConfig
  columns: tuple[str, ...]
  stores: tuple[Store, ...] = ()

  def load(self) -> TupleModel:
    config, stores = self.config, [store.open() for store in self.stores]
    handler = ScorerHandler(
      config.export_dir, config.runtime, config.threads, config.encoder_runtime
    )
    return TupleModel(handler.load_model(), stores)

  def run(self, unit: Unit, model: TupleModel, shard: Shard) -> int:
    scores = {'pairs': self.pairs, 'candidates': self.candidates, 'all': self.all}
    columns = model.columns
    if self.config.shape != 'pairs':
      columns['rank'] = int
    pieces = scores[self.config.shape](unit, model, shard)
    with shard.file(f'scores-{unit.number:05d}.parquet') as file:
      file.count = parquet.write(file.path, columns, pieces)
    return file.count

  def pairs(self, unit: Unit, model: TupleModel, shard: Shard) -> Iterator[tuple]:
    """(each slot's ids, scores of each output) of a table of pairs, or tuples."""
    for sides in self._cells(unit, shard):
      yield model.score(sides, unit.path, shard.refuse)

  def candidates(self, unit: Unit, model: TupleModel, shard: Shard) -> Iterator[tuple]:
    """(left ids, right ids, scores, ranks) of the best of each row's candidates."""
    left, right = model.stores
    for queries, lists in self._cells(unit, shard):
      for query, text, one in zip(queries, lists, left.find(queries), strict=True):
        try:
          ids = _listed(text)
          found = right.find(ids)
          if one < 0 or (found < 0).any():
            missing = query if one < 0 else ids[int(np.argmin(found))]
            raise InputError(f'no vectors of id {missing!r}')
        except InputError as error:
          shard.refuse(unit.path, str(error), json.dumps({'left': query, 'right': text}))
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
    return reading.cells(unit, self.columns, _CHUNK, shard.refuse)


def main(config: ScoreConfig, options: Sequence[str]) -> None:
  """Checks that all fits together, then runs the job."""
  if not config.export_dir:
    raise InputError('--export_dir is needed')
  export = files.local(config.export_dir)
  description = exported.describe(export)
  columns = config.columns or tuple(description['slots'])
  _check_shape(config, columns, description)
  stores = _stores(config, description)
  if config.shape == 'all':
    rows = sum(shard.rows for shard in stores[0].manifest.shards)
    todo = units.of_rows(config.stores[0], rows, config.unit_rows)
  else:
    todo = config.files.units()
    reading.check_columns(todo, columns)
  plan = {
    **{name: value for name, value in flags.flat(config).items() if name not in _FREE},
    'export': files.version(export),  # its fingerprint is that of its encoders alone
    'contents of the stores': [store.version for store in stores],
  }
  with shards.alone(config.out.output):
    if config.join:
      job = JoinJob(ScoreJob(config, columns), columns, stores)
      jobs.run(job, todo, config.out, plan, options, job.source)
    else:
      jobs.run(ScoreJob(config, columns, stores), todo, config.out, plan, options)


def _check_shape(config: ScoreConfig, columns: Sequence[str], description: dict[str, Any]) -> None:
  """Refuses flags that do not fit the export: a column and a store a slot; ranks are of pairs."""
  slots, outputs_of = description['slots'], description['outputs']
  for name, given in (('columns', columns), ('stores', config.stores or slots)):
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
  if config.shape != 'pairs' and outputs_of > 1:
    raise InputError(
      f'--shape={config.shape} ranks by one score; {config.export_dir} gives '
      f'{outputs_of} a pair: --shape=pairs'
    )


def _stores(config: ScoreConfig, description: dict[str, Any]) -> tuple[Store, ...]:
  """Each slot's store; refuses vectors of another export or another slot."""
  stores = tuple(map(Store.of, config.stores))
  fingerprints = exported.fingerprints(description)
  for store, side in zip(stores, description['slots'], strict=False):  # or no stores
    vectors = store.manifest.vectors
    if (vectors.fingerprint, vectors.side) != (fingerprints[side], side):
      raise InputError(f'{store.folder}: not {side} vectors of {config.export_dir}; encode anew')
  return stores


def _listed(text: str) -> list[str]:
  """The ids of a JSON list, each once; refuses other JSON."""
  try:
    listed = json.loads(text)
    if not isinstance(listed, list) or any(isinstance(of, (list, dict)) for of in listed):
      raise ValueError
    ids = list(dict.fromkeys(map(str, listed)))
    ''.join(ids).encode()  # half of a character, which JSON can escape, is no id's
  except (ValueError, RecursionError) as error:
    raise InputError('no JSON list of ids') from error
  return ids


def _ranked(query: str, ranked: Sequence[tuple[int, float]], store: VectorStore) -> tuple:
  rows, scores = [row for row, _ in ranked], [score for _, score in ranked]
  return [query] * len(rows), store.ids(rows), scores, list(range(1, len(rows) + 1))


if __name__ == '__main__':
  from common.pipelines import score  # by the name that workers know it by

  jobs.command(score.main, score.ScoreConfig)
