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
_TEXTS, _PAIRS, _NEAR = 64, 256, 0.75  # of a block: texts a side, pairs, share that is near


def write(config: MiningConfig, mined: str, folder: str, seed: int) -> dict[str, Any]:
  """Writes the unlabelled `transfer.jsonl`, then the datasheet and its picture.

  It holds the nearest passages of each training query; or, where there are more of these than the
  teacher has time for, `transfer_pairs` pairs in blocks of neighbouring queries and of passages that
  match them or are near: many pairs of few texts, a match for most queries.

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
    known=pairing.partners_of(found.positives, 0, len(queries)),
    queries=queries,
    passages=passages,
    index=neighbors.open_index(passages, config.index),
    numbers=np.flatnonzero(splits == 0),
    count=min(config.transfer_per_query, len(passages)),
    rng=np.random.default_rng(seed),
  )
  group = -(-_BLOCK // task.count)  # neighbouring queries, whose passages are shared, in a block
  blocks = _all_near(task, group)
  if config.transfer_pairs:
    blocks = _in_blocks(task, -(-config.transfer_pairs // _PAIRS))
  histogram, seen = np.zeros(datasheet.BINS, np.int64), np.zeros(len(queries), bool)

  def rows() -> Iterator[dict[str, Any]]:
    for pairs in blocks:
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
    **datasheet.describe(paths, _PAIRS if config.transfer_pairs else group * task.count),
    'histograms': histograms,
  }
  datasheet.draw(histograms, sheet['threshold'], os.path.join(folder, 'scores.svg'))
  write_json(os.path.join(folder, MANIFEST), sheet)
  return sheet


@dataclasses.dataclass(frozen=True)
class _Task:
  """What the transfer set is taken from."""

  known: list[np.ndarray]  # matches of each query
  queries: VectorStore
  passages: VectorStore
  index: neighbors.Index
  numbers: np.ndarray  # of the training queries
  count: int  # nearest passages of a query
  rng: np.random.Generator


def _all_near(task: _Task, group: int) -> Iterator[Pairs]:
  """Every training query with its nearest passages, neighbouring queries together."""
  vectors = task.queries.vectors(task.numbers)
  order = task.numbers[pairing.neighbour_order(vectors, group, task.rng)]
  for start in tqdm(range(0, len(order), mining.QUERIES), desc=TRANSFER, unit=' blocks'):
    some = order[start : start + mining.QUERIES]
    yield mining.nearest(some, task.queries, task.index, task.count)


def _in_blocks(task: _Task, blocks: int) -> Iterator[Pairs]:
  """Blocks of neighbouring queries, each with `_PAIRS` pairs where there are as many."""
  vectors = task.queries.vectors(task.numbers)
  groups = pairing.endless_groups(vectors, min(_TEXTS, len(vectors)), task.rng)
  for _ in tqdm(range(blocks), desc=TRANSFER, unit=' blocks'):
    group = next(groups)
    rows = task.index.search(vectors[group], task.count)[1]
    known = [task.known[query] for query in task.numbers[group]]
    candidates = [np.concatenate(both) for both in zip(known, rows, strict=True)]
    chosen = np.array(pairing.in_turn(candidates, _TEXTS))
    similarity = vectors[group] @ task.passages.vectors(chosen).T
    matches = np.array([np.isin(chosen, some) for some in known])
    i, j = pairing.combinations(similarity, matches, _PAIRS, _NEAR, task.rng)
    yield Pairs(task.numbers[group][i], chosen[j], similarity[i, j])


def block_of(path: str) -> dict[str, Any]:
  """Pairs of a mined transfer file that stay together, and their most texts; of another, {}."""
  manifest = os.path.join(os.path.dirname(path), MANIFEST)
  if os.path.basename(path) != f'{TRANSFER}.jsonl' or not os.path.exists(manifest):
    return {}
  return read_json(manifest).get('block', {})
