"""Heads as SavedModels, run by TensorFlow or compiled by XLA."""

from typing import Any

import numpy as np
import tensorflow as tf

from common.scoring.runtime import Inputs, blocks, filled, rows_of

XLA_BLOCKS = (16, 128)  # rows of a call, those it compiles
_BLOCK = 1024


class TensorFlowHead:
  """`Runtime` of a SavedModel.

  Args:
    head: With signatures that give 'score'.
    jit_compile: Whether XLA compiles them, once a size of block.
  """

  def __init__(self, head: Any, jit_compile: bool):
    self.sizes = XLA_BLOCKS if jit_compile else ()
    self.traces = 0
    self._functions = {name: self._function(f, jit_compile) for name, f in head.signatures.items()}

  def score(self, signature: str, inputs: Inputs) -> np.ndarray:
    """Scores in blocks."""
    function, scores = self._functions[signature], []
    one = {name: tf.constant(value) for name, value in inputs.items() if len(value) == 1}
    many = {name: value for name, value in inputs.items() if name not in one}
    rows = rows_of(inputs)
    if rows == 1:
      one, many = {}, inputs
    for start, stop, size in blocks(rows, self.sizes, _BLOCK):
      block = {name: tf.constant(filled(v[start:stop], size)) for name, v in many.items()}
      scores.append(function(**one, **block).numpy()[: stop - start])
    return np.concatenate(scores)

  def _function(self, signature: Any, jit_compile: bool) -> Any:
    if not jit_compile:
      return lambda **inputs: signature(**inputs)['score']

    def score(**inputs: tf.Tensor) -> tf.Tensor:
      self.traces += 1
      return signature(**inputs)['score']

    return tf.function(score, autograph=False, jit_compile=True)
