"""Scoring tuples with a live student.

Each distinct item is encoded once; what is made of several runs per tuple.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common import files
from common.data import batching
from common.data.records import RecordSet
from common.data.tokenization import Tokenizer
from common.data.tokens import TokenizedTuples
from common.errors import damaged
from common.modeling.student import Student
from common.training import strategies

_BATCH = 128  # texts a replica's batch


class TupleScorer:
  """A live student for evaluation: tokenized tuples in, logits out.

  Args:
    model: A student, read at each call, so its weights may change between calls.
    tokenizer: The tokenizer of the model's vocabulary.
    strategy: Its replicas share the work.
  """

  def __init__(self, model: Student, tokenizer: Tokenizer, strategy: tf.distribute.Strategy):
    self.model, self.tokenizer, self.strategy = model, tokenizer, strategy
    slots = range(model.slots)
    self._encoders = [
      tf.function(
        lambda ids, i=i: model.features(ids, i), [model.encoder_input(i)], autograph=False
      )
      for i in slots
    ]
    features = [tf.TensorSpec(self.shape(None, i), tf.float32) for i in slots]
    self._head = tf.function(lambda *args: model(args, training=False), features, autograph=False)

  def features(
    self,
    table: Any,
    items: np.ndarray,
    slot: int,
    *,
    out: np.ndarray | None = None,
    progress: str = '',
  ) -> np.ndarray:
    """Features of items of one slot: [len(items), *feature_shape] float32, into `out`."""
    most = self.model.max_lengths[slot]
    lengths = batching.bucket_lengths(most)
    sizes = np.minimum(table.sizes(items) + 2, most)
    if out is None:
      out = np.zeros(self.shape(len(items), slot), np.float32)

    def batches():
      for rows in batching.longest_first(sizes, _BATCH):
        length = batching.bucket_of(lengths, sizes[rows[0]])
        yield rows, (tf.constant(table.padded(items[rows], most, length)),)

    with tqdm(total=len(items), desc=progress, disable=not progress, unit=' texts') as bar:
      for rows, values in strategies.map_batches(self.strategy, self._encoders[slot], batches()):
        out[rows] = values
        bar.update(len(rows))
    return out

  def shape(self, items: int | None, slot: int) -> tuple:
    """Shape of the features of so many items."""
    return items, *self.model.feature_shape(slot)

  def head_logits(
    self, features: Sequence[np.ndarray], index: np.ndarray, batch_size: int = 1024
  ) -> np.ndarray:
    """Logits [tuples, O] of tuples given as row numbers [tuples, n] into the slots' features."""
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

  def logits(self, tuples: TokenizedTuples) -> np.ndarray:
    """Logits of tuples: [tuples, O]."""
    return self.head_logits(*self.gather(tuples))

  def of_set(self, records: RecordSet) -> np.ndarray:
    """Logits of a record set's tuples, in order: [tuples, O]."""
    return self.logits(TokenizedTuples.of_set(records, self.tokenizer))

  def gather(self, tuples: TokenizedTuples) -> tuple[list[np.ndarray], np.ndarray]:
    """Features of each slot's occurring items, and the tuples' rows [tuples, n] into them."""
    features, index = [], []
    for slot, table in enumerate(tuples.tables):
      items, rows = np.unique(tuples.items[:, slot], return_inverse=True)
      features.append(self.features(table, items, slot))
      index.append(rows.reshape(-1))
    return features, np.stack(index, 1)

  def kept(self, path: str, table: Any, items: np.ndarray, slot: int) -> np.ndarray:
    """Memory-mapped features of items, from a file that is made if it is missing."""
    shape = tuple(self.shape(len(items), slot))
    if not os.path.exists(path):
      os.makedirs(os.path.dirname(path), exist_ok=True)
      with files.whole(path) as temporary:
        out = np.lib.format.open_memmap(temporary, mode='w+', dtype=np.float32, shape=shape)
        files.reserve(temporary)
        self.features(table, items, slot, out=out, progress=f'encode texts {slot}')
        out.flush()
    with damaged(path, 'delete it and run again'):
      found = np.load(path, mmap_mode='r')
      if found.shape != shape:
        raise ValueError(f'of shape {found.shape}, not {shape}')
    return found
