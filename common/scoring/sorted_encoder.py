"""Encoders that take texts of like length together, tokenized without TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from common import digests
from common.data.word_pieces import WordPieces
from common.errors import damaged
from common.scoring.exported import REMEDY
from common.scoring.runtime import ANY_SLOT, filled

WORD_PIECES = 'word_pieces.json'
DENSE = 'vector'  # the input of a function of vectors

# Gives a call's inputs, [rows of the call, length] each, of its rows' numbers, its rows and length.
Fill = Callable[[np.ndarray, int, int], dict[str, np.ndarray]]


class Functions(Protocol):
  """Functions of word ids or vectors, which run rows of like length together."""

  @property
  def lengths(self) -> Mapping[str, Sequence[int]]:
    """Lengths of each, ascending; the width of one of vectors."""

  @property
  def dense(self) -> Collection[str]:
    """Names of functions of vectors."""

  def run(
    self,
    name: str,
    sizes: np.ndarray,
    fill: Fill,
    outputs: np.ndarray,
    done: Callable[[int], Any],
  ) -> None:
    """Runs a function.

    Args:
      name: Its name.
      sizes: Tokens of each row.
      fill: Gives a call's inputs.
      outputs: [n, ...], to be filled.
      done: Told the number of rows after each call.
    """


class SortedEncoder:
  """`EncoderRuntime` of functions by slot, or of one of `ANY_SLOT`.

  Args:
    functions: The functions.
    folder: Holds their word pieces.
  """

  name = ''

  def __init__(self, functions: Functions, folder: str):
    self._functions = functions
    path = os.path.join(folder, WORD_PIECES)
    digests.check(path, REMEDY)
    with damaged(path, REMEDY):
      self._word_pieces = WordPieces.load(path)

  def encode(
    self,
    texts: Any,
    slot: str,
    vectors: np.ndarray,
    batch_size: int,
    done: Callable[[int], Any],
  ) -> None:
    """See `EncoderRuntime`."""
    del batch_size
    slot = slot if slot in self._functions.lengths else ANY_SLOT
    if slot in self._functions.dense:

      def fill_vectors(rows: np.ndarray, count: int, length: int) -> dict[str, np.ndarray]:
        del length
        return {DENSE: filled(texts[rows], count)}

      sizes = np.full(len(texts), texts.shape[1])
      self._functions.run(slot, sizes, fill_vectors, vectors, done)
      return
    ids = self._word_pieces.encode(texts, self._functions.lengths[slot][-1])

    def fill(rows: np.ndarray, count: int, length: int) -> dict[str, np.ndarray]:
      batch = np.full([count, length], self._word_pieces.pad_id, np.int32)
      for place, row in enumerate(rows):
        batch[place, : len(ids[row])] = ids[row]
      return {'ids': batch}

    sizes = np.fromiter(map(len, ids), np.int64, len(ids))
    self._functions.run(slot, sizes, fill, vectors, done)
