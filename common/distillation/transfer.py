"""The transfer set of a mined task: unlabelled pairs for the teacher; and the task's datasheet."""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

from common import files, flags
from common.data import record_writer
from common.data.matching import SPLITS
from common.data.records import BLOCKS, RecordSet
from common.data.tuples import Tuples
from common.distillation import blocks, datasheet, mining
from common.distillation.mined_task import MinedTask
from common.distillation.mining import MiningConfig, Pairs
from common.vectors.neighbors import Index
from common.vectors.store import VectorStore

TRANSFER = 'transfer'
_GROUP = 400  # pairs of the whole transfer set that stay together, of neighbouring queries
_TEXTS, _NEAR = 64, 0.75  # of a block of a smaller one: texts a side, share that is near

_EXAMPLES = 3  # rows of each set in the datasheet


def write(config: MiningConfig, data: str, folder: str, seed: int) -> dict[str, Any]:
  """Writes the unlabelled pairs as a record set of the mined items; and the task's datasheet.

  It holds the nearest passages of each training query. If the teacher has no time for so many, it
  holds `transfer_pairs` pairs in blocks. A block joins neighbouring queries with passages that
  match them or are near: many pairs of few texts, and matches among them.

  Args:
    config: The same as for `mine`.
    data: Folder that `mine` wrote.
    folder: The record set's folder; gets `datasheet.json` and `scores.svg` too.
    seed: Seed of the order, and of what is taken.

  Returns:
    The datasheet, as in `datasheet.json`.
  """
  mined = MinedTask.open(data)
  pool = _Pool(
    queries=mined.queries,
    passages=mined.passages,
    numbers=np.flatnonzero(mined.splits == 0),
    known=blocks.partners_of(mined.positives, 0, len(mined.queries)),
    index=Index.of_store(mined.passages, os.path.join(data, mining.INDEX)),
    count=min(config.transfer_per_query, len(mined.passages)),
    rng=np.random.default_rng(seed),
  )
  if config.transfer_pairs:
    group = min(_TEXTS, len(pool.numbers))
    asked = config.transfer_pairs / (count := len(pool.numbers))
    size = group * max(1, min(_TEXTS, round(asked)))
    if not 0.5 <= asked <= _TEXTS + 0.5:
      print(
        f'--transfer_pairs={config.transfer_pairs}: of {count:,} training queries about '
        f'{count * size // group:,} come, 1 to {_TEXTS} a query'
      )
    made = _blocks(pool, group, size)
  else:
    made = _all_near(pool, -(-_GROUP // pool.count))
  histogram, seen = np.zeros(datasheet.BINS, np.int64), np.zeros(len(mined.queries), bool)

  def groups() -> Iterator[Tuples]:
    for pairs in made:
      np.add(histogram, datasheet.counts(pairs.scores), out=histogram)
      seen[pairs.queries] = True
      yield Tuples(pairs.items)

  sets = {split: RecordSet(os.path.join(data, split)) for split in SPLITS}
  tables = record_writer.tables_from(sets['train'], folder)
  count = record_writer.write(folder, groups(), tables, info={BLOCKS: True}).count
  sets[TRANSFER] = RecordSet(folder)
  labelled = files.read_json(os.path.join(data, mining.LABELLED))
  histograms = {**labelled.pop('histograms'), TRANSFER: histogram.tolist()}
  sheet = {
    **labelled,
    'flags': flags.flat(config),
    'seed': seed,
    TRANSFER: {'queries': int(seen.sum()), 'pairs': count},
    **datasheet.describe(sets, mined.similarity),
    'examples': {name: list(mined.rows(records, _EXAMPLES)) for name, records in sets.items()},
    'histograms': histograms,
  }
  datasheet.draw(histograms, sheet['threshold'], os.path.join(folder, datasheet.PICTURE))
  files.write_json(os.path.join(folder, datasheet.SHEET), sheet, sealed=True)
  return sheet


@dataclasses.dataclass(frozen=True)
class _Pool:
  """Training queries, passages and their index, from which the transfer set is taken."""

  queries: VectorStore
  passages: VectorStore
  numbers: np.ndarray  # of the training queries
  known: list[np.ndarray]  # matches of each query
  index: Index
  count: int  # nearest passages of a query
  rng: np.random.Generator

  def order(self, group: int) -> np.ndarray:
    """The training queries, each group of them neighbours, which share passages."""
    vectors = self.queries.vectors(self.numbers)
    return self.numbers[blocks.neighbour_order(vectors, group, self.rng)]


def _all_near(pool: _Pool, group: int) -> Iterator[Pairs]:
  """Every training query with its nearest passages; `group` queries at a time stay together."""
  order = pool.order(group)
  step = max(1, mining.QUERIES // group) * group
  for start in tqdm(range(0, len(order), step), desc=TRANSFER, unit=' blocks'):
    pairs = mining.nearest(order[start : start + step], pool.queries, pool.index, pool.count)
    place = np.zeros(len(pool.queries), np.int64)
    place[order[start : start + step]] = np.arange(len(order[start : start + step])) // group
    ends = np.flatnonzero(np.diff(place[pairs.queries])) + 1
    for rows in np.split(np.arange(len(pairs)), ends):
      yield pairs[rows]


def _blocks(pool: _Pool, group: int, size: int) -> Iterator[Pairs]:
  """Blocks of `size` pairs of `group` queries; each query is in one."""
  order = pool.order(group)
  for start in tqdm(range(0, len(order), group), desc=TRANSFER, unit=' blocks'):
    some = order[start : start + group]
    vectors, known = pool.queries.vectors(some), [pool.known[query] for query in some]
    near = pool.index.search(vectors, pool.count)[1]
    candidates = [np.concatenate(both) for both in zip(known, near, strict=True)]
    chosen = np.array(blocks.in_turn(candidates, _TEXTS))
    similarity = vectors @ pool.passages.vectors(chosen).T
    i, j = blocks.combinations(similarity, chosen, known, size, _NEAR, pool.rng)
    yield Pairs(some[i], chosen[j], similarity[i, j])
