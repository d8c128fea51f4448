"""Batches for training: shuffled, tokenized, bucketed by length.

Training streams are functions of (records, seed): an interrupted run skips the batches it has seen
and goes on with the same ones. Three forms of a training batch:

* packed: each pair (tuple) is one sequence, batched with others of its length (the teacher's);
* gathered: rows of encoder outputs that were computed once (a frozen student's);
* by text: each distinct text of a batch is one sequence, and `index` says which text a pair takes
  (the students'; a text shared by a hundred pairs is encoded once).

Dimensions: B pairs, n texts a pair, O outputs, U distinct texts, L tokens.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.data import records
from common.data.batching import bucket_lengths, few_bucket_lengths
from common.data.examples import Example
from common.data.tokenization import Tokenizer

_SHUFFLE_RECORDS = 131_072  # held by the shuffle buffer, in whole blocks

Batch = dict[str, tf.Tensor]


def tuples(
  folder: str, *, outputs: int, targets: Sequence[str], seed: int | None, batch_size: int
) -> tf.data.Dataset:
  """Endless batches of raw tuples, shuffled by whole blocks (in order, and once, without a seed).

  Args:
    folder: A record set.
    outputs: O, the length of a target; one-hot for labels of more than one class.
    targets: Of 'label', 'soft_labels' and 'teacher_logits'; T in number, laid end to end.
    seed: Of the shuffling, which differs from epoch to epoch.
    batch_size: B; the last batch may be smaller where there is no seed.

  Returns:
    A dataset of {'texts': [B, n] string, 'targets': [B, T * O] float32}.
  """
  manifest = records.read_manifest(folder)
  spec = {f'text_{i}': tf.io.FixedLenFeature([], tf.string) for i in range(manifest.texts)}
  for name in targets:
    spec[name] = tf.io.FixedLenFeature([] if name == 'label' else [outputs], tf.float32)

  def parse(serialized: tf.Tensor) -> Batch:
    features = tf.io.parse_example(serialized, spec)
    if 'label' in targets:
      label = features['label']
      classes = tf.one_hot(tf.cast(label, tf.int32), outputs)
      features['label'] = classes if outputs > 1 else label[:, None]
    texts = tf.stack([features[f'text_{i}'] for i in range(manifest.texts)], axis=1)
    return {'texts': texts, 'targets': tf.concat([features[name] for name in targets], 1)}

  shards = tf.data.Dataset.from_tensor_slices(records.paths(folder))
  if seed is None:
    serialized = tf.data.TFRecordDataset(records.paths(folder))
    return serialized.batch(batch_size).map(parse)
  shards = shards.shuffle(len(manifest.shards), seed=seed)
  blocks = shards.interleave(
    lambda path: tf.data.TFRecordDataset(path).batch(manifest.block),
    cycle_length=4,
  )
  buffer = max(1, min(manifest.count, _SHUFFLE_RECORDS) // manifest.block)
  blocks = blocks.shuffle(buffer, seed=seed + 1).repeat()
  return blocks.unbatch().batch(batch_size, drop_remainder=True).map(parse)


def packed(
  folder: str, tokenizer: Tokenizer, *, max_length: int, bucketed: bool = True, **options
) -> tf.data.Dataset:
  """Endless batches of packed tuples of similar length.

  Args:
    folder: A record set.
    tokenizer: Of the teacher.
    max_length: Most tokens of a packed tuple.
    bucketed: False pads every batch to `max_length`.
    **options: As for `tuples`.

  Returns:
    A dataset of {'ids', 'segment_ids': [B, L] int32, 'targets': [B, O]}.
  """
  lengths = bucket_lengths(max_length, bucketed)
  batch_size = options['batch_size']

  def pack(batch: Batch) -> Batch:
    ids, segment_ids = tokenizer.pack(tf.unstack(batch['texts'], axis=1), max_length)
    return {'ids': ids, 'segment_ids': segment_ids, 'targets': batch['targets']}

  sequences = tuples(folder, **options).map(pack, tf.data.AUTOTUNE, deterministic=True).unbatch()
  sequences = sequences.map(lambda one: {k: _dense(v) for k, v in one.items()})
  return sequences.bucket_by_sequence_length(
    lambda one: tf.size(one['ids']),
    bucket_boundaries=[length + 1 for length in lengths],
    bucket_batch_sizes=[batch_size] * (len(lengths) + 1),
    padding_values={'ids': tokenizer.pad_id, 'segment_ids': 0, 'targets': 0.0},
    pad_to_bucket_boundary=True,
    drop_remainder=True,
  )


def target_row(example: Example, targets: Sequence[str], outputs: int) -> list[float]:
  """The targets of an example, as `tuples` gives them: T * O numbers."""
  row: list[float] = []
  for name in targets:
    value = getattr(example, name)
    if name == 'label':
      value = [float(o == value) for o in range(outputs)] if outputs > 1 else [value]
    row.extend(value)
  return row


def split(dataset: tf.data.Dataset, parts: int) -> tf.data.Dataset:
  """Cuts each global batch into one batch a replica, in order."""
  if parts == 1:
    return dataset

  def cut(batch: Batch) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(
      tf.nest.map_structure(lambda x: tf.stack(tf.split(x, parts)), batch)
    )

  return dataset.flat_map(cut)


def by_text(
  batch: Batch,
  tokenizer: Tokenizer,
  max_lengths: Sequence[int],
  *,
  bucketed: bool = True,
  rows: Sequence[int] | None = None,
) -> dict:
  """Turns a batch of raw tuples into each slot's distinct texts and the pairs' indices into them.

  Args:
    batch: As from `tuples`.
    tokenizer: Of the students.
    max_lengths: Most tokens, a slot.
    bucketed: Whether the distinct texts are padded by length bucket, or to the slot's maximum.
    rows: Distinct texts a slot's batch is padded to, a slot, for static shapes (one bucket then).

  Returns:
    {'ids': [n][buckets] of [U_b, L_b] int32, 'index': [n] of [B] int32 into the buckets' rows laid
    end to end, 'targets': [B, O]}.
  """
  ids, index = [], []
  for slot, (texts, max_length) in enumerate(
    zip(tf.unstack(batch['texts'], axis=1), max_lengths, strict=True)
  ):
    lengths = few_bucket_lengths(max_length) if bucketed and rows is None else (max_length,)
    slot_ids, slot_index = _distinct(texts, tokenizer, max_length, lengths)
    if rows is not None:
      shape = [rows[slot], max_length]
      missing = shape[0] - tf.shape(slot_ids[0])[0]
      slot_ids = (tf.pad(slot_ids[0], [[0, missing], [0, 0]], constant_values=tokenizer.pad_id),)
      slot_ids[0].set_shape(shape)
    ids.append(slot_ids)
    index.append(slot_index)
  return {'ids': tuple(ids), 'index': tuple(index), 'targets': batch['targets']}


def gathered(
  features: Sequence[np.ndarray],
  index: np.ndarray,
  targets: np.ndarray,
  batch_size: int,
  seed: int,
) -> tf.data.Dataset:
  """Endless shuffled batches of features; the batch of a step is a function of the step.

  Args:
    features: [U_i, ...] a text slot.
    index: [pairs, n] row numbers into them.
    targets: [pairs, T * O].
    batch_size: B; what an epoch leaves over waits for the next, shuffled anew.
    seed: Of the shuffling.

  Returns:
    A dataset of {'features': n of [B, ...], 'targets': [B, T * O]}.
  """
  steps = len(index) // batch_size
  epoch: dict[str, Any] = {'number': -1}

  def take(step: np.int64) -> list[np.ndarray]:
    number, position = divmod(int(step), steps)
    if epoch['number'] != number:
      order = np.random.default_rng([seed, number]).permutation(len(index))
      epoch.update(number=number, order=order)
    rows = epoch['order'][position * batch_size : (position + 1) * batch_size]
    return [*(f[index[rows, i]] for i, f in enumerate(features)), targets[rows]]

  def batch(step: tf.Tensor) -> dict:
    arrays = tf.numpy_function(take, [step], [tf.float32] * (len(features) + 1))
    for array, source in zip(arrays, [*features, targets], strict=True):
      array.set_shape([batch_size, *source.shape[1:]])
    return {'features': tuple(arrays[:-1]), 'targets': arrays[-1]}

  return tf.data.Dataset.range(np.iinfo(np.int64).max).map(batch)


def _distinct(texts: tf.Tensor, tokenizer: Tokenizer, max_length: int, lengths: Sequence[int]):
  """The distinct texts' ids by length bucket, and each text's row among them."""
  unique, index = tf.unique(texts)  # [U], [B]
  tokens = tokenizer.encode(unique, max_length)
  bucket = tf.searchsorted(list(lengths), tf.cast(tokens.row_lengths(), tf.int32))
  ids, order = [], []
  for number, length in enumerate(lengths):
    members = tf.where(bucket == number)[:, 0]
    padded = tf.gather(tokens, members).to_tensor(tokenizer.pad_id, shape=[None, length])
    ids.append(padded)
    order.append(members)
  row = tf.math.invert_permutation(tf.cast(tf.concat(order, 0), tf.int32))
  return tuple(ids), tf.gather(row, index)


def _dense(value: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
  return value if isinstance(value, tf.Tensor) else value.to_tensor()
