"""A binary matching task from queries, passages and the pairs known to match (Appendix B).

Both sides are embedded; a query's nearest passages give its hard negatives (from the nearest 30,
those scored below a threshold, never a known positive; about as many as the positives) and the
transfer set (the nearest 50, whatever they are). Splits are by query. All that is random depends on
the seed, all else on the texts alone.
"""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from common import files, flags
from common.data import matching, record_writer
from common.data.items import ItemWriter
from common.data.matching import SPLITS, Matching
from common.data.records import Manifest
from common.data.tuples import Tuples
from common.distillation import datasheet, embedders
from common.errors import InputError
from common.vectors import manifest
from common.vectors.neighbors import Index
from common.vectors.store import VectorStore
from common.vectors.writer import VectorWriter

COLUMNS = ('query', 'passage')
QUERIES = 4096  # searched at a time
LABELLED, KNOWN, VECTORS = 'labelled.json', 'known.npz', 'vectors'
INDEX = f'{VECTORS}/right.faiss'  # of the passages
_GROUP = 64  # labelled pairs of neighbouring queries that stay together


@dataclasses.dataclass(frozen=True)
class MiningConfig:
  """Mining flags: source, embedder, thresholds."""

  mine_from: str = flags.option(
    '',
    'known matches to mine a task from: a folder of MS MARCO, BEIR or WANDS, or a table of '
    'questions with their answers',
  )
  query_column: str = flags.option('question', "column of the questions, in --mine_from's table")
  passage_column: str = flags.option('answer', "column of the answers, in --mine_from's table")
  embedder: str = flags.option(
    'minilm',
    "model that measures how near texts are: a run's export, a SavedModel or its hub URL, or a "
    'checkpoint',
  )
  negatives_from: int = flags.option(
    30, "number of nearest passages to draw a query's negatives from", bounds=(1, 10**6)
  )
  negative_threshold: float = flags.option(
    0.53,
    "negatives have an inner product below this (the default is the paper's for "
    'universal-sentence-encoder-qa)',
    bounds=(-(10**6), 10**6),
  )
  negative_quantile: float = flags.option(
    0.0,
    'above 0: this quantile over the nearest passages of the training queries replaces '
    '--negative_threshold',
    bounds=(0, 0.9999),
  )
  transfer_per_query: int = flags.option(
    50, 'nearest passages of each query in the transfer set', bounds=(1, 10**6)
  )
  transfer_pairs: int = flags.option(
    0,
    'approximate pairs of the transfer set, 1 to 64 a query, in blocks that share texts and hold '
    'matches; 0: all nearest passages (--transfer_per_query)',
    bounds=(0, 10**12),
  )
  split_shares: tuple[float, ...] = flags.option(
    (0.8, 0.1, 0.1),
    'shares of train, valid and test, for a lone --train_file and for mined matches without a '
    'training split of their own',
    bounds=(1e-6, 1),
  )

  def __post_init__(self):
    if len(self.split_shares) != 3 or abs(sum(self.split_shares) - 1) > 0.001:
      raise InputError(f'--split_shares={self.split_shares}: three shares that add up to 1')

  def labelled_flags(self) -> dict[str, Any]:
    """Flags that the labelled sets depend on."""
    return {n: v for n, v in flags.flat(self).items() if not n.startswith('transfer_')}

  def transfer_flags(self) -> dict[str, Any]:
    """Flags that the transfer set depends on, beside them."""
    return {n: v for n, v in flags.flat(self).items() if n.startswith('transfer_')}


@dataclasses.dataclass(frozen=True)
class Pairs:
  """Pairs by number, with their inner products: [n] each."""

  queries: np.ndarray
  passages: np.ndarray
  scores: np.ndarray

  def __len__(self) -> int:
    return len(self.queries)

  def __getitem__(self, kept: np.ndarray | slice) -> 'Pairs':
    return Pairs(self.queries[kept], self.passages[kept], self.scores[kept])

  @property
  def items(self) -> np.ndarray:
    """[n, 2] int32."""
    return np.stack([self.queries, self.passages], 1).astype(np.int32)


