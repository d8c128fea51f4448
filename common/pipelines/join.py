"""Scores of tuples of ids whose stores no worker can open whole: a join by key, in blocks.

The block of a tuple is (bucket of each slot's id, salt); the salt, a hash of the tuple, spreads the
tuples of an id that is in very many. Ids go through Beam's shuffle, packed: what a chunk of tuples
has of a block is one value. A worker that gets a block opens its buckets, one a slot.

Memory of a worker: a chunk of tuples while it reads; while it scores, the packed ids of one block
and the ids of its buckets (the vectors are memory-mapped).
"""

import dataclasses
import functools
import itertools
import json
import math
import shutil
import time
import weakref
import zlib
from collections.abc import Collection, Iterator, Sequence

import apache_beam as beam
import numpy as np

from common import files
from common.pipelines import jobs, outputs, reading, shards
from common.pipelines.models import ScorerHandler, TupleModel
from common.pipelines.partition import Buckets
from common.pipelines.shards import Shard
from common.pipelines.units import Unit
from common.scoring.scorer import PairScorer
from common.vectors.ids import hashes
from common.vectors.store import VectorStore

_READ = 1 << 18  # tuples read at a time: the more, the fewer and longer the values of a block
_SCORED = 4096  # tuples scored at a time
Piece = tuple[int, int, str, bytes]  # number of the unit, of its chunk; its path; the packed ids


@dataclasses.dataclass(frozen=True)
class Grid:
  """The blocks.

  Attributes:
    sides: Each slot's buckets.
    salts: Blocks of each tuple of buckets.
  """

  sides: Sequence[Buckets]
  salts: int

  @property
  def shape(self) -> tuple[int, ...]:
    """Buckets of each slot, then salts; a block's number counts along these axes."""
    return *(len(side.buckets) for side in self.sides), self.salts

  def blocks(self) -> list[Unit]:
    """A unit for each block; the path says which it is."""
    return [
      Unit(i, f'block {"-".join(map(str, at))}') for i, at in enumerate(np.ndindex(self.shape))
    ]

  def numbers(self, columns: Sequence[Sequence[str]]) -> list[int]:
    """The block of each tuple, ids a slot."""
    joined = list(map('\0'.join, zip(*columns, strict=True)))
    hashed = [hashes(ids) for ids in (*columns, joined)]
    at = [(of % np.uint64(n)).astype(np.int64) for of, n in zip(hashed, self.shape, strict=True)]
    return np.asarray(np.ravel_multi_index(at, self.shape)).tolist()

  def folders(self, block: int) -> list[str]:
    """The buckets of a block, one a slot."""
    *at, _ = np.unravel_index(block, self.shape)
    return [side.buckets[bucket] for side, bucket in zip(self.sides, at, strict=True)]

  def packed(
    self, columns: Sequence[Sequence[str]], wanted: Collection[int]
  ) -> Iterator[tuple[int, bytes]]:
    """(block, what `unpacked` takes) of tuples, ids a slot, for the blocks wanted."""
    found: dict[int, list[tuple[str, ...]]] = {}
    for number, keys in zip(self.numbers(columns), zip(*columns, strict=True), strict=True):
      if number in wanted:
        found.setdefault(number, []).append(keys)
    for number, rows in found.items():
      yield number, zlib.compress(json.dumps(list(zip(*rows, strict=True))).encode(), 1)


@dataclasses.dataclass(frozen=True)
class Block:
  """A block's number, and its tuples."""

  number: int
  pieces: Sequence[Piece]

  def tuples(self) -> Iterator[tuple[str, ...]]:
    """(ids…, path) of each tuple, in the input's order."""
    for _, _, path, packed in sorted(self.pieces):
      for keys in unpacked(packed):
        yield *keys, path


@dataclasses.dataclass(frozen=True)
class JoinJob:
  """`jobs.Job`: a block's scores, as one file; none of an empty block.

  Attributes:
    handler: Loads the scorer.
    grid: The blocks.
    columns: Columns of each slot's ids.
  """

  handler: ScorerHandler
  grid: Grid
  columns: Sequence[str]

  def load(self) -> PairScorer:
    return self.handler.load_model()

  def run(self, block: Block, model: PairScorer, shard: Shard) -> int:
    if not block.pieces:
      return 0
    folders = self.grid.folders(block.number)
    opened = TupleModel(model, list(map(_opened, self.grid.sides, folders)))
    chunks = _chunks(block.tuples())
    scores = (opened.score(ids, where, shard.refuse) for *ids, where in chunks)
    name = f'scores-{block.number:05d}.parquet'
    return outputs.write_table(shard, name, opened.columns, scores)

  def todo(self, pieces: Sequence[Unit]) -> list[Unit]:
    """Units of a run: the blocks, then those of the input, whose shards hold bad rows alone."""
    blocks = self.grid.blocks()
    numbered = enumerate(pieces, len(blocks))
    return blocks + [dataclasses.replace(unit, number=number) for number, unit in numbered]

  def source(self, todo: Sequence[Unit], output: str) -> jobs.Source:
    """Beam source that reads the tuples of the blocks that are left, and makes blocks of them.

    Args:
      todo: Units from `todo`.
      output: Folder of the job's output.
    """
    count = math.prod(self.grid.shape)

    def blocks(pipeline: beam.Pipeline, left: Sequence[Unit]) -> beam.PCollection:
      wanted = frozenset(unit.number for unit in left if unit.number < count)
      unread = [unit for unit in (todo if wanted else left) if unit.number >= count]
      pieces = jobs.spread(pipeline, unread) | beam.ParDo(_Read(self, wanted, output))
      every = pipeline | 'blocks' >> beam.Create([(number, None) for number in sorted(wanted)])
      grouped = (pieces, every) | beam.Flatten() | beam.GroupByKey()  # those without tuples too
      return grouped | beam.MapTuple(lambda number, found: Block(number, list(filter(None, found))))

    return blocks


def unpacked(packed: bytes) -> Iterator[tuple[str, ...]]:
  """The tuples of `Grid.packed`."""
  return zip(*json.loads(zlib.decompress(packed)), strict=True)


class _Read(beam.DoFn):
  """A unit's tuples as (block, piece), of the blocks wanted."""

  def __init__(self, job: JoinJob, wanted: frozenset[int], output: str):
    self.job, self.wanted, self.output = job, wanted, output

  def process(self, unit: Unit):
    started = time.monotonic()
    shard = Shard(self.output, unit.number)
    read = reading.cells(unit, self.job.columns, _READ, shard.refuse)
    for chunk, columns in enumerate(read):
      for number, ids in self.job.grid.packed(columns, self.wanted):
        yield number, (unit.number, chunk, unit.path, ids)
    jobs.finish(shard, 0, started)


def _chunks(rows: Iterator[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], ...]]:
  while chunk := list(itertools.islice(rows, _SCORED)):
    yield tuple(zip(*chunk, strict=True))


@functools.lru_cache(maxsize=4)
def _opened(side: Buckets, folder: str) -> VectorStore:
  """A bucket of a slot; a remote one's copy is removed with it."""
  remote = files.is_remote(folder)
  store = VectorStore(shards.copied(folder) if remote else folder)
  if remote:
    weakref.finalize(store, shutil.rmtree, store.folder, ignore_errors=True)
  side.check(store)
  return store
