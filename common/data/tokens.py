"""Items as an encoder takes them, computed once a run: memory-mapped, and taken batch by batch.

Texts become word pieces, padded or packed; vectors stay as they are.

Dimensions: b tuples or items, L tokens of a padded row.
"""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common import digests, files
from common.data.items import Items
from common.data.records import RecordSet
from common.data.tokenization import Tokenizer
from common.data.tuple_set import ItemTable, TupleSet
from common.errors import InputError, damaged

MOST_PIECES = 8192  # of an item that are kept: the most of --max_lengths
_READ = 8192  # texts tokenized at a time
_CHARACTERS = 1 << 22  # of them together; a byte of text takes some 24 of memory
_REMEDY = 'delete it and run again'


@dataclasses.dataclass(frozen=True)
class TokenTable:
  """The word pieces of a slot's items, without special tokens.

  Attributes:
    tokenizer: Tokenizer that made them.
    ids: [all pieces] word ids, item after item.
    ends: [items + 1] int64, where each item's pieces end; ends[0] is 0.
  """

  tokenizer: Tokenizer
  ids: np.ndarray
  ends: np.ndarray

  @classmethod
  def of_texts(cls, texts: Iterable[str], tokenizer: Tokenizer) -> 'TokenTable':
    """Tokenizes texts in memory."""
    pieces, sizes = [np.zeros([0], np.int32)], [np.zeros([1], np.int64)]
    for some, lengths in _tokenized(texts, tokenizer):
      pieces.append(some)
      sizes.append(lengths)
    return cls(tokenizer, np.concatenate(pieces), np.cumsum(np.concatenate(sizes)))

  @classmethod
  def of_items(cls, items: Items, tokenizer: Tokenizer) -> 'TokenTable':
    """The table beside the item tables, which is made where it is missing."""
    folder = items.beside(
      tokenizer.digest, lambda part: write(part, items.texts(), tokenizer, len(items))
    )
    table = cls.open(folder, tokenizer)
    if len(table) != len(items):
      raise InputError(f'{folder}: damaged: not the pieces of its items; {_REMEDY}')
    return table

  @classmethod
  def open(cls, folder: str, tokenizer: Tokenizer) -> 'TokenTable':
    """The table that `write` left in a folder, memory-mapped."""
    digests.check(folder, _REMEDY)
    with damaged(folder, _REMEDY):
      ids, ends = (np.load(os.path.join(folder, n), mmap_mode='r') for n in ('ids.npy', 'ends.npy'))
      whole = len(ids) == ends[-1]
    if not whole:
      raise InputError(f'{folder}: damaged: not as many pieces as it says; {_REMEDY}')
    return cls(tokenizer, ids, ends)

  def __len__(self) -> int:
    return len(self.ends) - 1

  def sizes(self, numbers: np.ndarray) -> np.ndarray:
    """Number of pieces of each item: [b] int64."""
    return np.asarray(self.ends[numbers + 1] - self.ends[numbers])

  def padded(self, numbers: np.ndarray, max_length: int, length: int) -> np.ndarray:
    """`[CLS] pieces [SEP]` of items, cut to `max_length` tokens: [b, L] int32.

    Args:
      numbers: [b] items.
      max_length: Most tokens of a row.
      length: L.
    """
    sizes = np.minimum(self.sizes(numbers), max_length - 2)
    ids, _ = pack([self], numbers[:, None], sizes[:, None], length)
    return ids

  def spec(self, rows: int | None, length: int) -> tf.TensorSpec:
    """Shape and type of `padded`, of so many items at one length."""
    return tf.TensorSpec([rows, length], tf.int32)


