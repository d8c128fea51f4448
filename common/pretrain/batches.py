"""Batches of masked sequences: a function of the texts, the seed and the step alone.

Dimensions: B sequences, L tokens, P predictions at the most.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from common.data import batching
from common.data.orders import ShuffledByLength
from common.pretrain import masking, sequences
from common.pretrain.masking import Masking
from common.pretrain.sequences import Sequences


class Batch(NamedTuple):
  """Masked sequences, as arrays or tensors; the predictions as of `Masking`."""

  ids: Any  # [B, L] int32
  segments: Any  # [B, L] int32
  positions: Any  # [B, P] int32
  labels: Any  # [B, P] int32
  weights: Any  # [B, P] float32
  next_sentence: Any  # [B] int32, as of `Sequence`


_TYPES = Batch(tf.int32, tf.int32, tf.int32, tf.int32, tf.float32, tf.int32)


class MaskedBatches:
  """Batches of sequences; L is the least bucket that holds the longest of a batch.

  Args:
    of: The sequences.
    mask: Masks them.
    seed: Seed of the shuffling, the masks and the pairs.
    bucketed: Whether L differs from batch to batch; else it is the most tokens.
  """

  def __init__(self, of: Sequences, mask: Masking, seed: int, bucketed: bool):
    self.sequences, self.mask, self.seed = of, mask, seed
    self.lengths = batching.bucket_lengths(of.max_length, bucketed)

  def training(self, start: int, batch_size: int, replicas: int = 1) -> tf.data.Dataset:
    """Endless batches from a step on, one element a replica."""
    copies = self.mask.config.static_masks
    buckets = np.searchsorted(self.lengths, self.sequences.sizes)
    order = ShuffledByLength(np.tile(buckets, max(1, copies)), batch_size, self.seed)
    size = batch_size // replicas
    length = self.lengths[0] if len(self.lengths) == 1 else None
    most = masking.most(length) if length else None
    of_tokens, of_predictions = [size, length], [size, most]
    shapes = (of_tokens, of_tokens, of_predictions, of_predictions, of_predictions, [size])

    def arrays(element: np.int64) -> Batch:
      step, replica = divmod(int(element), replicas)
      rows = order.rows(step)[replica * size : (replica + 1) * size]
      copy, numbers = np.divmod(rows, len(self.sequences))
      visits = element * size + np.arange(size)  # a sequence that comes twice in a batch has two
      return self._batch(numbers, copy if copies else visits)

    def tensors(element: tf.Tensor) -> Batch:
      found = tf.numpy_function(arrays, [element], _TYPES)
      return Batch._make(map(tf.ensure_shape, found, shapes))

    last = np.iinfo(np.int64).max
    return tf.data.Dataset.range(start * replicas, last).map(tensors)

  def each(self, batch_size: int) -> Iterator[tuple[np.ndarray, Batch]]:
    """Each sequence once, with the same mask each time: (their numbers, a batch)."""
    for numbers in batching.longest_first(self.sequences.sizes, batch_size):
      batch = self._batch(numbers, np.zeros_like(numbers))
      yield numbers, Batch._make(map(tf.constant, batch))

  def _batch(self, numbers: np.ndarray, visits: np.ndarray) -> Batch:
    """Sequences by number; the draws of each are its own, and its visit's."""
    most = self.sequences.max_length
    draws = np.stack(
      [
        np.random.default_rng([self.seed, *key]).random(sequences.DRAWS + masking.DRAWS * most)
        for key in zip(numbers.tolist(), visits.tolist(), strict=True)
      ]
    )
    rows = [
      self.sequences.sequence(number, of)
      for number, of in zip(numbers.tolist(), draws[:, : sequences.DRAWS], strict=True)
    ]
    sizes = np.array([len(row.ids) for row in rows])
    length = batching.bucket_of(self.lengths, int(sizes.max()))
    ids = np.full([len(rows), length], self.sequences.tokenizer.pad_id, np.int32)
    segments = np.zeros_like(ids)
    for row, of in enumerate(rows):
      ids[row, : len(of.ids)], segments[row, : len(of.ids)] = of.ids, of.segments
    of_tokens = draws[:, sequences.DRAWS :].reshape(len(rows), masking.DRAWS, most)
    ids, positions, labels, weights = self.mask(ids, sizes, of_tokens[:, :, :length])
    following = np.array([row.next_sentence for row in rows], np.int32)
    return Batch(ids, segments, positions, labels, weights, following)
