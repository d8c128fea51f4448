"""Encoders as a SavedModel, with their tokenizers in the graph."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from common.data.batching import length_sorted


class TensorFlowEncoder:
  """`EncoderRuntime` of a SavedModel with a signature a slot."""

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
