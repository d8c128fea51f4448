"""Encoders in LiteRT: files of float32, and of int8 weights with dynamic ranges."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common import digests
from common.data.word_pieces import WordPieces
from common.errors import damaged
from common.scoring import litert, litert_files
from common.scoring.exported import REMEDY, Export
from common.scoring.runtime import ANY_SLOT, EncoderFunction, EncoderKind, filled

if TYPE_CHECKING:
  import tensorflow as tf

  from common.data.tokenization import Tokenizer

_FOLDER, _WORD_PIECES = 'encoder_litert', 'word_pieces.json'  # of an export, and in it


def kind(precision: str) -> EncoderKind:
  """The runtime of one of `litert_files.PRECISIONS`; the first one's writes the files of all."""

  def load(export: Export, threads: int) -> LiteRTEncoder:
    return LiteRTEncoder(os.path.join(export.folder, _FOLDER), precision, threads)

  def write_export(
    folder: str,
    functions: dict[str, EncoderFunction],
    variables: Sequence[tf.Variable],
    tokenizer: Tokenizer,
  ) -> None:
    write(os.path.join(folder, _FOLDER), functions, variables, tokenizer)

  writes = precision == litert_files.PRECISIONS[0]
  return EncoderKind(load, threaded=True, write=write_export if writes else None)


def files_of(folder: str, precision: str) -> tuple[str, str]:
  """Files of an export's encoders: the model and its word pieces."""
  own = os.path.join(folder, _FOLDER)
  return os.path.join(own, f'{precision}.tflite'), os.path.join(own, _WORD_PIECES)


def write(
  folder: str,
  functions: dict[str, EncoderFunction],
  variables: Sequence[tf.Variable],
  tokenizer: Tokenizer,
  *,
  precisions: Sequence[str] = litert_files.PRECISIONS,
  batches: Sequence[int] = litert_files.BATCHES,
) -> None:
  """Writes encoders, a file a precision, and their word pieces; see `EncoderKind.write`."""
  litert_files.write_by_length(folder, functions, variables, precisions=precisions, batches=batches)
  tokenizer.word_pieces().save(os.path.join(folder, _WORD_PIECES))


class LiteRTEncoder:
  """`EncoderRuntime` of a folder that `write` wrote.

  Args:
    folder: The folder.
    precision: Of the file.
    threads: Interpreters; 0: one a core, 16 at the most.
  """

  name = ''

  def __init__(self, folder: str, precision: str, threads: int = 0):
    self._model = litert.ByLength(os.path.join(folder, f'{precision}.tflite'), threads)
    path = os.path.join(folder, _WORD_PIECES)
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
    slot = slot if slot in self._model.lengths else ANY_SLOT
    if slot in self._model.dense:

      def fill_vectors(rows: np.ndarray, count: int, length: int) -> dict[str, np.ndarray]:
        del length
        return {litert_files.DENSE: filled(texts[rows], count)}

      self._model.run(slot, np.full(len(texts), texts.shape[1]), fill_vectors, vectors, done)
      return
    ids = self._word_pieces.encode(texts, self._model.lengths[slot][-1])

    def fill(rows: np.ndarray, count: int, length: int) -> dict[str, np.ndarray]:
      batch = np.full([count, length], self._word_pieces.pad_id, np.int32)
      for place, row in enumerate(rows):
        batch[place, : len(ids[row])] = ids[row]
      return {'ids': batch}

    sizes = np.fromiter(map(len, ids), np.int64, len(ids))
    self._model.run(slot, sizes, fill, vectors, done)
