"""Documents of plain files, tables or the built-in catalogue: each once, some of them held out.

A document is its passages (sentences, lines); next sentences are looked for within one.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common import flags
from common.data import catalog, tables
from common.data.texts import hash64
from common.distillation.sources.catalogue import CatalogueConfig
from common.distillation.sources.source import digests
from common.errors import InputError

TRAIN, VALID = SETS = ('train', 'valid')
_PATTERN = frozenset('*?[')
_TABLES = ('.jsonl', '.csv', '.tsv', '.parquet')

Document = tuple[str, ...]  # its passages


@dataclasses.dataclass(frozen=True)
class CorpusConfig:
  """Texts to pretrain on."""

  input_files: tuple[str, ...] = flags.option(
    (),
    'plain text files, or with --text_columns tables; .gz, gs:// and patterns (texts/*.txt) too; '
    'empty: the synthetic catalogue',
  )
  documents: str = flags.option(
    'lines',
    "a plain file's documents: each line is one, or (blocks) an empty line ends one, whose lines "
    'are its sentences or passages',
    ('lines', 'blocks'),
  )
  text_columns: tuple[str, ...] = flags.option(
    (), 'columns of tables: each cell is a document, its lines are the passages'
  )
  encoding: str = flags.option('utf-8', 'character encoding of the files')
  held_out: int = flags.option(
    500, 'documents that judge the model and are not trained on', bounds=(1, 10**9)
  )
  catalogue: CatalogueConfig = flags.group(CatalogueConfig)

  def __post_init__(self):
    tables.check_encoding(self.encoding)
    if self.text_columns and not self.input_files:
      raise InputError('--text_columns names columns of tables: name them by --input_files')
    if self.text_columns and self.documents == 'blocks':
      raise InputError(
        '--documents=blocks is of plain files; with --text_columns each cell is a document'
      )

  def paths(self) -> list[str]:
    """The input files, patterns resolved; one that is not there is refused."""
    found = []
    for path in self.input_files:
      pattern = _PATTERN & set(path) and not tf.io.gfile.exists(path)
      matches = sorted(tf.io.gfile.glob(path)) if pattern else [path]
      if not matches:
        raise InputError(f'--input_files={path}: no file has such a name')
      for match in matches:
        if tf.io.gfile.isdir(match):
          raise InputError(f'--input_files={match}: a folder; name its files: {match}/*')
        if not self.text_columns and match.removesuffix('.gz').endswith(_TABLES):
          raise InputError(f'--input_files={match}: a table; name its --text_columns')
      found += matches
    return found

  def depends_on(self, seed: int) -> dict[str, Any]:
    """Flags that the corpus depends on, and each file's sha256; of the catalogue, the seed."""
    if not self.input_files:
      return {'held_out': self.held_out, **flags.flat(self.catalogue), 'seed': seed}
    of_files = flags.flat(self)
    del of_files['catalog_sizes']
    return {**of_files, **digests(self.paths())}


@dataclasses.dataclass(frozen=True)
class Counts:
  """Numbers of a corpus: documents read, those that had been read before, and passages by set."""

  documents: int
  repeated: int
  held_out: int
  passages: dict[str, int]

  def pairs(self) -> bool:
    """Whether each set has several documents, and some of several passages."""
    trained = self.documents - self.repeated - self.held_out
    counts = dict(zip(SETS, (trained, self.held_out), strict=True))
    return all(1 < n < self.passages[name] for name, n in counts.items())


def documents(config: CorpusConfig, seed: int) -> Iterator[Document]:
  """Streams the documents as they come, repeated ones too."""
  if not config.input_files:
    pairs = catalog.splits(seed, *config.catalogue.catalog_sizes)
    for name in ('train', 'distillation'):  # others judge the students
      yield from ((pair.product,) for pair in pairs[name])
    return
  for path in config.paths():
    if config.text_columns:
      for _, row in tables.rows(path, config.encoding, columns=config.text_columns):
        cells = [[line.strip() for line in row[c].split('\n')] for c in config.text_columns]
        yield from filter(None, (tuple(filter(None, passages)) for passages in cells))
    else:
      yield from plain(path, config.encoding, blocks=config.documents == 'blocks')


def read_set(folder: str, name: str) -> Iterator[Document]:
  """Streams the documents of a set that `write` wrote."""
  return plain(os.path.join(folder, f'{name}.txt'))


def plain(path: str, encoding: str = 'utf-8', *, blocks: bool = True) -> Iterator[Document]:
  """Streams the documents of a text file; of `blocks`, an empty line ends each."""
  passages: list[str] = []
  for line in tables.lines(path, encoding):
    if text := line.strip():
      passages.append(text)
    if passages and not (blocks and text):
      yield tuple(passages)
      passages = []
  if passages:
    yield tuple(passages)


def write(read: Callable[[], Iterator[Document]], held_out: int, folder: str) -> Counts:
  """Writes `train.txt` and `valid.txt`, each document once, for `read_set`.

  The documents of the least hashes are held out: more texts move few of them. Texts are read twice,
  and 8 bytes a document are kept of them.

  Args:
    read: Streams the documents, the same ones each time.
    held_out: How many of the distinct ones are held out.
    folder: Where they go.
  """
  progress = tqdm(read(), desc='read', unit=' documents')
  hashes = np.fromiter((hash64('\n'.join(document)) for document in progress), np.uint64)
  distinct, firsts = np.unique(hashes, return_index=True)
  if len(distinct) <= held_out:
    raise InputError(
      f'--held_out={held_out}: the texts are {len(distinct)} different documents; name fewer, or '
      'more texts (--documents=blocks takes an empty line for the end of one)'
    )
  sets = np.full(len(hashes), -1, np.int8)  # of a repeated document
  sets[firsts[held_out:]], sets[firsts[:held_out]] = 0, 1
  passages = dict.fromkeys(SETS, 0)
  with contextlib.ExitStack() as stack:
    paths = [os.path.join(folder, f'{name}.txt') for name in SETS]
    opened = [stack.enter_context(open(path, 'wb')) for path in paths]
    for document, number in zip(read(), sets, strict=True):
      if number >= 0:
        opened[number].write(('\n'.join(document) + '\n\n').encode())
        passages[SETS[number]] += len(document)
  return Counts(len(hashes), len(hashes) - len(distinct), held_out, passages)
