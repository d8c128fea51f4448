"""The transfer set of a mined task: unlabelled pairs for the teacher; and the task's datasheet."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

from common.data import record_writer
from common.data.matching import SPLITS
from common.data.records import BLOCKS, RecordSet
from common.distillation import blocks, mining
from common.distillation.mining import MinedTask, MiningConfig
from common.evaluation import metrics
from common.vectors.neighbors import Index

TRANSFER = 'transfer'
_GROUP = 400  # pairs of the whole transfer set that stay together, of neighbouring queries


def write(config: MiningConfig, data: str, folder: str, seed: int) -> dict[str, Any]:
  """Writes the unlabelled pairs as a record set of the mined items.

  It holds the nearest passages of each training query. If the teacher has no time for so many, it
  holds `transfer_pairs` pairs in blocks. A block joins neighbouring queries with passages that
  match them or are near: many pairs of few texts, and matches among them.

  Args:
    config: The same as for `mine`.
    data: Folder that `mine` wrote.
    folder: The record set's folder.
    seed: Seed of the order, and of what is taken.

  Returns:
    The task's datasheet: the counts of `mine`, 'transfer': {'queries', 'pairs'}, and
    'similarity_auc_roc': of the similarity alone on test.
  """
  mined, rng = MinedTask.open(data), np.random.default_rng(seed)
  index = mining.index_of(mined.passages, data)
  training = np.flatnonzero(mined.splits == 0)
  nearest = min(config.transfer_per_query, len(mined.passages))
  group = -(-_GROUP // nearest)  # queries that stay together
  if config.transfer_pairs:
    group = min(blocks.TEXTS, len(training))
    asked = config.transfer_pairs / len(training)
    size = group * max(1, min(blocks.TEXTS, round(asked)))
    if not 0.5 <= asked <= blocks.TEXTS + 0.5:
      print(
        f'--transfer_pairs={config.transfer_pairs}: of {len(training):,} training queries about '
        f'{len(training) * size // group:,} come, 1 to {blocks.TEXTS} a query'
      )
  # Neighbouring queries, which share passages, follow one another.
  order = training[blocks.neighbour_order(mined.queries.vectors(training), group, rng)]
  if config.transfer_pairs:
    made = _blocks(mined, index, nearest, order, group, size, rng)
  else:
    made = _all_near(mined, index, nearest, order, group)
  train, test = (RecordSet(os.path.join(data, split)) for split in (SPLITS[0], SPLITS[-1]))
  tables = record_writer.tables_from(train, folder)
  groups = map(mining.tuples_of, made)
  count = record_writer.write(folder, groups, tables, info={BLOCKS: True}).count
  tuples = test.tuples()
  alone = metrics.evaluate('binary', tuples.labels, mined.similarity(tuples.items)[:, None])
  queries = len(np.unique(RecordSet(folder).tuples().items[:, 0]))
  return {
    **train.manifest.info[mining.MINED],
    TRANSFER: {'queries': queries, 'pairs': count},
    'similarity_auc_roc': alone['auc_roc'],
  }


def _all_near(
  mined: MinedTask, index: Index, nearest: int, order: np.ndarray, group: int
) -> Iterator[np.ndarray]:
  """Every training query with its nearest passages; `group` queries at a time stay together."""
  step = max(1, mining.QUERIES // group) * group
  place = np.zeros(len(mined.queries), np.int64)  # a query's group
  place[order] = np.arange(len(order)) // group
  for start in tqdm(range(0, len(order), step), desc=TRANSFER, unit=' blocks'):
    pairs = mining.nearest(order[start : start + step], mined.queries, index, nearest)
    yield from np.split(pairs, np.flatnonzero(np.diff(place[pairs['query']])) + 1)


def _blocks(
  mined: MinedTask,
  index: Index,
  nearest: int,
  order: np.ndarray,
  group: int,
  size: int,
  rng: np.random.Generator,
) -> Iterator[np.ndarray]:
  """Blocks of `size` pairs of `group` queries; each query is in one."""
  known = blocks.partners_of(mined.positives, 0, len(mined.queries))
  for start in tqdm(range(0, len(order), group), desc=TRANSFER, unit=' blocks'):
    some = order[start : start + group]
    vectors, matches = mined.queries.vectors(some), [known[query] for query in some]
    near = index.search(vectors, nearest)[1]
    candidates = [np.concatenate(both) for both in zip(matches, near, strict=True)]
    chosen = np.array(blocks.in_turn(candidates, blocks.TEXTS))
    similarity = vectors @ mined.passages.vectors(chosen).T
    i, j = blocks.combinations(similarity, chosen, matches, size, blocks.NEAR, rng)
    yield mining.pairs_of(some[i], chosen[j], similarity[i, j])


def summary(sheet: dict[str, Any]) -> str:
  """A datasheet in lines of text."""
  lines = [
    f'{sheet["queries"]:,} queries, {sheet["passages"]:,} passages, '
    f'{sheet["known"]["positive"]:,} matches; negatives are below {sheet["threshold"]:.3g}'
  ]
  for split, counts in sheet['splits'].items():
    lines.append(f'{split}: ' + ', '.join(f'{value:,} {name}' for name, value in counts.items()))
  transfer = sheet[TRANSFER]
  lines.append(f'transfer: {transfer["pairs"]:,} pairs of {transfer["queries"]:,} queries')
  alone = sheet['similarity_auc_roc']
  lines.append(f'AUC-ROC of the similarity alone on test: {alone:.3f}')
  if alone < 0.5:
    lines.append(
      'Below 0.5 the negatives lie nearer than the matches. A student trained on them may rank '
      'near passages badly. Try a larger --negatives_from, or a better --embedder.'
    )
  return '\n'.join(lines)
