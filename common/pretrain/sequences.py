"""Sequences cut from tokenized documents: full sentences (RoBERTa), or pairs of segments (BERT).

Where sequences begin and end is a function of the texts and the most tokens alone. No piece is left
out: a passage that is too long is cut into several.

Dimensions: U units, which are passages or cuts of them; n tokens of a sequence.
"""

import abc
import os
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from common.data import tokens
from common.data.tokenization import Tokenizer
from common.data.tokens import TokenTable
from common.errors import InputError
from common.pretrain.corpus import Document

DRAWS = 4  # uniform numbers a sequence: next or not, where it is cut, document, passage
NO_PAIRS = (
  '--next_sentence needs two documents or more in each set, some of several passages: '
  'an empty line after each document, its passages a line each'
)


def tokenized(folder: str, documents: Iterable[Document], tokenizer: Tokenizer) -> TokenTable:
  """Word pieces of the passages of documents, in a folder; an empty passage ends each document."""
  os.makedirs(folder, exist_ok=True)
  texts = (text for document in documents for text in (*document, ''))
  tokens.write(folder, texts, tokenizer, most=None)
  return TokenTable.open(folder, tokenizer)


class Sequence(NamedTuple):
  """A sequence of n tokens.

  Attributes:
    ids: [n] int32, special tokens included.
    segments: [n] int32.
    next_sentence: 1 where the second segment is from another document; 0 where it follows the first
      in the texts, or there is none.
  """

  ids: np.ndarray
  segments: np.ndarray
  next_sentence: int


class Sequences(abc.ABC):
  """Sequences of at most `max_length` tokens.

  Args:
    pieces: Those that they are cut from, as of `tokenized`.
    max_length: Most tokens, special ones included.
    longest: Most pieces of a unit.

  Attributes:
    sizes: [sequences] the most tokens of each one.
  """

  sizes: np.ndarray

  def __init__(self, pieces: TokenTable, max_length: int, longest: int):
    self.max_length, self.tokenizer = max_length, pieces.tokenizer
    self._ids, ends = pieces.ids, np.asarray(pieces.ends)
    parts = -(-np.diff(ends) // longest)  # 0 of a passage without pieces
    passage = np.repeat(np.arange(len(parts)), parts)
    number = np.arange(len(passage)) - np.repeat(np.cumsum(parts) - parts, parts)
    self._starts = ends[passage] + number * longest  # [U]
    self._stops = np.minimum(self._starts + longest, ends[passage + 1])  # [U]; the next one's start
    documents = np.cumsum(parts == 0)[passage]
    changes = np.flatnonzero(np.diff(documents)) + 1
    self._first_units = np.concatenate([[0], changes, [len(passage)]])  # [documents + 1]
    self._documents = np.repeat(np.arange(len(changes) + 1), np.diff(self._first_units))  # [U]
    if not len(passage):
      raise InputError('the texts hold no word piece')

  @abc.abstractmethod
  def sequence(self, number: int, draws: np.ndarray) -> Sequence:
    """A sequence, by its number and DRAWS uniform numbers in [0, 1)."""

  def __len__(self) -> int:
    return len(self.sizes)

  def _pieces(self, first: int, stop: int) -> np.ndarray:
    """Pieces of the units from `first` to `stop`."""
    return np.asarray(self._ids[self._starts[first] : self._stops[stop - 1]], np.int32)


class FullSentences(Sequences):
  """`[CLS] passage passage [SEP] passage … [SEP]`, filled across documents.

  Each document ends with a [SEP]: RoBERTa's FULL-SENTENCES (Liu et al., 2019, Sec. 4.2), in one
  segment.
  """

  def __init__(self, pieces: TokenTable, max_length: int):
    super().__init__(pieces, max_length, max_length - 2)
    sizes = self._stops - self._starts
    # Tokens before and after each unit: a document's first one brings the [SEP] before it along.
    after = np.cumsum(sizes + np.diff(self._documents, prepend=self._documents[0]))
    before = after - sizes
    self._bounds = _filled(before, after, max_length - 2, np.full(len(sizes), len(sizes)))
    self.sizes = 2 + after[self._bounds[1:] - 1] - before[self._bounds[:-1]]

  def sequence(self, number: int, draws: np.ndarray) -> Sequence:
    del draws
    first, stop = self._bounds[number : number + 2]
    changes = np.flatnonzero(np.diff(self._documents[first:stop])) + 1 + first
    places = self._starts[changes] - self._starts[first]
    inner = np.insert(self._pieces(first, stop), places, self.tokenizer.end_id)
    ids = np.concatenate([[self.tokenizer.start_id], inner, [self.tokenizer.end_id]])
    return Sequence(ids.astype(np.int32), np.zeros(len(ids), np.int32), 0)


class SegmentPairs(Sequences):
  """`[CLS] a [SEP] b [SEP]`: b follows a, or, for half of them, is from another document.

  BERT's pairs (Devlin et al., 2019, Appendix A.2), each of one document's neighbouring passages.
  Where a is a passage without a neighbour, b is always of another document.
  """

  def __init__(self, pieces: TokenTable, max_length: int):
    room = max_length - 3
    super().__init__(pieces, max_length, room // 2)
    document_ends = self._first_units[self._documents + 1]
    self._bounds = _filled(self._starts, self._stops, room, document_ends)
    first, stop = self._bounds[:-1], self._bounds[1:]
    if (stop - first).max() < 2 or len(self._first_units) <= 2:
      raise InputError(NO_PAIRS)
    inner = self._stops[stop - 1] - self._starts[first]
    self.sizes = np.where(stop - first > 1, inner, room) + 3

  def sequence(self, number: int, draws: np.ndarray) -> Sequence:
    first, stop = (int(bound) for bound in self._bounds[number : number + 2])
    count = stop - first
    other = count == 1 or draws[0] < 0.5
    cut = stop if count == 1 else first + 1 + int(draws[1] * (count - 1))
    a = self._pieces(first, cut)
    room = int(self.sizes[number]) - 3 - len(a)
    b = self._of_another(first, room, draws) if other else self._pieces(cut, stop)
    start, end = self.tokenizer.start_id, self.tokenizer.end_id
    ids = np.concatenate([[start], a, [end], b, [end]]).astype(np.int32)
    return Sequence(ids, np.repeat([0, 1], [len(a) + 2, len(b) + 1]), int(other))

  def _of_another(self, unit: int, room: int, draws: np.ndarray) -> np.ndarray:
    """Passages of another document than the unit's, as many as fit; the first is cut to fit."""
    document = int(draws[2] * (len(self._first_units) - 2))
    document += document >= self._documents[unit]
    low, high = (int(bound) for bound in self._first_units[document : document + 2])
    first = low + int(draws[3] * (high - low))
    fits = int(np.searchsorted(self._stops, self._starts[first] + room, side='right'))
    return self._pieces(first, max(first + 1, min(fits, high)))[:room]


def _filled(before: np.ndarray, after: np.ndarray, room: int, ends: np.ndarray) -> np.ndarray:
  """Sequences of as many units as fit, one after another: where each begins, and the last's end.

  Args:
    before: [U] tokens before each unit.
    after: [U] tokens up to each unit's end.
    room: Most tokens of a sequence.
    ends: [U] the unit that a sequence from each unit may not reach.
  """
  bounds = [0]
  while (first := bounds[-1]) < len(ends):
    fits = np.searchsorted(after, before[first] + room, side='right')
    bounds.append(int(min(fits, ends[first])))
  return np.array(bounds)
