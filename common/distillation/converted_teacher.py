"""A teacher that another runtime scores with, on this machine's cores, at most 16 of them."""

import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common import extras
from common.data import tokens
from common.data.tokens import TokenizedTuples
from common.distillation.teacher import Teacher
from common.scoring import litert, litert_files
from common.scoring.runtime import EncoderFunction
from common.scoring.sorted_encoder import Functions

_NAME, _ARGUMENTS = 'teacher', ('ids', 'segment_ids')


def _litert_int8(
  folder: str, function: EncoderFunction, variables: Sequence[tf.Variable]
) -> Functions:
  """Rounded weights, and inputs with dynamic ranges."""
  options: dict[str, Any] = {'precisions': ('int8',), 'batches': litert_files.BATCHES[-1:]}
  litert_files.write_by_length(folder, {_NAME: function}, variables, _ARGUMENTS, **options)
  return litert.ByLength(os.path.join(folder, 'int8.tflite'))


def _openvino(
  folder: str, function: EncoderFunction, variables: Sequence[tf.Variable]
) -> Functions:
  """A graph in bfloat16 where the CPU has it."""
  from common.scoring.openvino_model import Signatures

  module = tf.Module()
  module.variables_ = list(variables)
  specs = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in _ARGUMENTS}

  @tf.function(autograph=False)
  def logits(**given: tf.Tensor) -> dict[str, tf.Tensor]:
    return {'logits': function.call(*(given[name] for name in _ARGUMENTS))}

  concrete = logits.get_concrete_function(**specs)
  tf.saved_model.save(module, folder, signatures={_NAME: concrete})
  return Signatures(folder, {_NAME: (_NAME, _ARGUMENTS)}, {_NAME: [function.length]})


_CONVERTERS = {'litert-int8': _litert_int8, 'openvino': _openvino}


def check(runtime: str) -> None:
  """Refuses a runtime whose extra is not installed."""
  if runtime == 'openvino':
    with extras.needed('openvino', f'--annotation_runtime={runtime}: '):
      import openvino  # noqa: F401


class ConvertedTeacher:
  """A teacher's `logits`, by another runtime.

  Args:
    teacher: The teacher.
    runtime: One of `config.RUNTIMES` that is not the first.

  Attributes:
    tokenizer: The teacher's.
    similarity: The teacher's.
  """

  def __init__(self, teacher: Teacher, runtime: str):
    self.tokenizer, self.similarity = teacher.tokenizer, teacher.similarity
    self._max_length, self._outputs = teacher.max_length, teacher.outputs

    def logits(ids: tf.Tensor, segment_ids: tf.Tensor) -> tf.Tensor:
      return tf.cast(teacher.model(ids, segment_ids, training=False), tf.float32)

    function = EncoderFunction(logits, teacher.max_length)
    with tempfile.TemporaryDirectory() as folder:
      self._functions = _CONVERTERS[runtime](folder, function, teacher.model.variables)

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
