"""Queries, passages and which of them belong together: MS MARCO, BEIR, WANDS, plain Q/A tables.

Queries that differ in case, spaces and punctuation alone are one (`plain`); passages must be equal.
So no query is in two splits, and what is known of one of them is known of all.
"""

import fnmatch
import os
import re
import unicodedata
from collections.abc import Callable, Iterator

import numpy as np
from tqdm import tqdm

from common import files
from common.data import tables
from common.data.texts import hash64
from common.errors import InputError

SPLITS = ('train', 'valid', 'test')
_MARCO = ('collection.tsv', 'collection.tsv.gz')
_HELD_OUT = SPLITS[1:]
_VALID = ('dev', 'valid', 'val', 'validation')  # as files of qrels name it


class Matching:
  """Texts and what is known of their pairs, by number.

  Attributes:
    queries: Texts; `query_ids` their ids.
    passages: Texts; `passage_ids` their ids.
    positives: [n, 2] (query, passage), sorted.
    related: Pairs that are neither positive nor fit to be negative, likewise.
  """

  def __init__(self):
    self.queries: list[str] = []
    self.passages: list[str] = []
    self.query_ids: list[str] = []
    self.passage_ids: list[str] = []
    self._query_of: dict[str, int] = {}
    self._passage_of: dict[str, int] = {}
    self._numbers: tuple[dict[str, int], dict[str, int]] = ({}, {})
    self._pairs: dict[bool, set[tuple[int, int]]] = {True: set(), False: set()}
    self._split: dict[int, str] = {}

  @property
  def positives(self) -> np.ndarray:
    return _sorted(self._pairs[True])

  @property
  def related(self) -> np.ndarray:
    return _sorted(self._pairs[False] - self._pairs[True])

  @property
  def has_splits(self) -> bool:
    """Whether the data have splits of their own: one to train on, at the least."""
    return 'train' in self._split.values()

  def add_query(self, key: str, text: str, split: str = '', *, where: str = '') -> None:
    """Adds a query; one like an earlier one is that one. Its own split is the first it is in."""
    number = self._query_of.setdefault(plain(text), len(self.queries))
    if number == len(self.queries):
      self.queries.append(text)
      self.query_ids.append(key)
    self._name(0, key, number, where)
    if split:
      self._split.setdefault(number, split)

  def add_passage(self, key: str, text: str, *, where: str = '') -> None:
    """Adds a passage; one like an earlier one is that one."""
    number = self._passage_of.setdefault(text, len(self.passages))
    if number == len(self.passages):
      self.passages.append(text)
      self.passage_ids.append(key)
    self._name(1, key, number, where)

  def _name(self, side: int, key: str, number: int, where: str) -> None:
    if self._numbers[side].setdefault(key, number) != number:
      raise InputError(f'{where}: id {key!r} stood before another text')

  def add_pair(
    self, query: str, passage: str, where: str, *, positive: bool = True, split: str = ''
  ) -> None:
    """Adds what is known of a pair of ids, and the split that the query is in."""
    for key, numbers, what in zip(
      (query, passage), self._numbers, ('query', 'passage'), strict=True
    ):
      if key not in numbers:
        raise InputError(f'{where}: no {what} of id {key!r}')
    pair = self._numbers[0][query], self._numbers[1][passage]
    self._pairs[positive].add(pair)
    if split:
      self._split.setdefault(pair[0], split)

  def splits(self, train: float, valid: float) -> np.ndarray:
    """The split of each query, a number into `SPLITS`.

    Data with a training split keep their own: valid and test as they are, or half each of the one
    there is. Otherwise a hash of the query, as it is first spelled, decides by these shares; the
    rest is test. Queries of no split and without a positive are in train: they are for transfer.
    """
    own = self.has_splits
    held = {split for split in self._split.values() if split in _HELD_OUT}
    labelled = {query for query, _ in self._pairs[True]}
    found = np.zeros(len(self.queries), np.int64)
    for number, text in enumerate(self.queries):
      split = self._split.get(number, '')
      if own and split in held:
        halved = 2 if split_of(text, 0.5, 0.5) else 1
        found[number] = 1 + _HELD_OUT.index(split) if len(held) == 2 else halved
      elif not own and number in labelled:
        found[number] = split_of(text, train, valid)
    return found

  def check(self, splits: np.ndarray, path: str) -> None:
    """Refuses a source, at a path, if one of its `splits` has no positives."""
    there = splits[self.positives[:, 0]]
    for number, split in enumerate(SPLITS):
      if number not in there:
        needed = 'more data or another --split_shares is needed'
        if self.has_splits:
          qrels = 'train' if split == 'train' else 'dev or test'
          needed = f'it brings splits of its own: add matches (qrels) of {qrels}'
        raise InputError(f'{path}: {split}: no positives; {needed}')


