"""The transfer set of a mined task: unlabelled pairs for the teacher; and the task's datasheet."""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

from common import flags
from common.data.matching import SPLITS
from common.distillation import datasheet, mining, pairing
from common.distillation.mining import MiningConfig, Pairs
from common.json_files import read_json, write_json
from common.serving import neighbors
from common.serving.vectors import VectorStore

TRANSFER = 'transfer'
MANIFEST = 'manifest.json'
LONG = ('flags', 'examples', 'histograms')  # of the datasheet
_BLOCK = 400  # pairs of the whole transfer set that stay together, of neighbouring queries
_TEXTS, _NEAR = 64, 0.75  # of a block of a smaller one: texts a side, share that is near


def write(config: MiningConfig, mined: str, folder: str, seed: int) -> dict[str, Any]:
  """Writes the unlabelled `transfer.jsonl`, then the datasheet and its picture.

  It holds the nearest passages of each training query; or, where there are more of these than the
  teacher has time for, `transfer_pairs` pairs in blocks, each of neighbouring queries and of passages
  that match them or are near: many pairs of few texts, and matches among them.

  Args:
    config: As for `mine`.
    mined: Folder that `mine` wrote.
    folder: Of the output; it may be the same.
    seed: Of the order, and of what is taken.

  Returns:
    The datasheet, as in `manifest.json`.
  """
  found, splits = mining.read(config)
  queries, passages = (
    VectorStore(os.path.join(mined, mining.VECTORS, s)) for s in ('left', 'right')
  )
  task = _Task(
    queries=queries,
    passages=passages,
    numbers=np.flatnonzero(splits == 0),
    known=pairing.partners_of(found.positives, 0, len(queries)),
    index=neighbors.open_index(passages, config.index),
    count=min(config.transfer_per_query, len(passages)),
    rng=np.random.default_rng(seed),
  )
  if config.transfer_pairs:
    group = min(_TEXTS, len(task.numbers))
    size = group * max(1, min(_TEXTS, round(config.transfer_pairs / len(task.numbers))))
    made = _blocks(task, group, size)
  else:
    group = -(-_BLOCK // task.count)
    size, made = group * task.count, _all_near(task, group)
  histogram, seen = np.zeros(datasheet.BINS, np.int64), np.zeros(len(queries), bool)

  def rows() -> Iterator[dict[str, Any]]:
    for pairs in made:
      np.add(histogram, datasheet.counts(pairs.scores), out=histogram)
      seen[pairs.queries] = True
      yield from mining.rows(found, pairs)

  transferred = mining.write(folder, TRANSFER, rows())
  labelled = read_json(os.path.join(mined, mining.LABELLED))
  histograms = {**labelled.pop('histograms'), TRANSFER: histogram.tolist()}
  paths = {split: os.path.join(mined, f'{split}.jsonl') for split in SPLITS}
  paths[TRANSFER] = os.path.join(folder, f'{TRANSFER}.jsonl')
  sheet = {
    **labelled,
    'flags': flags.flat(config),
    'seed': seed,
    TRANSFER: {'queries': int(seen.sum()), 'pairs': transferred},
    **datasheet.describe(paths, size),
    'histograms': histograms,
  }
  datasheet.draw(histograms, sheet['threshold'], os.path.join(folder, 'scores.svg'))
  write_json(os.path.join(folder, MANIFEST), sheet)
  return sheet


@dataclasses.dataclass(frozen=True)
class _Task:
  """What the transfer set is taken from."""

  queries: VectorStore
  passages: VectorStore
  numbers: np.ndarray  # of the training queries
  known: list[np.ndarray]  # matches of each query
  index: neighbors.Index
  count: int  # nearest passages of a query
  rng: np.random.Generator

  def order(self, group: int) -> np.ndarray:
    """The training queries, each group of them neighbours, which share passages."""
    vectors = self.queries.vectors(self.numbers)
    return self.numbers[pairing.neighbour_order(vectors, group, self.rng)]


def _all_near(task: _Task, group: int) -> Iterator[Pairs]:
  """Every training query with its nearest passages."""
  order = task.order(group)
  for start in tqdm(range(0, len(order), mining.QUERIES), desc=TRANSFER, unit=' blocks'):
    some = order[start : start + mining.QUERIES]
    yield mining.nearest(some, task.queries, task.index, task.count)


def _blocks(task: _Task, group: int, size: int) -> Iterator[Pairs]:
  """Blocks of `size` pairs of `group` queries; each query is in one."""
  order = task.order(group)
  for start in tqdm(range(0, len(order), group), desc=TRANSFER, unit=' blocks'):
    some = order[start : start + group]
    vectors, known = task.queries.vectors(some), [task.known[query] for query in some]
    near = task.index.search(vectors, task.count)[1]
    candidates = [np.concatenate(both) for both in zip(known, near, strict=True)]
    chosen = np.array(pairing.in_turn(candidates, _TEXTS))
    similarity = vectors @ task.passages.vectors(chosen).T
    i, j = pairing.combinations(similarity, chosen, known, size, _NEAR, task.rng)
    yield Pairs(some[i], chosen[j], similarity[i, j])


def block_of(path: str) -> dict[str, Any]:
  """Pairs of a mined transfer file that stay together, and their most texts; of another, {}."""
  manifest = os.path.join(os.path.dirname(path), MANIFEST)
  if os.path.basename(path) != f'{TRANSFER}.jsonl' or not os.path.exists(manifest):
    return {}
  return read_json(manifest).get('block', {})
