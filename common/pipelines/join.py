"""Scores of tuples of ids whose stores no worker can open whole: a join by key, in blocks.

The block of a tuple is (bucket of each slot's id, salt); the salt, a hash of the tuple, spreads the
tuples of an id that is in very many. Ids go through Beam's shuffle, packed: what a chunk of tuples
has of a block is one value. A worker that gets a block opens its buckets, one a slot.

Memory of a worker: a chunk of tuples while it reads; while it scores, the packed ids of one block and
the ids of its buckets (the vectors are memory-mapped).
"""

import dataclasses
import functools
import itertools
import json
import shutil
import time
import weakref
import zlib
from collections.abc import Collection, Iterator, Sequence

import apache_beam as beam

from common.data.texts import hash64
from common.pipelines import jobs, outputs, shards, units
from common.pipelines.models import ScorerHandler, TupleModel
from common.pipelines.partition import Buckets
from common.pipelines.shards import Shard
from common.pipelines.units import Unit
from common.scoring.scorer import PairScorer
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

  def blocks(self) -> list[Unit]:
    """One unit a block; the path says which it is."""
    names = itertools.product(*(range(len(side.buckets)) for side in self.sides), range(self.salts))
    return [Unit(i, f'block {"-".join(map(str, name))}') for i, name in enumerate(names)]

  def block(self, keys: Sequence[str]) -> int:
    """The number of a tuple's block."""
    number = 0
    for side, key in zip(self.sides, keys, strict=True):
      number = number * len(side.buckets) + side.number(key)
    return number * self.salts + hash64('\0'.join(keys)) % self.salts

  def packed(
    self, columns: Sequence[Sequence[str]], wanted: Collection[int]
  ) -> Iterator[tuple[int, bytes]]:
    """(block, what `unpacked` takes) of tuples, ids a slot, for the blocks wanted."""
    found: dict[int, list[tuple[str, ...]]] = {}
    for keys in zip(*columns, strict=True):
      number = self.block(keys)
      if number in wanted:
        found.setdefault(number, []).append(keys)
    for number, rows in found.items():
      yield number, zlib.compress(json.dumps(list(zip(*rows, strict=True))).encode(), 1)

  def folders(self, block: int) -> list[str]:
    """The buckets of a block, one a slot."""
    number, found = block // self.salts, []
    for side in reversed(self.sides):
      number, bucket = divmod(number, len(side.buckets))
      found.append(side.buckets[bucket])
    return found[::-1]


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
    output_format: One of `outputs.FORMATS`.
  """

  handler: ScorerHandler
  grid: Grid
  columns: Sequence[str]
  output_format: str

  def load(self) -> PairScorer:
    return self.handler.load_model()

  def run(self, block: Block, model: PairScorer, shard: Shard) -> int:
    if not block.pieces:
      return 0
    folders = self.grid.folders(block.number)
    opened = TupleModel(model, list(map(_opened, self.grid.sides, folders)))
    name = f'scores-{block.number:05d}.{self.output_format}'
    chunks = _chunks(block.tuples())
    scores = (opened.score(ids, where, shard.refuse) for *ids, where in chunks)
    return outputs.write_table(shard, name, opened.columns, scores)

  def todo(self, pieces: Sequence[Unit]) -> list[Unit]:
    """Units tracked for completion: blocks, then input units, which only have bad rows."""
    blocks = self.grid.blocks()
    numbered = enumerate(pieces, len(blocks))
    return blocks + [dataclasses.replace(unit, number=number) for number, unit in numbered]

  def source(self, todo: Sequence[Unit], output: str) -> jobs.Source:
    """Beam source that reads the tuples of the blocks that are left, and makes blocks of them.

    Args:
      todo: Units from `todo`.
      output: Folder of the job's output.
    """
    count = len(self.grid.blocks())

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
    read = units.cells(unit, self.job.columns, _READ, shard.refuse)
    for chunk, columns in enumerate(read):
      for number, ids in self.job.grid.packed(columns, self.wanted):
        yield number, (unit.number, chunk, unit.path, ids)
    jobs.finish(shard, 0, started)


def _chunks(rows: Iterator[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], ...]]:
  while chunk := list(itertools.islice(rows, _SCORED)):
    yield tuple(zip(*chunk, strict=True))


@functools.lru_cache(maxsize=4)
def _opened(side: Buckets, folder: str) -> VectorStore:
  """One of a slot's buckets; the copy of a remote one goes with it."""
  remote = '://' in folder
  store = VectorStore(shards.copied(folder) if remote else folder)
  if remote:
    weakref.finalize(store, shutil.rmtree, store.folder, ignore_errors=True)
  side.check(store)
  return store
