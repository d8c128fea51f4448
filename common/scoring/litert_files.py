"""LiteRT's files: functions of fixed shapes, converted by TensorFlow, a file a precision.

A function of word ids has a signature for each of a few lengths and two numbers of rows: 8, whose
products keep the weights in cache, and 1, for a query. The weights stand in the file once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from common.data.batching import few_bucket_lengths

if TYPE_CHECKING:
  import tensorflow as tf

PRECISIONS = ('float32', 'int8')
BATCHES = (1, 8)  # rows of a call of a function of word ids
DENSE = 'vector'  # the input of a function of vectors


def write(
  folder: str,
  signatures: dict[str, Any],
  variables: Sequence[tf.Variable],
  precisions: Iterable[str],
) -> None:
  """Writes functions as a file a precision.

  Args:
    folder: Gets `float32.tflite` and `int8.tflite` (weights; inputs quantized as they come).
    signatures: Concrete functions of fixed shapes, by name.
    variables: All that they read.
    precisions: Those of `PRECISIONS` that are wanted.
  """
  import tensorflow as tf

  module = tf.Module()
  module.variables_ = list(variables)
  os.makedirs(folder, exist_ok=True)
  with tempfile.TemporaryDirectory() as saved:
    tf.saved_model.save(module, saved, signatures=signatures)
    converter = tf.lite.TFLiteConverter.from_saved_model(saved, list(signatures))
    converter.exclude_conversion_metadata = True  # which nothing here reads
    for precision in precisions:
      converter.optimizations = [] if precision == 'float32' else [tf.lite.Optimize.DEFAULT]
      with open(os.path.join(folder, f'{precision}.tflite'), 'wb') as file:
        file.write(converter.convert())


def write_by_length(
  folder: str,
  functions: dict[str, tuple[Callable[..., Any], int]],
  inputs: Sequence[str],
  variables: Sequence[tf.Variable],
  dense: Mapping[str, tuple[Callable[..., Any], int]] = MappingProxyType({}),
  *,
  precisions: Iterable[str],
  batches: Sequence[int] = BATCHES,
) -> None:
  """Writes functions of word ids, a file a precision, for `litert.ByLength`.

  Args:
    folder: As for `write`.
    functions: By name: a function of int32 [rows, length] inputs, and their greatest length.
    inputs: Their names.
    variables: All that all functions read.
    dense: By name: a function of a float32 [rows, width] input, and its width.
    precisions: As for `write`.
    batches: Rows of a call, those that there are to be signatures for.
  """
  import tensorflow as tf

  signatures = {}
  for name, (function, max_length) in functions.items():
    for length in few_bucket_lengths(max_length):
      for batch in batches:
        one = tf.function(
          lambda function=function, **ids: {'output': function(**ids)}, autograph=False
        )
        specs = {key: tf.TensorSpec([batch, length], tf.int32, name=key) for key in inputs}
        signatures[signature_name(name, length, batch)] = one.get_concrete_function(**specs)
  for name, (function, width) in dense.items():
    for batch in batches:
      one = tf.function(
        lambda function=function, **given: {'output': function(given[DENSE])}, autograph=False
      )
      spec = {DENSE: tf.TensorSpec([batch, width], tf.float32, name=DENSE)}
      signatures[signature_name(name, width, batch)] = one.get_concrete_function(**spec)
  write(folder, signatures, variables, precisions)


def signature_name(name: str, length: int, batch: int) -> str:
  """Name of a function's signature for texts of a length (vectors of a width), so many a call."""
  return f'{name}_{length}_{batch}'
