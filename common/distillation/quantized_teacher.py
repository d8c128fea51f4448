"""A teacher in int8: rounded weights, float inputs, one interpreter per core, at most 16."""

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

_NAME, _PRECISION = 'teacher', 'int8'


class QuantizedTeacher:
  """A teacher's `logits`, in LiteRT's int8 with dynamic ranges.

  Args:
    teacher: The teacher.

  Attributes:
    tokenizer: The teacher's.
  """

  def __init__(self, teacher: Teacher):
    self.tokenizer, self._max_length, self._outputs = (
      teacher.tokenizer,
      teacher.max_length,
      teacher.outputs,
    )

    def logits(ids: tf.Tensor, segment_ids: tf.Tensor) -> tf.Tensor:
      return tf.cast(teacher.model(ids, segment_ids, training=False), tf.float32)

    functions = {_NAME: EncoderFunction(logits, teacher.max_length)}
    with tempfile.TemporaryDirectory() as folder:
      inputs, sizes = ('ids', 'segment_ids'), litert_files.BATCHES[-1:]
      variables = teacher.model.variables
      litert_files.write_by_length(
        folder, functions, variables, inputs, precisions=(_PRECISION,), batches=sizes
      )
      path = os.path.join(folder, f'{_PRECISION}.tflite')
      self._model = litert.ByLength(path)

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
    self._model.run(_NAME, tokens.packed_lengths(sizes), fill, found, advance)
    return found
