"""Item tables: the distinct items of a slot, each once; tuples name them by row number.

A table is a TFRecord file, a `tf.train.Example` an item: `hash` (16 bytes, BLAKE2b of the content),
`text` (UTF-8 bytes) or `floats`, and `id` where the source has one. A slot is a text's place in a
tuple; several tables of one slot, as many machines write them, are read as one whose items alike
have one number.
"""

import dataclasses
import functools
import hashlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from common import files
from common.data import trec
from common.data.texts import Item, blake2b
from common.errors import InputError, damaged

_READ = 4096  # items read at a time
_BESIDE = 'tokens'  # folder of what is made of the items
_REMEDY = 'delete its folder and run again'


class ItemWriter:
  """Writes one table; an item that it has seen keeps its number. Holds 130 bytes an item.

  Args:
    path: The file; the caller puts it in its place when whole (`common.files.whole`).

  Attributes:
    width: Width of its vectors; 0: of texts, or nothing yet.

  Raises:
    InputError: If vectors of two widths are written.

  Example:
    with ItemWriter('items-0.tfrecord') as items:
      items.number('nike shoes')  # 0
  """

  def __init__(self, path: str):
    self.path, self.width = path, 0
    self._writer = tf.io.TFRecordWriter(path)
    self._numbers: dict[bytes, int] = {}  # by digest

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *args: object) -> None:
    self._writer.close()

  def __len__(self) -> int:
    return len(self._numbers)

  def number(self, item: Item, key: str = '') -> int:
    """The item's row number; it is written, with its id `key`, where it is new."""
    digest, count = blake2b(item, 16), len(self)
    if (number := self._numbers.setdefault(digest, count)) == count:
      self._write(item, digest, key)
    return number

  def copy(self, items: 'Items') -> None:
    """Writes a slot's items with their ids; at a table's beginning they keep their numbers."""
    for item, key in zip(items.contents(), items.ids(), strict=True):
      self.number(item, key)

  def _write(self, item: Item, digest: bytes, key: str) -> None:
    feature = {'hash': _bytes(digest)}
    if isinstance(item, str):
      feature['text'] = _bytes(item.encode())
    else:
      if len(item) != (self.width or len(item)):
        raise InputError(
          f'{key or f"item {len(self) - 1}"}: a vector of {len(item)} numbers; others of its '
          f'column have {self.width}'
        )
      self.width = len(item)
      feature['floats'] = tf.train.Feature(float_list=tf.train.FloatList(value=item))
    if key:
      feature['id'] = _bytes(key.encode())
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    self._writer.write(example.SerializeToString(deterministic=True))


