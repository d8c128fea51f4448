"""Heads as LiteRT files: float32, float16 weights, int8 weights with dynamic ranges."""

import os
import tempfile
from collections.abc import Callable, Sequence

import tensorflow as tf

from common.scoring.runtimes import LITERT_BLOCK, LITERT_PRECISIONS, litert_path

Shapes = dict[str, Sequence[int]]  # of named inputs, without the batch
HeadFunction = tuple[Callable[..., dict[str, tf.Tensor]], Shapes]


def write(
  folder: str, functions: dict[str, HeadFunction], variables: Sequence[tf.Variable]
) -> None:
  """Writes a head at every precision, with a signature a function, in blocks of fixed size.

  Args:
    folder: The export.
    functions: Functions by their signature's name; each gives 'score'.
    variables: Variables that they read.
  """
  module = tf.Module()
  module.variables_ = list(variables)
  signatures = {}
  for name, (function, shapes) in functions.items():
    specs = {
      key: tf.TensorSpec([LITERT_BLOCK, *shape], tf.float32, name=key)
      for key, shape in shapes.items()
    }
    signatures[name] = tf.function(_score_alone(function)).get_concrete_function(**specs)
  with tempfile.TemporaryDirectory() as saved:
    tf.saved_model.save(module, saved, signatures=signatures)
    for precision in LITERT_PRECISIONS:
      path = litert_path(folder, precision)
      os.makedirs(os.path.dirname(path), exist_ok=True)
      converter = tf.lite.TFLiteConverter.from_saved_model(saved, list(functions))
      if precision != 'float32':
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
      if precision == 'float16':
        converter.target_spec.supported_types = [tf.float16]
      with open(path, 'wb') as file:
        file.write(converter.convert())


def _score_alone(function: Callable[..., dict[str, tf.Tensor]]) -> Callable[..., dict]:
  return lambda **inputs: {'score': function(**inputs)['score']}
