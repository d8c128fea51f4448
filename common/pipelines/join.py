"""Scores of pairs of ids whose stores no worker can open whole: a join by key, in blocks.

The block of a pair is (bucket of the left id, bucket of the right id, salt); the salt, a hash of the
pair, spreads the pairs of an id that is in very many. Ids go through Beam's shuffle, packed: what a
chunk of pairs has of a block is one value. A worker that gets a block opens its two buckets.

Memory of a worker: a chunk of pairs while it reads; while it scores, the packed ids of one block and
the ids of its two buckets (the vectors are memory-mapped).
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

from common.data.tables import hash64
from common.pipelines import jobs, outputs, shards, units
from common.pipelines.models import PairModel, ScorerHandler
from common.pipelines.partition import Buckets
from common.pipelines.shards import Shard
from common.pipelines.units import Unit
from common.scoring.scorer import PairScorer
from common.vectors.store import VectorStore

_READ = 1 << 18  # pairs read at a time: the more, the fewer and longer the values of a block
_SCORED = 4096  # pairs scored at a time
Piece = tuple[int, int, str, bytes]  # number of the unit, of its chunk; its path; the packed ids


@dataclasses.dataclass(frozen=True)
class Grid:
  """The blocks.

  Attributes:
    left: Buckets of the left side.
    right: Buckets of the right side.
    salts: Blocks of each pair of buckets.
  """

  left: Buckets
  right: Buckets
  salts: int

  def blocks(self) -> list[Unit]:
    """One unit a block; the path says which it is."""
    counts = (len(self.left.buckets), len(self.right.buckets), self.salts)
    names = itertools.product(*map(range, counts))
    return [Unit(number, 'block {}-{}-{}'.format(*name)) for number, name in enumerate(names)]

  def block(self, left: str, right: str) -> int:
    """The number of a pair's block."""
    number = self.left.number(left) * len(self.right.buckets) + self.right.number(right)
    return number * self.salts + hash64(f'{left}\0{right}') % self.salts

  def packed(
    self, left: Sequence[str], right: Sequence[str], wanted: Collection[int]
  ) -> Iterator[tuple[int, bytes]]:
    """(block, what `unpacked` takes) of pairs, for the blocks wanted."""
    found: dict[int, tuple[list[str], list[str]]] = {}
    for pair in zip(left, right, strict=True):
      number = self.block(*pair)
      if number in wanted:
        for ids, key in zip(found.setdefault(number, ([], [])), pair, strict=True):
          ids.append(key)
    for number, sides in found.items():
      yield number, zlib.compress(json.dumps(sides).encode(), 1)

  def folders(self, block: int) -> tuple[str, str]:
    """The two buckets of a block."""
    left, right = divmod(block // self.salts, len(self.right.buckets))
    return self.left.buckets[left], self.right.buckets[right]


@dataclasses.dataclass(frozen=True)
class Block:
  """A block's number, and its pairs."""

  number: int
  pieces: Sequence[Piece]

  def pairs(self) -> Iterator[tuple[str, str, str]]:
    """(left, right, path) of each pair, in the input's order."""
    for _, _, path, packed in sorted(self.pieces):
      for left, right in unpacked(packed):
        yield left, right, path


@dataclasses.dataclass(frozen=True)
class JoinJob:
  """`jobs.Job`: a block's scores, as one file; none of an empty block.

  Attributes:
    handler: Loads the scorer.
    grid: The blocks.
    columns: Columns of the left and the right ids.
    output_format: One of `outputs.FORMATS`.
  """

  handler: ScorerHandler
  grid: Grid
  columns: tuple[str, str]
  output_format: str

  def load(self) -> PairScorer:
    return self.handler.load_model()

  def run(self, block: Block, model: PairScorer, shard: Shard) -> int:
    if not block.pieces:
      return 0
    opened = PairModel(model, *map(_opened, self.grid.folders(block.number)))
    name = f'scores-{block.number:05d}.{self.output_format}'
    chunks = _chunks(block.pairs())
    scores = (opened.score(left, right, where, shard.refuse) for left, right, where in chunks)
    return outputs.write_table(shard, name, opened.columns, scores)

  def todo(self, pieces: Sequence[Unit]) -> list[Unit]:
    """Units tracked for completion: blocks, then input units, which only have bad rows."""
    blocks = self.grid.blocks()
    numbered = enumerate(pieces, len(blocks))
    return blocks + [dataclasses.replace(unit, number=number) for number, unit in numbered]

  def source(self, todo: Sequence[Unit], output: str) -> jobs.Source:
    """Beam source that reads the pairs of the blocks that are left, and makes blocks of them.

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
      grouped = (pieces, every) | beam.Flatten() | beam.GroupByKey()  # those without pairs too
      return grouped | beam.MapTuple(lambda number, found: Block(number, list(filter(None, found))))

    return blocks


def unpacked(packed: bytes) -> Iterator[tuple[str, str]]:
  """The pairs of `Grid.packed`."""
  return zip(*json.loads(zlib.decompress(packed)), strict=True)


class _Read(beam.DoFn):
  """A unit's pairs as (block, piece), of the blocks wanted."""

  def __init__(self, job: JoinJob, wanted: frozenset[int], output: str):
    self.job, self.wanted, self.output = job, wanted, output

  def process(self, unit: Unit):
    started = time.monotonic()
    shard = Shard(self.output, unit.number)
    read = units.cells(unit, self.job.columns, _READ, shard.refuse)
    for chunk, (left, right) in enumerate(read):
      for number, ids in self.job.grid.packed(left, right, self.wanted):
        yield number, (unit.number, chunk, unit.path, ids)
    jobs.finish(shard, 0, started)


def _chunks(rows: Iterator[tuple[str, str, str]]) -> Iterator[tuple[tuple[str, ...], ...]]:
  while chunk := list(itertools.islice(rows, _SCORED)):
    yield tuple(zip(*chunk, strict=True))


@functools.lru_cache(maxsize=4)
def _opened(folder: str) -> VectorStore:
  """A bucket; the copy of a remote one goes with it."""
  if '://' not in folder:
    return VectorStore(folder)
  copy = shards.copied(folder)
  store = VectorStore(copy)
  weakref.finalize(store, shutil.rmtree, copy, ignore_errors=True)
  return store