def plain(query: str) -> str:
  """A query without case, extra spaces and punctuation.

  Letters, numbers, marks, symbols and '#' tell two queries apart.
  """
  folded = unicodedata.normalize('NFC', query.casefold())
  return ' '.join(re.sub(r'[^\w\s]', _kept, folded).split()) or query


def _kept(found: re.Match[str]) -> str:
  """A vowel sign, or the '+' of 'c++', as it is; punctuation as a space."""
  return found[0] if found[0] == '#' or unicodedata.category(found[0])[0] in 'MS' else ' '


def split_of(query: str, train: float, valid: float) -> int:
  """The split of a query by its hash, a number into `SPLITS`; shares of the first two."""
  share = hash64(f'split {query.casefold()}') / 2**64
  return int(np.searchsorted([train, train + valid], share, side='right'))


def read(path: str, query_column: str, passage_column: str, encoding: str = 'utf-8') -> Matching:
  """Reads a matching task.

  Args:
    path: A folder of MS MARCO passage ranking (`collection.tsv`, `queries.*.tsv`, `qrels.*.tsv`),
      of BEIR (`corpus.jsonl`, `queries.jsonl`, `qrels/*.tsv`) or of WANDS (`product.csv`,
      `query.csv`, `label.csv`); or a table of questions with their answers, or its folder.
    query_column: Column of the questions in such a table.
    passage_column: Column of the answers in such a table.
    encoding: Encoding of such a table; the others are in UTF-8.

  Raises:
    InputError: If it is none of them, or not whole.
  """
  if files.is_folder(path):
    for reader, names in _READERS.items():
      if any(files.exists(os.path.join(path, name)) for name in names):
        return _checked(reader(path), path)
    found = [name for name in files.names(path) if name.endswith(tables.ENDS)]
    if len(found) != 1:
      raise InputError(
        f'{path}: neither MS MARCO (collection.tsv), BEIR (corpus.jsonl) nor WANDS (product.csv), '
        f'nor a folder of one table; name the table'
      )
    path = os.path.join(path, found[0])
  return _checked(_question_answers(path, query_column, passage_column, encoding), path)


def _question_answers(path: str, query_column: str, passage_column: str, encoding: str) -> Matching:
  matching = Matching()
  for number, row in _progress(path, encoding=encoding, columns=(query_column, passage_column)):
    key, where = str(number), f'{path}:{number}'
    matching.add_query(key, tables.text(row, query_column, where), where=where)
    matching.add_passage(key, tables.text(row, passage_column, where), where=where)
    matching.add_pair(key, key, where)
  return matching


