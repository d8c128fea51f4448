"""The transfer set of a mined task: unlabelled pairs for the teacher; and the task's datasheet."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

from common import flags
from common.data.matching import SPLITS
from common.distillation import datasheet, mining, pairing
from common.distillation.mining import MiningConfig
from common.json_files import read_json, write_json
from common.serving import neighbors
from common.serving.vectors import VectorStore

TRANSFER = 'transfer'
MANIFEST = 'manifest.json'
LONG = ('flags', 'examples', 'histograms')  # of the datasheet
_BLOCK = 400  # pairs of the transfer set that stay together, of neighbouring queries


def write(config: MiningConfig, mined: str, folder: str, seed: int) -> dict[str, Any]:
  """Writes the unlabelled `transfer.jsonl`, then the datasheet and its picture.

  Of a query's nearest passages a random part is taken where `transfer_pairs` allows no more: few
  pairs of all queries teach more than all pairs of few.

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
  index, rng = neighbors.open_index(passages, config.index), np.random.default_rng(seed)
  numbers = np.flatnonzero(splits == 0)
  count = min(config.transfer_per_query, len(passages))
  kept = min(count, -(-config.transfer_pairs // len(numbers))) if config.transfer_pairs else count
  group = -(-_BLOCK // kept)  # neighbouring queries, whose passages are shared, in a block
  order = numbers[pairing.neighbour_order(queries.vectors(numbers), group, rng)]
  counts = np.zeros(datasheet.BINS, np.int64)

  def pairs() -> Iterator[dict[str, Any]]:
    for start in tqdm(range(0, len(order), mining.QUERIES), desc=TRANSFER, unit=' blocks'):
      near = mining.nearest(order[start : start + mining.QUERIES], queries, index, count)
      if kept < count:
        chosen = rng.permuted(np.tile(np.arange(count) < kept, [len(near) // count, 1]), axis=1)
        near = near[chosen.ravel()]
      np.add(counts, datasheet.counts(near.scores), out=counts)
      yield from mining.rows(found, near)

  transferred = mining.write(folder, TRANSFER, pairs())
  labelled = read_json(os.path.join(mined, mining.LABELLED))
  histograms = {**labelled.pop('histograms'), TRANSFER: counts.tolist()}
  paths = {split: os.path.join(mined, f'{split}.jsonl') for split in SPLITS}
  paths[TRANSFER] = os.path.join(folder, f'{TRANSFER}.jsonl')
  sheet = {
    **labelled,
    'flags': flags.flat(config),
    'seed': seed,
    TRANSFER: {'queries': len(order), 'pairs': transferred},
    **datasheet.describe(paths, group * kept),
    'histograms': histograms,
  }
  datasheet.draw(histograms, sheet['threshold'], os.path.join(folder, 'scores.svg'))
  write_json(os.path.join(folder, MANIFEST), sheet)
  return sheet


def block_of(path: str) -> dict[str, Any]:
  """Pairs of a mined transfer file that stay together, and their most texts; of another, {}."""
  manifest = os.path.join(os.path.dirname(path), MANIFEST)
  if os.path.basename(path) != f'{TRANSFER}.jsonl' or not os.path.exists(manifest):
    return {}
  return read_json(manifest).get('block', {})