@dataclasses.dataclass(frozen=True)
class VectorTable:
  """The vectors of a slot's items, taken like a `TokenTable`'s; they have no word pieces.

  Attributes:
    rows: [items, width] float32.
  """

  rows: np.ndarray

  @classmethod
  def of_items(cls, items: Items) -> 'VectorTable':
    """The table beside the item tables, which is made where it is missing."""
    shape = (len(items), items.width)

    def write_rows(part: str) -> None:
      path = os.path.join(part, 'vectors.npy')
      rows = np.lib.format.open_memmap(path, 'w+', np.float32, shape)
      files.reserve(path)
      for number, vector in enumerate(items.contents()):
        rows[number] = vector
      rows.flush()
      digests.write(part, ('vectors.npy',))

    folder = items.beside('vectors', write_rows)
    digests.check(folder, _REMEDY)
    with damaged(folder, _REMEDY):
      rows = np.load(os.path.join(folder, 'vectors.npy'), mmap_mode='r')
      if rows.shape != shape:
        raise ValueError(f'of shape {rows.shape}, not {shape}')
    return cls(rows)

  def __len__(self) -> int:
    return len(self.rows)

  def sizes(self, numbers: np.ndarray) -> np.ndarray:
    """Word pieces of each item, [b] int64: none."""
    return np.zeros(len(numbers), np.int64)

  def padded(self, numbers: np.ndarray, max_length: int, length: int) -> np.ndarray:
    """Vectors of items: [b, width] float32."""
    del max_length, length
    return np.asarray(self.rows[numbers])

  def spec(self, rows: int | None, length: int) -> tf.TensorSpec:
    """Shape and type of `padded` for so many items."""
    del length
    return tf.TensorSpec([rows, self.rows.shape[1]], tf.float32)


@dataclasses.dataclass(frozen=True)
class TokenizedTuples:
  """Tuples of items as an encoder takes them.

  Attributes:
    tables: Each slot's items: a `TokenTable` of texts, a `VectorTable` of vectors.
    items: [tuples, slots] numbers into them.
  """

  tables: Sequence[Any]
  items: np.ndarray

  @classmethod
  def of_set(cls, records: RecordSet, tokenizer: Tokenizer) -> 'TokenizedTuples':
    """Tuples of a record set."""
    return cls(tables_of(records, tokenizer), records.tuples().items)

  @classmethod
  def of_texts(cls, texts: Sequence[Sequence[str]], tokenizer: Tokenizer) -> 'TokenizedTuples':
    """Tuples of texts, each distinct text of a slot once."""
    tables, columns = [], []
    for column in zip(*texts, strict=True):
      numbers: dict[str, int] = {}
      columns.append([numbers.setdefault(text, len(numbers)) for text in column])
      tables.append(TokenTable.of_texts(numbers, tokenizer))
    return cls(tables, np.array(columns, np.int32).T)

  def __len__(self) -> int:
    return len(self.items)

  def cut(self, max_lengths: Sequence[int]) -> list[float]:
    """Each slot's share of tuples with an item that is cut, of more pieces than its tokens hold."""
    slots = zip(self.tables, self.items.T, max_lengths, strict=True)
    return [float(np.mean(table.sizes(items) > most - 2)) for table, items, most in slots]

  def cut_packed(self, max_length: int) -> float:
    """Share of tuples that are cut when packed, of more pieces than `max_length` tokens hold."""
    of_slots = zip(self.tables, self.items.T, strict=True)
    pieces = np.sum([table.sizes(items) for table, items in of_slots], 0)
    return float(np.mean(pieces > max_length - 1 - len(self.tables)))


def tables_of(records: TupleSet, tokenizer: Tokenizer) -> list[Any]:
  """The items of each of a set's slots: word pieces of texts, and vectors."""
  return [_table_of(records.items(slot), tokenizer) for slot in range(records.slots)]


def _table_of(items: ItemTable, tokenizer: Tokenizer) -> Any:
  if not isinstance(items, Items):  # in memory
    return TokenTable.of_texts(items.contents(), tokenizer)
  return VectorTable.of_items(items) if items.width else TokenTable.of_items(items, tokenizer)


def packed_sizes(tables: Sequence[TokenTable], items: np.ndarray, max_length: int) -> np.ndarray:
  """Pieces that a packed tuple keeps of each item: BERT's `_truncate_seq_pair`, for any number.

  A tuple that is too long loses the last piece of its longest item, of the last one among equals,
  until it fits.

  Args:
    tables: A slot each.
    items: [b, slots] numbers into them.
    max_length: Most tokens of a packed tuple, [CLS] and a [SEP] an item included.

  Returns:
    [b, slots] int64.
  """
  wanted = np.stack([t.sizes(items[:, slot]) for slot, t in enumerate(tables)], 1)
  room = max_length - 1 - len(tables)
  level = np.zeros([len(items), 1], np.int64)  # the most that every item of a tuple may keep
  for bit in (1 << k for k in reversed(range(MOST_PIECES.bit_length()))):
    fits = np.minimum(wanted, level + bit).sum(1, keepdims=True) <= room
    level += bit * fits
  kept = np.minimum(wanted, level)
  longer = wanted > level  # the first of them keep one more while there is room
  return kept + (longer & (longer.cumsum(1) <= room - kept.sum(1, keepdims=True)))


