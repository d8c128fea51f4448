"""An export's SavedModels as runtimes, run by TensorFlow."""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import tensorflow as tf

from common.data.batching import length_sorted
from common.scoring.runtime import Inputs, Outputs, blocks, rows_of

_BLOCK = 1024  # rows of a call


class TensorFlowHead:
  """`HeadRuntime` of a SavedModel with signatures that give 'logits' and 'score', or 'part'."""

  def __init__(self, model: Any):
    self._signatures = model.signatures

  def inputs(self, signature: str) -> Collection[str]:
    """See `HeadRuntime`."""
    return self._signatures[signature].structured_input_signature[1]

  def run(self, signature: str, inputs: Inputs) -> Outputs:
    """See `HeadRuntime`; in blocks."""
    rows = rows_of(inputs)
    one = {n: tf.constant(v[:]) for n, v in inputs.items() if len(v) == 1 and rows > 1}
    many = {name: value for name, value in inputs.items() if name not in one}
    found = []
    for start, stop in blocks(rows, _BLOCK):
      block = {n: tf.constant(np.asarray(v[start:stop], np.float32)) for n, v in many.items()}
      outputs = self._signatures[signature](**one, **block)
      found.append({name: of.numpy() for name, of in outputs.items()})
    return {name: np.concatenate([of[name] for of in found]) for name in found[0]}


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
    for rows, column in length_sorted(texts, batch_size):
      vectors[rows] = encode(text=tf.constant(column))['vectors'].numpy()
      done(len(rows))