def mine(
  config: MiningConfig, folder: str, seed: int, encoding: str = 'utf-8'
) -> dict[str, Manifest]:
  """Writes the labelled record sets `train`, `valid` and `test`, and the vectors of all texts.

  Every query and passage is an item, numbered as in the source. `labelled.json` is the labelled
  half of the datasheet; `known.npz` holds the matches and the queries' splits.

  Args:
    config: Sources and measures.
    folder: The output's folder; what was embedded there before is not embedded again.
    seed: Seed of the negatives drawn.
    encoding: Encoding of a table of questions with their answers.

  Returns:
    The sets' manifests.

  Raises:
    InputError: If the source cannot be read, a split has no positives (both before anything is
      embedded), or a split has no negatives.
  """
  columns = config.query_column, config.passage_column
  found = matching.read(config.mine_from, *columns, encoding)
  splits = found.splits(*config.split_shares[:2])
  found.check(splits, config.mine_from)
  embedder = embedders.load(config.embedder)
  queries, passages = (
    _embedded(embedder, texts, side, os.path.join(folder, VECTORS, side))
    for texts, side in ((found.queries, 'left'), (found.passages, 'right'))
  )
  positives = _scored(found.positives, queries, passages)
  index = Index.of_store(passages, os.path.join(folder, INDEX))
  near = _negatives_of(config, found, positives, queries, index)
  threshold = config.negative_threshold
  if config.negative_quantile:
    of_train = near.scores[splits[near.queries] == 0]
    threshold = float(np.quantile(of_train, config.negative_quantile)) if len(of_train) else 0.0
  negatives, rng = near[near.scores < threshold], np.random.default_rng(seed)
  labelled = {
    split: _labelled(split, positives, negatives, splits == number, threshold, rng)
    for number, split in enumerate(SPLITS)
  }
  drawn = [of_split.scores[labels == 0] for of_split, labels in labelled.values()]
  scores = {'positive': positives.scores, 'nearest': near.scores}
  scores['negative'] = np.concatenate(drawn)
  sheet = {
    'source': config.mine_from,
    'embedder': embedder.fingerprint,
    'queries': len(found.queries),
    'passages': len(found.passages),
    'known': {'positive': len(positives), 'related': len(found.related)},
    'threshold': threshold,
    'splits': {
      split: {
        'queries': len(np.unique(pairs.queries)),
        'positive': int(labels.sum()),
        'negative': int((labels == 0).sum()),
      }
      for split, (pairs, labels) in labelled.items()
    },
    'histograms': {name: datasheet.histogram(values) for name, values in scores.items()},
  }
  files.write_json(os.path.join(folder, LABELLED), sheet, sealed=True)
  with files.whole(os.path.join(folder, KNOWN)) as path, open(path, 'wb') as file:
    np.savez(file, positives=found.positives, splits=splits)
  sets: dict[str, record_writer.Numbered] = {
    split: functools.partial(_groups, found, *of_split) for split, of_split in labelled.items()
  }
  return record_writer.write_sets(folder, sets, 2, info={'source': config.mine_from})


def _groups(
  found: Matching, pairs: Pairs, labels: np.ndarray, writers: Sequence[ItemWriter]
) -> Iterator[Tuples]:
  """A split's pairs; all items come before the first split's pairs."""
  if not len(writers[0]):
    for writer, texts, keys in (
      (writers[0], found.queries, found.query_ids),
      (writers[1], found.passages, found.passage_ids),
    ):
      for text, key in zip(texts, keys, strict=True):
        writer.number(text, key)
  for start in range(0, len(pairs), _GROUP):
    some = slice(start, start + _GROUP)
    yield Tuples(pairs[some].items, label=labels[some, None].astype(np.float32))