def packed_lengths(sizes: np.ndarray) -> np.ndarray:
  """Tokens of packed tuples that keep `sizes` [b, slots] pieces, [CLS] and [SEP] included: [b]."""
  return sizes.sum(1) + 1 + sizes.shape[1]


def pack(
  tables: Sequence[TokenTable], items: np.ndarray, sizes: np.ndarray, length: int
) -> tuple[np.ndarray, np.ndarray]:
  """Tuples as `[CLS] a [SEP] b [SEP] ...`: word ids and segment ids, [b, length] int32 each.

  Args:
    tables: A slot each.
    items: [b, slots] numbers into them.
    sizes: [b, slots] pieces kept of each, as from `packed_sizes`.
    length: L; at least what the longest row needs.
  """
  tokenizer = tables[0].tokenizer
  ids = np.full([len(items), length], tokenizer.pad_id, np.int32)
  segments = np.zeros_like(ids)
  ids[:, 0] = tokenizer.start_id
  start = np.ones(len(items), np.int64)
  rows = np.arange(len(items))
  for slot, table in enumerate(tables):
    size = sizes[:, slot]
    row = np.repeat(rows, size)
    offset = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)
    ids[row, start[row] + offset] = table.ids[table.ends[items[:, slot]][row] + offset]
    segments[row, start[row] + offset] = min(slot, 1)  # BERT has two segments
    start += size
    ids[rows, start] = tokenizer.end_id
    segments[rows, start] = min(slot, 1)
    start += 1
  return ids, segments


def write(
  folder: str,
  texts: Iterable[str],
  tokenizer: Tokenizer,
  count: int | None = None,
  most: int | None = MOST_PIECES,
) -> None:
  """Writes the word pieces of texts for `TokenTable.open`, in bounded memory.

  Args:
    folder: Gets `ids.npy` and `ends.npy`.
    texts: A stream of them.
    tokenizer: Splits them.
    count: How many there are, for the progress bar.
    most: Pieces of a text that are kept; None: all.
  """
  dtype = np.uint16 if len(tokenizer.vocabulary) <= 1 << 16 else np.int32
  sizes = [np.zeros([1], np.int64)]
  raw = os.path.join(folder, 'ids.raw')
  with open(raw, 'wb') as file, tqdm(total=count, desc='tokenize', unit=' texts') as bar:
    for some, lengths in _tokenized(texts, tokenizer, most):
      some.astype(dtype).tofile(file)
      sizes.append(lengths)
      bar.update(len(lengths))
  ends = np.cumsum(np.concatenate(sizes))
  np.save(os.path.join(folder, 'ends.npy'), ends)
  path = os.path.join(folder, 'ids.npy')
  ids = np.lib.format.open_memmap(path, 'w+', dtype, (int(ends[-1]),))
  files.reserve(path)
  if len(ids):
    ids[:] = np.memmap(raw, dtype, 'r')
  ids.flush()
  os.remove(raw)
  digests.write(folder, ('ids.npy', 'ends.npy'))


def _tokenized(
  texts: Iterable[str], tokenizer: Tokenizer, most: int | None = MOST_PIECES
) -> Iterable[tuple[np.ndarray, np.ndarray]]:
  """(all pieces, how many a text) of some texts at a time."""
  for some in _batches(texts):
    pieces = tokenizer.pieces(tf.constant(some))[:, :most]
    yield pieces.flat_values.numpy(), pieces.row_lengths().numpy()


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
  """Texts that are tokenized together, by number and characters; a very long text is alone."""
  some: list[str] = []
  characters = 0
  for text in texts:
    characters += len(text)
    if some and (len(some) == _READ or characters > _CHARACTERS):
      yield some
      some, characters = [], len(text)
    some.append(text)
  if some:
    yield some
