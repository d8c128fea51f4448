"""LiteRT's files: functions of fixed shapes, converted by TensorFlow, a file a precision.

A function of word ids has a signature for each of a few lengths and two numbers of rows: 8, whose
products keep the weights in cache, and 1, for a query. The weights stand in the file once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from common.data.batching import few_bucket_lengths
from common.scoring.runtime import EncoderFunction

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
  functions: Mapping[str, EncoderFunction],
  variables: Sequence[tf.Variable],
  inputs: Sequence[str] = ('ids',),
  *,
  precisions: Iterable[str] = PRECISIONS,
  batches: Sequence[int] = BATCHES,
) -> None:
  """Writes functions of word ids, or of vectors, a file a precision, for `litert.ByLength`.

  Args:
    folder: As for `write`.
    functions: By name.
    variables: All that all functions read.
    inputs: Names of the arguments of a function of word ids, in order.
    precisions: As for `write`.
    batches: Rows of a call, those that there are to be signatures for.
  """
  import tensorflow as tf

  signatures = {}
  for name, (call, longest, width) in functions.items():
    names, dtype = ((DENSE,), tf.float32) if width else (inputs, tf.int32)
    named = _named(call, names)
    for length in (width,) if width else few_bucket_lengths(longest):
      for batch in batches:
        specs = {key: tf.TensorSpec([batch, length], dtype, name=key) for key in names}
        one = tf.function(named, autograph=False).get_concrete_function(**specs)
        signatures[signature_name(name, length, batch)] = one
  write(folder, signatures, variables, precisions)


def _named(call: Callable[..., tf.Tensor], names: Sequence[str]) -> Callable[..., Any]:
  """A function of named inputs that gives a named output."""

  def named(**given: tf.Tensor) -> dict[str, tf.Tensor]:
    return {'output': call(*(given[name] for name in names))}

  return named


def signature_name(name: str, length: int, batch: int) -> str:
  """Name of a function's signature for texts of a length (vectors of a width), so many a call."""
  return f'{name}_{length}_{batch}'
