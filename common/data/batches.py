"""Batches for training: what a step is given of the tuples that it takes (`common.data.orders`).

Three forms of a batch:

* packed: each tuple is one sequence, with others of its length (the teacher's);
* gathered: rows of features that were computed once (a frozen student's);
* by item: each distinct item of a batch is one sequence, and `index` says which one a tuple takes
  (the students'; an item shared by a hundred tuples is encoded once).

All have `items` [B, n], the tuples' item numbers, and the targets that are asked for, [B, O] each.

Dimensions: B tuples, n slots, O outputs, U distinct items, L tokens.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.data.batching import bucket_lengths, bucket_of, few_bucket_lengths
from common.data.orders import Order
from common.data.tokens import TokenTable, pack, packed_lengths, packed_sizes
from common.data.tuples import Tuples

Batch = dict[str, Any]  # of tensors, and tuples of them


class TupleBatches:
  """Batches of tuples: item numbers and targets, one share a replica.

  Args:
    tuples: The distillation set's, or a teacher's training set's.
    order: Rows that each step takes.
    targets: Which of 'label', 'teacher_logits' and 'soft_labels' are given.
    outputs: O.
    replicas: Shares of a batch.
  """

  def __init__(
    self, tuples: Tuples, order: Order, targets: Sequence[str], outputs: int, replicas: int = 1
  ):
    self.tuples, self.order, self.targets = tuples, order, tuple(targets)
    self.outputs, self.replicas = outputs, replicas
    self.size = order.batch_size // replicas
    self._step, self._rows = -1, np.zeros([0], np.int64)

  def packed(
    self, start: int, tables: Sequence[TokenTable], max_length: int, lengths: Sequence[int]
  ) -> tf.data.Dataset:
    """Batches {'ids', 'segment_ids'} [B, L]; L is the least of `lengths` that holds the longest."""

    def take(rows: np.ndarray) -> list[np.ndarray]:
      items = np.asarray(self.tuples.items[rows])
      sizes = packed_sizes(tables, items, max_length)
      length = bucket_of(lengths, packed_lengths(sizes).max())
      return list(pack(tables, items, sizes, length))

    length = lengths[0] if len(lengths) == 1 else None
    specs = [tf.TensorSpec([self.size, length], tf.int32)] * 2
    return self._dataset(start, take, specs, lambda x: {'ids': x[0], 'segment_ids': x[1]})

  def gathered(
    self, start: int, features: Sequence[np.ndarray], places: Sequence[np.ndarray]
  ) -> tf.data.Dataset:
    """Batches with {'features'}: n of [B, ...].

    Args:
      start: The first step.
      features: [U, ...] a slot.
      places: [items] a slot: the row among them of each item.
    """

    def take(rows: np.ndarray) -> list[np.ndarray]:
      items = np.asarray(self.tuples.items[rows])
      return [f[places[slot][items[:, slot]]] for slot, f in enumerate(features)]

    specs = [tf.TensorSpec([self.size, *f.shape[1:]], tf.float32) for f in features]
    return self._dataset(start, take, specs, lambda arrays: {'features': tuple(arrays)})

  def by_item(
    self,
    start: int,
    tables: Sequence[Any],
    max_lengths: Sequence[int],
    rows_of: Sequence[int] | None = None,
  ) -> tf.data.Dataset:
    """Batches of each slot's distinct items and the tuples' index into them.

    Args:
      start: The first step.
      tables: The items, a slot each, as of `TokenizedTuples`.
      max_lengths: Most tokens, a slot.
      rows_of: Distinct items that a slot's batch is filled up to, for static shapes: one bucket, of
        the slot's most tokens. Otherwise few length buckets.

    Returns:
      {'ids': n tuples of [U_b, L_b] int32, one for each bucket ([U, w] float32 for vectors), none
      empty; 'index': n arrays [B] int32, into the buckets' rows laid end to end}.
    """
    lengths = [(most,) if rows_of else few_bucket_lengths(most) for most in max_lengths]
    pad_id = next((t.tokenizer.pad_id for t in tables if isinstance(t, TokenTable)), 0)

    def take(rows: np.ndarray) -> list[np.ndarray]:
      arrays: list[np.ndarray] = []
      for slot, table in enumerate(tables):
        distinct, index = np.unique(self.tuples.items[rows, slot], return_inverse=True)
        sizes = np.minimum(table.sizes(distinct) + 2, max_lengths[slot])
        buckets = np.searchsorted(lengths[slot], sizes)
        places = np.empty(len(distinct), np.int32)
        made: list[np.ndarray] = []
        for bucket, length in enumerate(lengths[slot]):
          own = np.flatnonzero(buckets == bucket)
          places[own] = np.arange(len(own)) + sum(len(ids) for ids in made)
          # cuDNN's LSTM takes no batch of no rows: an empty bucket has one, which no index is of.
          ids = table.padded(distinct[own if len(own) else [0]], length, length)
          if rows_of:
            missing = [(0, rows_of[slot] - len(ids)), (0, 0)]
            ids = np.pad(ids, missing, constant_values=pad_id)
          made.append(ids)
        arrays += [places[index.reshape(-1)], *made]
      return arrays

    specs: list[tf.TensorSpec] = []
    for slot, of_slot in enumerate(lengths):
      specs.append(tf.TensorSpec([self.size], tf.int32))
      count = rows_of[slot] if rows_of else None
      specs += [tables[slot].spec(count, length) for length in of_slot]

    def batch(arrays: Sequence[tf.Tensor]) -> Batch:
      stream = iter(arrays)
      slots = [(next(stream), tuple(next(stream) for _ in of_slot)) for of_slot in lengths]
      index, ids = zip(*slots, strict=True)
      return {'ids': ids, 'index': index}

    return self._dataset(start, take, specs, batch)

  def _dataset(
    self,
    start: int,
    take: Callable[[np.ndarray], list[np.ndarray]],
    specs: Sequence[tf.TensorSpec],
    batch: Callable[[Sequence[tf.Tensor]], Batch],
  ) -> tf.data.Dataset:
    """Endless batches from a step on, one element a replica."""
    slots = self.tuples.items.shape[1]
    targets = [tf.TensorSpec([self.size, self.outputs], tf.float32)] * len(self.targets)
    all_specs = [tf.TensorSpec([self.size, slots], tf.int32), *targets, *specs]

    def arrays(element: np.int64) -> list[np.ndarray]:
      rows = self._share(int(element))
      own = [self.tuples.targets(name, rows, self.outputs) for name in self.targets]
      return [np.asarray(self.tuples.items[rows]), *own, *take(rows)]

    def tensors(element: tf.Tensor) -> Batch:
      found = tf.numpy_function(arrays, [element], [spec.dtype for spec in all_specs])
      for tensor, spec in zip(found, all_specs, strict=True):
        tensor.set_shape(spec.shape)
      names = ['items', *self.targets]
      return {**dict(zip(names, found, strict=False)), **batch(found[len(names) :])}

    last = np.iinfo(np.int64).max
    return tf.data.Dataset.range(start * self.replicas, last).map(tensors)

  def _share(self, element: int) -> np.ndarray:
    step, replica = divmod(element, self.replicas)
    if step != self._step:
      self._step, self._rows = step, self.order.rows(step)
    return self._rows[replica * self.size : (replica + 1) * self.size]


def by_length(
  tuples: Tuples, tables: Sequence[TokenTable], max_length: int, bucketed: bool
) -> tuple[np.ndarray, tuple[int, ...]]:
  """The length bucket of each packed tuple, [tuples], and the buckets' lengths."""
  lengths = bucket_lengths(max_length, bucketed)
  sizes = packed_lengths(packed_sizes(tables, np.asarray(tuples.items), max_length))
  return np.searchsorted(lengths, sizes), lengths
