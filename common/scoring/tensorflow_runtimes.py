"""An export's SavedModels as runtimes: run by TensorFlow, heads also compiled by XLA."""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import tensorflow as tf

from common.data.batching import length_sorted
from common.scoring.runtime import Inputs, Outputs, blocks, filled, rows_of

XLA_BLOCKS = (16, 128)  # rows of a call, those it compiles
_BLOCK = 1024


class TensorFlowHead:
  """`HeadRuntime` of a SavedModel.

  Args:
    model: With signatures that give 'logits' and 'score', or 'part'.
    jit_compile: Whether XLA compiles them, once a size of block.

  Attributes:
    traces: How many times XLA has compiled.
  """

  def __init__(self, model: Any, jit_compile: bool):
    self.traces = 0
    self._sizes = XLA_BLOCKS if jit_compile else ()
    self._signatures = model.signatures
    self._functions = {
      name: self._compiled(function) if jit_compile else function
      for name, function in model.signatures.items()
    }

  def inputs(self, signature: str) -> Collection[str]:
    """See `HeadRuntime`."""
    return self._signatures[signature].structured_input_signature[1]

  def run(self, signature: str, inputs: Inputs) -> Outputs:
    """See `HeadRuntime`; in blocks."""
    rows = rows_of(inputs)
    one = {n: tf.constant(v[:]) for n, v in inputs.items() if len(v) == 1 and rows > 1}
    many = {name: value for name, value in inputs.items() if name not in one}
    found = []
    for start, stop, size in blocks(rows, self._sizes, _BLOCK):
      block = {name: tf.constant(filled(v[start:stop], size)) for name, v in many.items()}
      outputs = self._functions[signature](**one, **block)
      found.append({name: of.numpy()[: stop - start] for name, of in outputs.items()})
    return {name: np.concatenate([of[name] for of in found]) for name in found[0]}

  def _compiled(self, signature: Any) -> Any:
    def call(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
      self.traces += 1
      return signature(**inputs)

    return tf.function(call, autograph=False, jit_compile=True)


class TensorFlowEncoder:
  """`EncoderRuntime` of a SavedModel with a signature a slot, its tokenizer in the graph."""

  name = ''

  def __init__(self, model: Any):
    self._signatures = model.signatures

  def encode(
    self,
    texts: Any,
    slot: str,
    vectors: np.ndarray,
    batch_size: int,
    done: Callable[[int], Any],
  ) -> None:
    """See `EncoderRuntime`."""
    encode = self._signatures[slot]
    if 'vector' in encode.structured_input_signature[1]:
      for start in range(0, len(texts), batch_size):
        batch = texts[start : start + batch_size]
        vectors[start : start + batch_size] = encode(vector=tf.constant(batch))['vectors'].numpy()
        done(len(batch))
      return
    for rows, (column,) in length_sorted([np.array(texts, object)], batch_size):
      vectors[rows] = encode(text=tf.constant(column))['vectors'].numpy()
      done(len(rows))