def _embedded(
  embedder: embedders.Embedder, texts: list[str], side: str, folder: str
) -> VectorStore:
  """A store of texts' vectors, by number."""
  digest = hashlib.sha256()
  for number, text in enumerate(texts):  # of their list's repr, which as one text might not fit
    digest.update(f'{", " if number else "["}{text!r}'.encode())
  digest.update(b']')
  fingerprint = f'{embedder.fingerprint} {digest.hexdigest()}'
  width = embedder.encode(texts[:1], side).shape[1]
  if manifest.is_there(folder):
    store = VectorStore(folder)
    if (store.fingerprint, store.shape) != (fingerprint, (width,)):
      raise InputError(f'{folder}: vectors of other texts or another embedder; remove it')
    return store
  writer = VectorWriter(folder, [width], 'float16', fingerprint, side)
  rows = ((str(number), text) for number, text in enumerate(texts))
  return writer.fill(
    rows,
    lambda some: embedder.encode(some, side),
    shard_size=1024,
    total=len(texts),
    progress=f'embed {side}',
  )


def _scored(pairs: np.ndarray, queries: VectorStore, passages: VectorStore) -> Pairs:
  return Pairs(pairs[:, 0], pairs[:, 1], similarity(pairs, queries, passages))


def similarity(pairs: np.ndarray, queries: VectorStore, passages: VectorStore) -> np.ndarray:
  """Inner products of pairs [n, 2] of numbers: [n]."""
  scores = [
    np.einsum('nd,nd->n', queries.vectors(block[:, 0]), passages.vectors(block[:, 1]))
    for block in np.split(pairs, range(QUERIES, len(pairs), QUERIES))
  ]
  return np.concatenate(scores)


def nearest(numbers: np.ndarray, queries: VectorStore, index: Index, count: int) -> Pairs:
  """The nearest passages of queries, in their order."""
  scores, rows = index.search(queries.vectors(numbers), count)
  found = rows.ravel() >= 0
  repeated = np.repeat(numbers, rows.shape[1])
  return Pairs(repeated, rows.ravel(), scores.ravel())[found]


def _negatives_of(
  config: MiningConfig,
  found: Matching,
  positives: Pairs,
  queries: VectorStore,
  index: Index,
) -> Pairs:
  """Pairs that may be negative: near, and neither positive nor related."""
  passages = len(found.passages)
  related = found.related[:, 0] * passages + found.related[:, 1]
  keys = np.concatenate([positives.queries * passages + positives.passages, related])
  keys, labelled, blocks = np.unique(keys), np.unique(positives.queries), []
  count = min(config.negatives_from, passages)
  for start in tqdm(range(0, len(labelled), QUERIES), desc='nearest', unit=' blocks'):
    near = nearest(labelled[start : start + QUERIES], queries, index, count)
    own = near.queries * passages + near.passages
    known = keys[np.searchsorted(keys[:-1], own)] == own
    blocks.append(near[~known])
  return Pairs(*(np.concatenate(column) for column in zip(*map(_columns, blocks), strict=True)))


def _columns(pairs: Pairs) -> tuple[np.ndarray, ...]:
  return pairs.queries, pairs.passages, pairs.scores


def _labelled(
  split: str,
  positives: Pairs,
  negatives: Pairs,
  inside: np.ndarray,
  threshold: float,
  rng: np.random.Generator,
) -> tuple[Pairs, np.ndarray]:
  """A split's positives, and as many negatives where there are; by query; with their labels."""
  own, others = positives[inside[positives.queries]], negatives[inside[negatives.queries]]
  if not len(others):
    raise InputError(
      f'{split}: has no negatives below {threshold:.3g}; add data, or change --split_shares or the '
      'threshold'
    )
  drawn = others[rng.permutation(len(others))[: len(own)]]
  both = Pairs(*map(np.concatenate, zip(_columns(own), _columns(drawn), strict=True)))
  labels = np.repeat([1, 0], [len(own), len(drawn)])
  order = np.lexsort([-labels, both.queries])
  return both[order], labels[order]
