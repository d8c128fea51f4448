"""A binary matching task from queries, passages and the pairs known to match (Appendix B).

Both sides are embedded; a query's nearest passages give its hard negatives (from the nearest 30,
those scored below a threshold, never a known positive; about as many as the positives) and the
transfer set (the nearest 50, whatever they are). Splits are by query. All that is random depends on
the seed, all else on the texts alone.

Pairs are a structured array (`pairs_of`): a query's number, a passage's, and their inner product.
"""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from common import digests, files, flags
from common.data import matching, record_writer
from common.data.examples import TableConfig
from common.data.items import ItemWriter
from common.data.matching import SPLITS, Matching
from common.data.records import Manifest, RecordSet
from common.data.tuples import Tuples
from common.distillation import embedders
from common.errors import InputError
from common.vectors import manifest
from common.vectors.neighbors import Index
from common.vectors.store import VectorStore
from common.vectors.writer import VectorWriter

COLUMNS = ('query', 'passage')
QUERIES = 4096  # searched at a time
MINED = 'mined'  # in the manifests' `info`: the labelled half of the datasheet
_KNOWN, _VECTORS = 'known.npz', 'vectors'
_GROUP = 64  # labelled pairs of neighbouring queries that stay together
_PAIR = np.dtype([('query', np.int64), ('passage', np.int64), ('score', np.float32)])


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
    "with --negative_quantile=0, negatives have an inner product below this (the paper's number, "
    'for universal-sentence-encoder-qa)',
    bounds=(-(10**6), 10**6),
  )
  negative_quantile: float = flags.option(
    0.5,
    'negatives are below this quantile over the nearest passages of the training queries; 0: below '
    '--negative_threshold',
    bounds=(0, 0.9999),
  )
  transfer_per_query: int = flags.option(
    50, 'nearest passages of each query in the transfer set', bounds=(1, 10**6)
  )
  transfer_pairs: int = flags.option(
    130_000,
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


def table_of(table: TableConfig) -> TableConfig:
  """The table's flags with a mined task's names and labels, where they ask for no others."""
  own: dict[str, Any] = {'text_columns': COLUMNS, 'task': 'binary'}
  given, usual = flags.flat(table), flags.flat(TableConfig())
  return dataclasses.replace(table, **{n: of for n, of in own.items() if given[n] == usual[n]})


@dataclasses.dataclass(frozen=True)
class MinedTask:
  """A mined task, as `mine` left it in a folder.

  Attributes:
    queries: Vectors of the queries, by item number.
    passages: Vectors of the passages.
    positives: [n, 2] pairs known to match.
    splits: [queries] each one's split, a number into `SPLITS`.
  """

  queries: VectorStore
  passages: VectorStore
  positives: np.ndarray
  splits: np.ndarray

  @classmethod
  def open(cls, folder: str) -> 'MinedTask':
    """Opens the folder."""
    left, right = (VectorStore(os.path.join(folder, _VECTORS, side)) for side in ('left', 'right'))
    known = digests.read_arrays(os.path.join(folder, _KNOWN), 'delete its folder and run again')
    return cls(left, right, known['positives'], known['splits'])

  def similarity(self, pairs: np.ndarray) -> np.ndarray:
    """Inner products of pairs [n, 2]: [n]."""
    return _similarity(pairs, self.queries, self.passages)

  def rows(self, records: RecordSet) -> Iterator[dict[str, Any]]:
    """A set's pairs as {'id', 'query', 'passage', 'similarity', 'label'}, their texts in memory."""
    tuples = records.tuples()
    named = [_named(records, slot, tuples.items[:, slot]) for slot in (0, 1)]
    for i, similarity in enumerate(self.similarity(tuples.items)):
      (query, query_id), (passage, passage_id) = (named[s][tuples.items[i, s]] for s in (0, 1))
      row = {
        'id': f'{query_id}-{passage_id}',
        'query': query,
        'passage': passage,
        'similarity': round(float(similarity), 4),
      }
      yield row if tuples.label is None else {**row, 'label': int(tuples.label[i, 0])}


def _named(records: RecordSet, slot: int, numbers: np.ndarray) -> dict[int, tuple[str, str]]:
  """(text, id) of each of the items."""
  items = records.items(slot)
  wanted = np.zeros(len(items), bool)
  wanted[numbers] = True
  named = zip(items.texts(), items.ids(), strict=True)
  return {number: item for number, item in enumerate(named) if wanted[number]}


def mine(
  config: MiningConfig, folder: str, seed: int, encoding: str = 'utf-8'
) -> dict[str, Manifest]:
  """Writes the labelled record sets `train`, `valid` and `test`, and what `MinedTask` opens.

  Every query and passage is an item, numbered as in the source. The manifests hold the labelled
  half of the datasheet.

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
    _embedded(embedder, texts, side, os.path.join(folder, _VECTORS, side))
    for texts, side in ((found.queries, 'left'), (found.passages, 'right'))
  )
  known = found.positives
  positives = pairs_of(known[:, 0], known[:, 1], _similarity(known, queries, passages))
  near = _near(config, found, queries, index_of(passages, folder))
  threshold = config.negative_threshold
  if config.negative_quantile:
    of_train = near['score'][splits[near['query']] == 0]
    threshold = float(np.quantile(of_train, config.negative_quantile)) if len(of_train) else 0.0
  negatives, rng = near[near['score'] < threshold], np.random.default_rng(seed)
  labelled = {
    split: _labelled(split, positives, negatives, splits == number, threshold, rng)
    for number, split in enumerate(SPLITS)
  }
  sheet = {
    'source': config.mine_from,
    'embedder': embedder.fingerprint,
    'queries': len(found.queries),
    'passages': len(found.passages),
    'known': {'positive': len(positives), 'related': len(found.related)},
    'threshold': threshold,
    'splits': {
      split: {
        'queries': len(np.unique(pairs['query'])),
        'positive': int(labels.sum()),
        'negative': int((labels == 0).sum()),
      }
      for split, (pairs, labels) in labelled.items()
    },
  }
  with files.whole(os.path.join(folder, _KNOWN)) as path, open(path, 'wb') as file:
    np.savez(file, positives=known, splits=splits)
  sets: dict[str, record_writer.Numbered] = {
    split: functools.partial(_groups, found, *of_split) for split, of_split in labelled.items()
  }
  info = {'source': config.mine_from, MINED: sheet}
  return record_writer.write_sets(folder, sets, 2, info=info)


def pairs_of(queries: np.ndarray, passages: np.ndarray, scores: np.ndarray) -> np.ndarray:
  """Pairs [n] of 'query' and 'passage' numbers with their inner product, 'score'."""
  pairs = np.empty(len(queries), _PAIR)
  pairs['query'], pairs['passage'], pairs['score'] = queries, passages, scores
  return pairs


def tuples_of(pairs: np.ndarray, label: np.ndarray | None = None) -> Tuples:
  """Pairs as tuples, with their labels [n, 1] if they have some."""
  return Tuples(np.stack([pairs['query'], pairs['passage']], 1).astype(np.int32), label=label)


def index_of(passages: VectorStore, folder: str) -> Index:
  """The index of a task's passages, kept beside their vectors."""
  return Index.of_store(passages, os.path.join(folder, _VECTORS, 'right.faiss'))


def _groups(
  found: Matching, pairs: np.ndarray, labels: np.ndarray, writers: Sequence[ItemWriter]
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
    yield tuples_of(pairs[some], labels[some, None].astype(np.float32))


def _embedded(
  embedder: embedders.Embedder, texts: list[str], side: str, folder: str
) -> VectorStore:
  """A store of texts' vectors, by number."""
  digest = hashlib.sha256()
  for text in texts:
    digest.update(f'{text!r}\n'.encode())
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


def _similarity(pairs: np.ndarray, queries: VectorStore, passages: VectorStore) -> np.ndarray:
  scores = [
    np.einsum('nd,nd->n', queries.vectors(block[:, 0]), passages.vectors(block[:, 1]))
    for block in np.split(pairs, range(QUERIES, len(pairs), QUERIES))
  ]
  return np.concatenate(scores)


def nearest(numbers: np.ndarray, queries: VectorStore, index: Index, count: int) -> np.ndarray:
  """Pairs of queries with their nearest passages, in the queries' order."""
  scores, rows = index.search(queries.vectors(numbers), count)
  found = pairs_of(np.repeat(numbers, rows.shape[1]), rows.ravel(), scores.ravel())
  return found[found['passage'] >= 0]


def _near(config: MiningConfig, found: Matching, queries: VectorStore, index: Index) -> np.ndarray:
  """Pairs that may be negative: near, and neither positive nor related."""
  passages = len(found.passages)
  known = np.concatenate([found.positives, found.related])
  keys = np.unique(known[:, 0] * passages + known[:, 1])
  labelled, blocks = np.unique(found.positives[:, 0]), []
  count = min(config.negatives_from, passages)
  for start in tqdm(range(0, len(labelled), QUERIES), desc='nearest', unit=' blocks'):
    near = nearest(labelled[start : start + QUERIES], queries, index, count)
    blocks.append(near[~np.isin(near['query'] * passages + near['passage'], keys)])
  return np.concatenate(blocks)


def _labelled(
  split: str,
  positives: np.ndarray,
  negatives: np.ndarray,
  inside: np.ndarray,
  threshold: float,
  rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
  """A split's positives, and as many negatives where there are; by query; with their labels."""
  own, others = positives[inside[positives['query']]], negatives[inside[negatives['query']]]
  if not len(others):
    raise InputError(
      f'{split}: has no negatives below {threshold:.3g}; add data, or change --split_shares or the '
      'threshold'
    )
  drawn = others[rng.permutation(len(others))[: len(own)]]
  both = np.concatenate([own, drawn])
  labels = np.repeat([1, 0], [len(own), len(drawn)])
  order = np.lexsort([-labels, both['query']])
  return both[order], labels[order]