def _marco(folder: str) -> Matching:
  matching = Matching()
  (collection,) = [p for name in _MARCO if files.exists(p := os.path.join(folder, name))][:1]
  for number, row in _progress(collection, header=('id', 'text'), literal=True):
    matching.add_passage(row['id'], row['text'], where=f'{collection}:{number}')
  for path in _matches(folder, 'qrels.*.tsv*'):
    name = os.path.basename(path)
    split = _split(path, name.split('.')[1])
    queries = os.path.join(folder, name.replace('qrels', 'queries', 1))
    for number, row in _progress(queries, header=('id', 'text'), literal=True):
      matching.add_query(row['id'], row['text'], split, where=f'{queries}:{number}')
    for number, row in _progress(path, header=('query', 'iteration', 'passage', 'grade')):
      if tables.number(row['grade'], 'grade', f'{path}:{number}') > 0:
        matching.add_pair(row['query'], row['passage'], f'{path}:{number}', split=split)
  return matching


def _beir(folder: str) -> Matching:
  matching = Matching()
  corpus, queries = (os.path.join(folder, name) for name in ('corpus.jsonl', 'queries.jsonl'))
  for number, row in _progress(corpus):
    title = row.get('title', '')
    matching.add_passage(row['_id'], f'{title} {row["text"]}'.strip(), where=f'{corpus}:{number}')
  for number, row in _progress(queries):
    matching.add_query(row['_id'], row['text'], where=f'{queries}:{number}')
  for path in _matches(os.path.join(folder, 'qrels'), '*.tsv'):
    split = _split(path, os.path.basename(path).split('.')[0])
    for number, row in _progress(path):
      if tables.number(row['score'], 'grade', f'{path}:{number}') > 0:
        matching.add_pair(row['query-id'], row['corpus-id'], f'{path}:{number}', split=split)
  return matching


def _wands(folder: str) -> Matching:
  matching = Matching()
  products, queries = (os.path.join(folder, name) for name in ('product.csv', 'query.csv'))
  for number, row in _progress(products, delimiter='\t'):
    text = f'{row["product_name"]}. {row["product_description"]}'.strip(' .')
    matching.add_passage(row['product_id'], text, where=f'{products}:{number}')
  for number, row in _progress(queries, delimiter='\t'):
    matching.add_query(row['query_id'], row['query'], where=f'{queries}:{number}')
  path = os.path.join(folder, 'label.csv')
  for number, row in _progress(path, delimiter='\t'):
    if row['label'] not in ('Exact', 'Partial', 'Irrelevant'):
      raise InputError(f'{path}:{number}: label {row["label"]!r}; Exact, Partial or Irrelevant')
    if row['label'] != 'Irrelevant':
      positive = row['label'] == 'Exact'
      ids = row['query_id'], row['product_id']
      matching.add_pair(*ids, f'{path}:{number}', positive=positive)
  return matching


_READERS: dict[Callable[[str], Matching], tuple[str, ...]] = {
  _marco: _MARCO,
  _beir: ('corpus.jsonl',),
  _wands: ('product.csv',),
}


def _progress(path: str, **options) -> Iterator[tuple[int, tables.Row]]:
  return iter(tqdm(tables.rows(path, **options), desc=os.path.basename(path), unit=' rows'))


def _matches(folder: str, pattern: str) -> list[str]:
  names = files.names(folder) if files.is_folder(folder) else []
  found = [name for name in fnmatch.filter(names, pattern) if not name.startswith('.')]
  found.sort(key=lambda name: 'train' not in name)
  if not found:
    raise InputError(f'{folder}: no {pattern}')
  return [os.path.join(folder, name) for name in found]


def _split(path: str, name: str) -> str:
  """The split, of `SPLITS`, that a file of qrels is of."""
  split = 'valid' if name in _VALID else name
  if split not in SPLITS:
    raise InputError(f'{path}: split {name!r}; train, test or one of {", ".join(_VALID)}')
  return split


def _checked(matching: Matching, path: str) -> Matching:
  if not len(matching.positives):
    raise InputError(f'{path}: no positive pairs')
  return matching


def _sorted(pairs: set[tuple[int, int]]) -> np.ndarray:
  return np.array(sorted(pairs), np.int64).reshape([-1, 2])
