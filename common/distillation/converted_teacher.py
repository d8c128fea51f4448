"""A teacher in LiteRT int8, on this machine's cores, at most 16 of them."""

import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from common.data import tokens
from common.data.tokens import TokenizedTuples
from common.distillation.teacher import Teacher
from common.scoring import litert, litert_files
from common.scoring.runtime import EncoderFunction

_NAME, _ARGUMENTS = 'teacher', ('ids', 'segment_ids')
_PRECISION = 'int8'  # rounded weights, and inputs with dynamic ranges


class ConvertedTeacher:
  """A teacher's `logits` by LiteRT, in int8.

  Args:
    teacher: The teacher.

  Attributes:
    tokenizer: The teacher's.
    similarity: The teacher's.
  """

  def __init__(self, teacher: Teacher):
    self.tokenizer, self.similarity = teacher.tokenizer, teacher.similarity
    self._max_length, self._outputs = teacher.max_length, teacher.outputs

    def logits(ids: tf.Tensor, segment_ids: tf.Tensor) -> tf.Tensor:
      return tf.cast(teacher.model(ids, segment_ids, training=False), tf.float32)

    function = EncoderFunction(logits, teacher.max_length)
    with tempfile.TemporaryDirectory() as folder:
      litert_files.write_by_length(
        folder,
        {_NAME: function},
        teacher.model.variables,
        _ARGUMENTS,
        precisions=(_PRECISION,),
        batches=litert_files.BATCHES[-1:],
      )
      self._functions = litert.ByLength(os.path.join(folder, f'{_PRECISION}.tflite'))

  def logits(
    self,
    tuples: TokenizedTuples,
    *,
    strategy: tf.distribute.Strategy,
    advance: Callable[[int], Any] = lambda tuples: None,
  ) -> np.ndarray:
    """Logits, like `Teacher.logits`; uses this machine's cores and ignores the strategy."""
    del strategy
    sizes = tokens.packed_sizes(tuples.tables, tuples.items, self._max_length)

    def fill(rows: np.ndarray, count: int, length: int) -> dict[str, np.ndarray]:
      rows = np.resize(rows, count)  # filled up with rows that are there
      ids, segment_ids = tokens.pack(tuples.tables, tuples.items[rows], sizes[rows], length)
      return {'ids': ids, 'segment_ids': segment_ids}

    found = np.zeros([len(tuples), self._outputs], np.float32)
    self._functions.run(_NAME, tokens.packed_lengths(sizes), fill, found, advance)
    return found
