"""Scores of pairs of any number, on Apache Beam.

  python -m common.pipelines.score --export_dir=runs/p2t/export --runtime=litert-int8 \\
    --left_store=terms --right_store=products --input=pairs-*.parquet --output=scores \\
    --direct_running_mode=multi_processing --direct_num_workers=8 --threads=1

Three shapes. `--shape=pairs`: a table of pairs of ids (of texts, without stores). `--shape=candidates`:
a table of ids, each with its candidates' ids, whose best are kept. `--shape=all`: every text of the
left store with every one of the right, whose best are kept. Stores are memory-mapped by each worker;
what is read of them at a time is a block.
"""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from common import flags
from common.errors import InputError
from common.pipelines import jobs, outputs, shards, units
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.pipelines.models import ScorerHandler
from common.pipelines.shards import Shard
from common.pipelines.units import Unit
from common.serving import runtimes, scorer
from common.serving.scorer import PairScorer
from common.serving.vectors import VectorStore

SHAPES = ('pairs', 'candidates', 'all')
_CHUNK = 4096  # pairs in memory at a time
_BLOCK = 1024  # pairs whose vectors are read at a time: they stay in cache
_QUERIES = 64  # left texts that share the reading of the right store


@dataclasses.dataclass(frozen=True)
class ScoreConfig:
  """Which pairs, by which head."""

  export_dir: str = flags.option('', "a run's export")
  runtime: str = flags.option('litert-int8', 'what runs the head', runtimes.RUNTIMES)
  threads: int = flags.option(0, 'threads of a worker; 0: one a core')
  shape: str = flags.option('pairs', 'pairs, candidates of each left text, or all with all', SHAPES)
  files: FilesConfig = flags.group(FilesConfig)
  left_store: str = flags.option('', 'folder of the left vectors; no stores: columns hold texts')
  right_store: str = flags.option('', 'folder of the right vectors')
  left_column: str = flags.option('left', 'column of the left ids, or texts')
  right_column: str = flags.option(
    'right', 'column of the right ids, or texts; for candidates, of JSON lists of ids'
  )
  top_k: int = flags.option(10, 'best candidates kept of each left text')
  unit_rows: int = flags.option(1024, 'left texts of --shape=all that become one shard')
  output_format: str = flags.option('parquet', 'of the scores', outputs.FORMATS)
  out: OutputConfig = flags.group(OutputConfig)

  def __post_init__(self):
    if bool(self.left_store) != bool(self.right_store):
      raise InputError('--left_store and --right_store: both, or neither')
    if self.shape != 'pairs' and not self.left_store:
      raise InputError(f'--shape={self.shape} takes --left_store and --right_store')
    if self.shape == 'all' and self.files.input:
      raise InputError('--shape=all takes the stores alone, no --input')
    for name in ('top_k', 'unit_rows'):
      if getattr(self, name) <= 0:
        raise InputError(f'--{name}={getattr(self, name)}: must be above 0')


class Model(NamedTuple):
  """What a worker has open."""

  scorer: PairScorer
  left: VectorStore | None
  right: VectorStore | None


