"""Heads as SavedModels, run by TensorFlow or compiled by XLA."""

from collections.abc import Collection
from typing import Any

import numpy as np
import tensorflow as tf

from common.scoring.runtime import Inputs, blocks, filled, rows_of

XLA_BLOCKS = (16, 128)  # rows of a call, those it compiles
_BLOCK = 1024


class TensorFlowHead:
  """`HeadRuntime` of a SavedModel.

  Args:
    model: With signatures that give 'score' or 'part'.
    jit_compile: Whether XLA compiles them, once a size of block.
  """

  def __init__(self, model: Any, jit_compile: bool):
    self.sizes = XLA_BLOCKS if jit_compile else ()
    self.traces = 0
    self._signatures = model.signatures
    self._functions = {name: self._function(f, jit_compile) for name, f in model.signatures.items()}

  def inputs(self, signature: str) -> Collection[str]:
    """As of `HeadRuntime`."""
    return self._signatures[signature].structured_input_signature[1]

  def run(self, signature: str, inputs: Inputs) -> np.ndarray:
    """As of `HeadRuntime`, in blocks."""
    function, found = self._functions[signature], []
    one = {name: tf.constant(value[:]) for name, value in inputs.items() if len(value) == 1}
    many = {name: value for name, value in inputs.items() if name not in one}
    rows = rows_of(inputs)
    if rows == 1:
      one, many = {}, inputs
    for start, stop, size in blocks(rows, self.sizes, _BLOCK):
      block = {name: tf.constant(filled(v[start:stop], size)) for name, v in many.items()}
      found.append(function(**one, **block).numpy()[: stop - start])
    return np.concatenate(found)

  def _function(self, signature: Any, jit_compile: bool) -> Any:
    output = next(
      name for name in ('score', 'part', 'attention') if name in signature.structured_outputs
    )
    if not jit_compile:
      return lambda **inputs: signature(**inputs)[output]

    def call(**inputs: tf.Tensor) -> tf.Tensor:
      self.traces += 1
      return signature(**inputs)[output]

    return tf.function(call, autograph=False, jit_compile=True)
