"""Heads as SavedModels, run by TensorFlow or compiled by XLA."""

from collections.abc import Collection, Sequence
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
    """See `HeadRuntime`."""
    return self._signatures[signature].structured_input_signature[1]

  def run(self, signature: str, inputs: Inputs) -> np.ndarray:
    """See `HeadRuntime`; in blocks."""
    (found,) = self._run(signature, inputs, [self._output(signature)])
    return found

  def scored(self, signature: str, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """See `HeadRuntime`."""
    logits, scores = self._run(signature, inputs, ['logits', 'score'])
    return logits[:, 0], scores

  def _run(self, signature: str, inputs: Inputs, names: Sequence[str]) -> list[np.ndarray]:
    function, found = self._functions[signature], []
    one = {name: tf.constant(value[:]) for name, value in inputs.items() if len(value) == 1}
    many = {name: value for name, value in inputs.items() if name not in one}
    rows = rows_of(inputs)
    if rows == 1:
      one, many = {}, inputs
    for start, stop, size in blocks(rows, self.sizes, _BLOCK):
      block = {name: tf.constant(filled(v[start:stop], size)) for name, v in many.items()}
      outputs = function(**one, **block)
      found.append([outputs[name].numpy()[: stop - start] for name in names])
    return [np.concatenate(of_name) for of_name in zip(*found, strict=True)]

  def _output(self, signature: str) -> str:
    outputs = self._signatures[signature].structured_outputs
    return next(name for name in ('score', 'part', 'attention') if name in outputs)

  def _function(self, signature: Any, jit_compile: bool) -> Any:
    if not jit_compile:
      return signature

    def call(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
      self.traces += 1
      return signature(**inputs)

    return tf.function(call, autograph=False, jit_compile=True)