@dataclasses.dataclass(frozen=True)
class ScoreJob:
  """`jobs.Job`: a unit's scores, as one file."""

  config: ScoreConfig

  def load(self) -> Model:
    config = self.config
    handler = ScorerHandler(config.export_dir, config.runtime, config.threads)
    stores = (_store(folder) for folder in (config.left_store, config.right_store))
    return Model(handler.load_model(), *stores)

  def run(self, unit: Unit, model: Model, shard: Shard) -> int:
    scores = {'pairs': self.pairs, 'candidates': self.candidates, 'all': self.all}
    columns = {'left': str, 'right': str, 'score': float}
    if self.config.shape != 'pairs':
      columns['rank'] = int
    count = 0
    name = f'scores-{unit.number:05d}.{self.config.output_format}'
    with shard.file(name) as path, outputs.TableWriter(path, columns) as writer:
      for block in scores[self.config.shape](unit, model, shard):
        writer.write(*block)
        count += len(block[0])
    return count

  def pairs(self, unit: Unit, model: Model, shard: Shard) -> Iterator[tuple]:
    """(left ids, right ids, scores) of a table of pairs."""
    for left, right in self._cells(unit, shard):
      if not (model.left and model.right):
        yield left, right, model.scorer.score(left, right)
      else:
        rows = [model.left.find(left), model.right.find(right)]
        known = (rows[0] >= 0) & (rows[1] >= 0)
        for i in np.flatnonzero(~known):
          side, ids = ('left', left) if rows[0][i] < 0 else ('right', right)
          row = json.dumps({'left': left[i], 'right': right[i]})
          shard.refuse(unit.path, f'no {side} vectors of id {ids[i]!r}', row)
        left, right = ([ids[i] for i in np.flatnonzero(known)] for ids in (left, right))
        yield left, right, _scores(model, rows[0][known], rows[1][known])

  def candidates(self, unit: Unit, model: Model, shard: Shard) -> Iterator[tuple]:
    """(left ids, right ids, scores, ranks) of the best of each row's candidates."""
    assert model.left and model.right
    for queries, lists in self._cells(unit, shard):
      for query, text in zip(queries, lists, strict=True):
        row = json.dumps({'left': query, 'right': text})
        try:
          ids = [str(value) for value in json.loads(text)]
        except (ValueError, TypeError):
          shard.refuse(unit.path, 'no JSON list of ids', row)
          continue
        found, (one,) = model.right.find(ids), model.left.find([query])
        if one < 0 or (found < 0).any():
          missing = query if one < 0 else ids[int(np.argmin(found))]
          shard.refuse(unit.path, f'no vectors of id {missing!r}', row)
          continue
        vectors = model.left.vectors([one])[0]
        ranked = model.scorer.rank(vectors, model.right, self.config.top_k, rows=found)
        yield _ranked(query, ranked, model.right)

  def all(self, unit: Unit, model: Model, shard: Shard) -> Iterator[tuple]:
    """(left ids, right ids, scores, ranks) of the best of all."""
    del shard
    assert model.left and model.right
    for start in range(unit.start, unit.stop, _QUERIES):
      rows = range(start, min(start + _QUERIES, unit.stop))
      vectors = model.left.vectors(rows)
      ranked = model.scorer.rank(vectors, model.right, self.config.top_k)
      for query, of_query in zip(model.left.ids(rows), ranked, strict=True):
        yield _ranked(query, of_query, model.right)

  def _cells(self, unit: Unit, shard: Shard) -> Iterator[tuple[list[str], ...]]:
    columns = (self.config.left_column, self.config.right_column)
    return units.read_cells(unit, columns, _CHUNK, shard.refuse)


def main(config: ScoreConfig, options: Sequence[str]) -> None:
  """Checks that all fits together, then runs the job."""
  description = scorer.describe(shards.local(config.export_dir))
  stores = [_store(folder) for folder in (config.left_store, config.right_store)]
  for store, side in zip(stores, description['slots'], strict=True):
    if store and (store.fingerprint, store.side) != (description['fingerprint'], side):
      raise InputError(f'{store.folder}: not {side} vectors of {config.export_dir}; encode anew')
  if config.shape == 'all':
    assert stores[0]
    todo = units.of_rows(config.left_store, len(stores[0]), config.unit_rows)
  else:
    todo = config.files.units()
    units.check_columns(todo[0], (config.left_column, config.right_column))
  del stores
  neither = {'threads', 'output', 'max_bad_rows'}  # changes a score
  plan = {name: value for name, value in flags.flat(config).items() if name not in neither}
  plan = {**plan, 'input': list(plan['input']), 'export': description['fingerprint']}
  jobs.run(ScoreJob(config), todo, config.out, plan, options)


def _store(folder: str) -> VectorStore | None:
  return VectorStore(shards.local(folder)) if folder else None


def _scores(model: Model, lefts: np.ndarray, rights: np.ndarray) -> np.ndarray:
  """Scores of pairs of the stores' rows."""
  assert model.left and model.right
  scores = []
  for start in range(0, max(1, len(lefts)), _BLOCK):
    block = slice(start, start + _BLOCK)
    vectors = model.left.vectors(lefts[block]), model.right.vectors(rights[block])
    scores.append(model.scorer.score(*vectors))
  return np.concatenate(scores)


def _ranked(query: str, ranked: Sequence[tuple[int, float]], store: VectorStore) -> tuple:
  rows, scores = [row for row, _ in ranked], [score for _, score in ranked]
  return [query] * len(rows), store.ids(rows), scores, list(range(1, len(rows) + 1))


if __name__ == '__main__':
  from common.pipelines import score  # by the name that workers know it by

  jobs.command(score.ScoreConfig, score.main)