@dataclasses.dataclass(frozen=True)
class Items:
  """The items of a slot, from one table or several; numbered in the order of their first row.

  Attributes:
    paths: The tables' files.
    counts: Rows of each.
    digest: Digest of the tables' contents.
    width: Width of the vectors; 0: they are texts.
    numbers: [rows of all tables] int32, the item's number of each row; None: rows are numbers.
    firsts: [items] int64, the first row of each item; None likewise.
  """

  paths: tuple[str, ...]
  counts: tuple[int, ...]
  digest: str
  width: int = 0
  numbers: np.ndarray | None = None
  firsts: np.ndarray | None = None

  @classmethod
  def open(
    cls, paths: Sequence[str], counts: Sequence[int], sha256: Sequence[str], width: int = 0
  ) -> 'Items':
    """Opens tables; where there are several, reads their hashes, once, to find items alike."""
    digest = hashlib.sha256(''.join(sha256).encode()).hexdigest()[:16]
    one = cls(tuple(paths), tuple(counts), digest, width)
    if len(paths) == 1:
      return one
    hashes = np.fromiter(one._column('hash'), 'V16')
    _, firsts, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    order = np.argsort(firsts, kind='stable')  # first seen first
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return dataclasses.replace(one, numbers=rank[inverse.reshape(-1)], firsts=firsts[order])

  def __len__(self) -> int:
    return sum(self.counts) if self.firsts is None else len(self.firsts)

  def number(self, rows: np.ndarray, table: int) -> np.ndarray:
    """Item numbers of rows of one of the tables."""
    if self.numbers is None:
      return rows
    return self.numbers[rows + self._starts[table]]

  @functools.cached_property
  def _starts(self) -> np.ndarray:
    """[tables + 1] int64, each table's first row among all."""
    return np.cumsum([0, *self.counts])

  def texts(self, numbers: np.ndarray | None = None) -> Iterator[str]:
    """Streams the items' texts: all in order, or the items `numbers` in their order."""
    return map(bytes.decode, self._of(numbers, self._distinct('text')))

  def contents(self, numbers: np.ndarray | None = None) -> Iterator[Any]:
    """Streams the items' contents, like `texts`: texts, or vectors [width] float32."""
    return self._of(numbers, self._distinct('floats')) if self.width else self.texts(numbers)

  def _of(self, numbers: np.ndarray | None, items: Iterator[Any]) -> Iterator[Any]:
    if numbers is None:
      return items
    wanted = np.zeros(len(self), bool)
    wanted[numbers] = True
    found = {number: item for number, item in enumerate(items) if wanted[number]}
    return (found[number] for number in np.asarray(numbers).tolist())

  def ids(self) -> Iterator[str]:
    """Streams the items' ids in order; '' where the source gave none."""
    return (key.decode() for key in self._distinct('id'))

  def keys(self) -> list[str]:
    """A name for each item: its id, or 16 digits of its content's hash where ids cannot be names.

    They cannot where one is missing, stands twice or has a space in it, as TREC's files take none.
    """
    ids = list(self.ids())
    if all(map(trec.is_id, ids)) and len(set(ids)) == len(ids):
      return ids
    return [digest.hex()[:16] for digest in self._distinct('hash')]

  def beside(self, name: str, write: Callable[[str], None]) -> str:
    """A folder beside the tables for arrays of their items; `write` fills it if it is missing."""
    root = os.path.join(os.path.dirname(self.paths[0]), _BESIDE)
    folder = os.path.join(root, f'{self.digest}-{name}')
    if not os.path.exists(folder):
      os.makedirs(root, exist_ok=True)
      with files.turn(root):  # several processes may want it at the same time
        if not os.path.exists(folder):
          with files.whole_folder(folder) as part:
            os.mkdir(part)
            write(part)
    return folder

  def _distinct(self, name: str) -> Iterator[Any]:
    rows = self._column(name)
    if self.firsts is None:
      return rows
    keep = np.zeros(sum(self.counts), bool)
    keep[self.firsts] = True  # numbers rise with first rows
    return itertools.compress(rows, keep)

  def _column(self, name: str) -> Iterator[Any]:
    """A feature of all rows, table after table."""
    spec = {name: tf.io.FixedLenFeature([], tf.string, default_value='')}
    if name == 'floats':
      spec = {name: tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)}
    for path, count in zip(self.paths, self.counts, strict=True):
      seen = 0
      for batch in _parsed(path, spec):
        yield from batch[name]
        seen += len(batch[name])
      if seen != count:
        raise InputError(f'{path}: {seen} items; the manifest says {count}; {_REMEDY}')


def _parsed(path: str, spec: dict[str, Any]) -> Iterator[dict[str, np.ndarray]]:
  """Batches of a file's features; a damaged file is refused."""
  records = tf.data.TFRecordDataset(path).batch(_READ)
  batches = records.map(lambda some: tf.io.parse_example(some, spec)).as_numpy_iterator()
  while True:
    with damaged(path, _REMEDY):
      batch = next(batches, None)
    if batch is None:
      return
    yield batch


def _bytes(value: bytes) -> tf.train.Feature:
  return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
