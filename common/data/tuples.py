"""Tuples of items as arrays: row numbers, labels, teacher's logits; a group of them as one record.

Dimensions: n tuples, s slots, O outputs.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from common.errors import InputError

FLOATS = ('label', 'teacher_logits', 'soft_labels')


@dataclasses.dataclass(frozen=True)
class Tuples:
  """Tuples as arrays.

  Attributes:
    items: [n, s] int32, numbers into the slots' tables.
    label: [n, 1] float32, a class number or in [0, 1]; NaN where a tuple has none; None: none has.
    teacher_logits: [n, O] float32; None: not scored.
    soft_labels: [n, O] float32; None: not scored.
    ids: n ids, of a group that is read alone; none where the source gave none.
    groups: [groups + 1] int64, where each group starts, and n.
  """

  items: np.ndarray
  label: np.ndarray | None = None
  teacher_logits: np.ndarray | None = None
  soft_labels: np.ndarray | None = None
  ids: Sequence[str] = ()
  groups: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros([1], np.int64))

  def __len__(self) -> int:
    return len(self.items)

  @property
  def labels(self) -> np.ndarray:
    """The labels of tuples that all have one: [n] float32."""
    if self.label is None:
      raise InputError('the tuples have no labels')
    return self.label[:, 0]

  @property
  def labelled(self) -> np.ndarray:
    """Whether each tuple has a label: [n] bool."""
    if self.label is None:
      return np.zeros(len(self), bool)
    return ~np.isnan(self.label[:, 0])

  def targets(self, name: str, rows: Any, outputs: int) -> np.ndarray:
    """'label' (one-hot for classes), 'teacher_logits' or 'soft_labels': [rows, O]; NaN for none."""
    values = np.asarray(getattr(self, name)[rows])
    if name == 'label' and outputs > 1:
      one_hot = np.eye(outputs, dtype=np.float32)[np.nan_to_num(values[:, 0]).astype(int)]
      return np.where(np.isnan(values), np.float32(np.nan), one_hot)
    return values


def serialize(group: Tuples) -> bytes:
  """A group as a serialized `tf.train.Example`."""
  import tensorflow as tf  # tables in memory do without it

  rows = tf.train.Int64List(value=group.items.reshape(-1))
  size = tf.train.Int64List(value=[len(group)])
  feature = {
    'items': tf.train.Feature(int64_list=rows),
    'tuples': tf.train.Feature(int64_list=size),
  }
  for name in FLOATS:
    if (values := getattr(group, name)) is not None:
      floats = tf.train.FloatList(value=values.reshape(-1))
      feature[name] = tf.train.Feature(float_list=floats)
  if len(group.ids):
    ids = tf.train.BytesList(value=[key.encode() for key in group.ids])
    feature['id'] = tf.train.Feature(bytes_list=ids)
  example = tf.train.Example(features=tf.train.Features(feature=feature))
  return example.SerializeToString(deterministic=True)  # a map's order else differs by process


def parse(record: bytes) -> Tuples:
  """The inverse of `serialize`."""
  import tensorflow as tf

  feature = tf.train.Example.FromString(record).features.feature
  (size,) = feature['tuples'].int64_list.value
  arrays: dict[str, Any] = {
    name: np.array(feature[name].float_list.value, np.float32).reshape([size, -1])
    for name in FLOATS
    if name in feature
  }
  ids = [key.decode() for key in feature['id'].bytes_list.value] if 'id' in feature else ()
  items = np.array(feature['items'].int64_list.value, np.int32).reshape([size, -1])
  return Tuples(items, **arrays, ids=ids, groups=np.array([0, size]))


def concatenated(groups: Sequence[Tuples]) -> Tuples:
  """Groups laid end to end, each still a group."""
  arrays: dict[str, Any] = {'items': np.concatenate([group.items for group in groups])}
  for name in FLOATS:
    found = [getattr(group, name) for group in groups]
    if known := [values for values in found if values is not None]:
      width = known[0].shape[1]
      arrays[name] = np.concatenate(
        [
          np.full([len(group), width], np.nan, np.float32) if values is None else values
          for group, values in zip(groups, found, strict=True)
        ]
      )
  ids = [key for group in groups for key in group.ids]
  return Tuples(**arrays, ids=ids, groups=np.cumsum([0, *map(len, groups)], dtype=np.int64))


def distinct(items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """The distinct rows of items [n, s], first seen first, and [n] which of them each row is."""
  _, firsts, inverse = np.unique(items, axis=0, return_index=True, return_inverse=True)
  order = np.argsort(firsts)
  return items[firsts[order]], np.argsort(order)[inverse.reshape(-1)]


def check_lists(tuples: Tuples) -> None:
  """Refuses a set with one tuple a left item: the loss compares a left item's tuples."""
  left = np.sort(tuples.items[:, 0])
  if not (left[1:] == left[:-1]).any():
    raise InputError(
      'the distillation set: each left text stands in one tuple alone, and this loss compares '
      "a left text's tuples; choose another --loss"
    )


def most_items(tuples: Tuples, batch_size: int) -> list[int]:
  """The most distinct items of each slot that so many tuples of shuffled groups can hold."""
  sizes = np.diff(tuples.groups)
  least = int(sizes.min())
  aligned = least == sizes.max() and batch_size % least == 0
  groups = batch_size // least if aligned else -(-batch_size // least) + 1
  most = []
  for slot in range(tuples.items.shape[1]):
    of_group = [
      len(np.unique(tuples.items[a:b, slot]))
      for a, b in zip(tuples.groups[:-1], tuples.groups[1:], strict=True)
    ]
    most.append(min(batch_size, groups * max(of_group)))
  return most
