"""Scoring tuples with a live student.

Each distinct text is encoded once; what is made of two texts runs per tuple.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common.data import batching
from common.data.examples import Example
from common.data.tokenization import Tokenizer
from common.modeling.student import Student
from common.training import strategies


class TupleScorer:
  """A live student for evaluation: examples in, logits out.

  Args:
    model: A student, read at each call, so its weights may change between calls.
    tokenizer: Of the model's vocabulary.
    strategy: Its replicas share the work.
  """

  def __init__(self, model: Student, tokenizer: Tokenizer, strategy: tf.distribute.Strategy):
    self.model, self.tokenizer, self.strategy = model, tokenizer, strategy
    slots = range(model.slots)
    text, ids = tf.TensorSpec([None], tf.string), tf.TensorSpec([None, None], tf.int32)
    self._tokenize = [
      tf.function(lambda t, n=n: tokenizer.encode(t, n), input_signature=[text])
      for n in model.max_lengths
    ]
    self._encoders = [
      tf.function(lambda ids, i=i: model.features(ids, i), input_signature=[ids]) for i in slots
    ]
    features = [tf.TensorSpec(self.shape(None, i), tf.float32) for i in slots]
    self._head = tf.function(lambda *args: model(args, training=False), input_signature=features)

  def features(
    self,
    texts: Sequence[str],
    slot: int,
    *,
    out: np.ndarray | None = None,
    batch_size: int = 128,
    progress: str = '',
  ) -> np.ndarray:
    """Features of texts of one slot: [len(texts), *feature_shape] float32, into `out`."""
    lengths = batching.bucket_lengths(self.model.max_lengths[slot])
    if out is None:
      out = np.zeros(self.shape(len(texts), slot), np.float32)

    def batches():
      for rows, (column,) in batching.length_sorted([np.array(texts, object)], batch_size):
        ids = self._tokenize[slot](tf.constant(column))
        yield rows, (batching.pad_to_bucket(ids, lengths, self.tokenizer.pad_id),)

    with tqdm(total=len(texts), desc=progress, disable=not progress, unit=' texts') as bar:
      for rows, values in strategies.map_batches(self.strategy, self._encoders[slot], batches()):
        out[rows] = values
        bar.update(len(rows))
    return out

  def shape(self, texts: int | None, slot: int) -> tuple:
    """Shape of the features of so many texts."""
    return texts, *self.model.feature_shape(slot)

  def head_logits(
    self, features: Sequence[np.ndarray], index: np.ndarray, batch_size: int = 1024
  ) -> np.ndarray:
    """Logits of tuples given as row numbers into the slots' features: [tuples, n] to [tuples, O]."""
    rows = range(0, len(index), batch_size)
    batches = (
      (
        start,
        tuple(tf.constant(t[index[start : start + batch_size, i]]) for i, t in enumerate(features)),
      )
      for start in rows
    )
    return np.concatenate(
      [logits for _, logits in strategies.map_batches(self.strategy, self._head, batches)]
    )

  def logits(self, examples: Sequence[Example]) -> np.ndarray:
    """Logits of examples: [len(examples), O]."""
    return self.head_logits(*self.gather(examples))

  def gather(self, examples: Sequence[Example]) -> tuple[list[np.ndarray], np.ndarray]:
    """Features of each slot's distinct texts, and [examples, n] row numbers into them."""
    slots, index = distinct_texts(examples)
    return [self.features(texts, i) for i, texts in enumerate(slots)], index


def distinct_texts(examples: Sequence[Example]) -> tuple[list[list[str]], np.ndarray]:
  """Each slot's distinct texts, first seen first, and [examples, n] row numbers into them."""
  slots: list[dict[str, int]] = [{} for _ in examples[0].texts]
  index = np.array(
    [
      [slot.setdefault(text, len(slot)) for slot, text in zip(slots, e.texts, strict=True)]
      for e in examples
    ],
    np.int32,
  )
  return [list(slot) for slot in slots], index
