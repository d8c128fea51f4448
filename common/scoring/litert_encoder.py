"""Encoders in LiteRT: files of float32, and of int8 weights with dynamic ranges.

Texts of like length are encoded together, tokenized without TensorFlow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common.data.word_pieces import WordPieces
from common.scoring import litert, litert_files
from common.scoring.litert_files import DENSE
from common.scoring.runtime import ANY_SLOT, EncoderFunction, filled

if TYPE_CHECKING:
  import tensorflow as tf

  from common.data.tokenization import Tokenizer

_FOLDER = 'encoder_litert'  # of an export


def file_of(folder: str, precision: str) -> str:
  """File of an export's encoders."""
  return os.path.join(folder, _FOLDER, f'{precision}.tflite')


def word_pieces_of(folder: str) -> str:
  """File of their word pieces."""
  return os.path.join(folder, _FOLDER, 'word_pieces.json')


def write(
  folder: str,
  functions: dict[str, EncoderFunction],
  variables: Sequence[tf.Variable],
  tokenizer: Tokenizer,
  *,
  precisions: Sequence[str] = litert_files.PRECISIONS,
  batches: Sequence[int] = litert_files.BATCHES,
) -> None:
  """Writes encoders, a file a precision, and their word pieces.

  Args:
    folder: The export.
    functions: By slot, or one of `ANY_SLOT`.
    variables: All that they read.
    tokenizer: The student's.
    precisions: Those of `litert_files.PRECISIONS` that are wanted.
    batches: As for `litert_files.write_by_length`.
  """
  litert_files.write_by_length(
    os.path.join(folder, _FOLDER), functions, variables, precisions=precisions, batches=batches
  )
  tokenizer.word_pieces().save(word_pieces_of(folder))


class LiteRTEncoder:
  """`EncoderRuntime` of the files that `write` wrote.

  Args:
    folder: The export.
    precision: Of the file.
    threads: Interpreters; 0: one a core, 16 at the most.
    paired: See `litert.Interpreters`.
  """

  name = ''

  def __init__(self, folder: str, precision: str, threads: int = 0, paired: bool = False):
    self._functions = litert.ByLength(file_of(folder, precision), threads, paired)
    self._word_pieces = WordPieces.load(word_pieces_of(folder))

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
