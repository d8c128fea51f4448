"""Encoders in LiteRT: files of float32, and of int8 weights with dynamic ranges."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from common.scoring import litert, litert_files
from common.scoring.exported import Export
from common.scoring.runtime import EncoderFunction, EncoderKind
from common.scoring.sorted_encoder import WORD_PIECES, SortedEncoder

if TYPE_CHECKING:
  import tensorflow as tf

  from common.data.tokenization import Tokenizer

FOLDER = 'encoder_litert'  # of an export


def kind(precision: str) -> EncoderKind:
  """The runtime of one of `litert_files.PRECISIONS`; the first one's writes the files of all."""

  def load(export: Export, threads: int, paired: bool) -> LiteRTEncoder:
    return LiteRTEncoder(os.path.join(export.folder, FOLDER), precision, threads, paired)

  def write_export(
    folder: str,
    functions: dict[str, EncoderFunction],
    variables: Sequence[tf.Variable],
    tokenizer: Tokenizer,
  ) -> None:
    write(os.path.join(folder, FOLDER), functions, variables, tokenizer)

  writes = precision == litert_files.PRECISIONS[0]
  return EncoderKind(load, threaded=True, write=write_export if writes else None)


def files_of(folder: str, precision: str) -> tuple[str, str]:
  """Files of an export's encoders: the model and its word pieces."""
  own = os.path.join(folder, FOLDER)
  return os.path.join(own, f'{precision}.tflite'), os.path.join(own, WORD_PIECES)


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
  tokenizer.word_pieces().save(os.path.join(folder, WORD_PIECES))


class LiteRTEncoder(SortedEncoder):
  """`EncoderRuntime` of a folder that `write` wrote.

  Args:
    folder: The folder.
    precision: Of the file.
    threads: Interpreters; 0: one a core, 16 at the most.
    paired: See `litert.Interpreters`.
  """

  def __init__(self, folder: str, precision: str, threads: int = 0, paired: bool = False):
    path = os.path.join(folder, f'{precision}.tflite')
    super().__init__(litert.ByLength(path, threads, paired), folder)
