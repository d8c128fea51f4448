"""Orders of tuples in training: which of them each step takes.

The tuples of a step depend on the step and the seed alone, so an interrupted run goes on with the
same ones.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from common.data.tuples import Tuples

_SAMPLED_GROUPS = 200


class Order(Protocol):
  """An order of tuples: the rows that each step takes."""

  batch_size: int

  def rows(self, step: int) -> np.ndarray:
    """Row numbers [B] of a step; steps are asked for in rising order."""


class ShuffledGroups:
  """Epochs of groups in random order, the rows of each too, laid end to end and cut into batches.

  What an epoch leaves over is dropped; the next one is shuffled anew.

  Args:
    groups: [groups + 1] where each group starts, and the number of tuples.
    batch_size: B.
    seed: Seed of the shuffling, which differs from epoch to epoch.
  """

  def __init__(self, groups: np.ndarray, batch_size: int, seed: int):
    self.groups, self.batch_size, self.seed = groups, batch_size, seed
    self._steps, self._epoch = int(groups[-1]) // batch_size, -1

  def rows(self, step: int) -> np.ndarray:
    epoch, position = divmod(step, self._steps)
    if epoch != self._epoch:
      rng = np.random.default_rng([self.seed, epoch])
      self._order, self._epoch = rng.permutation(len(self.groups) - 1), epoch
      self._ends = np.cumsum(np.diff(self.groups)[self._order])
    start, stop = position * self.batch_size, (position + 1) * self.batch_size
    first, last = np.searchsorted(self._ends, [start, stop - 1], side='right')
    numbers = self._order[first : last + 1]
    rows = np.concatenate([self._rows(i) for i in numbers])
    start -= self._ends[first - 1] if first else 0
    return rows[start : start + self.batch_size]

  def _rows(self, group: int) -> np.ndarray:
    """A group's rows in this epoch's order, the same in each batch that holds some of them."""
    rng = np.random.default_rng([self.seed, self._epoch, group])
    return rng.permutation(np.arange(*self.groups[group : group + 2]))


class ShuffledLists:
  """Epochs of lists in random order: all tuples of a left item, wherever they stand, are a list.

  The rest of a list that a batch's end cuts begins the next batch.

  Args:
    left: [tuples] number of each one's left item.
    batch_size: B.
    seed: Seed of the shuffling.
  """

  def __init__(self, left: np.ndarray, batch_size: int, seed: int):
    self.batch_size = batch_size
    self._by_left = np.argsort(left, kind='stable')
    starts = np.flatnonzero(np.diff(left[self._by_left], prepend=-1))
    self._lists = ShuffledGroups(np.append(starts, len(left)), batch_size, seed)

  def rows(self, step: int) -> np.ndarray:
    return self._by_left[self._lists.rows(step)]


class ShuffledTuples:
  """Epochs of single tuples in random order.

  Args:
    count: Tuples.
    batch_size: B.
    seed: Seed of the shuffling.
  """

  def __init__(self, count: int, batch_size: int, seed: int):
    self.count, self.batch_size, self.seed = count, batch_size, seed
    self._epoch = -1

  def rows(self, step: int) -> np.ndarray:
    epoch, position = divmod(step, self.count // self.batch_size)
    if epoch != self._epoch:
      rng = np.random.default_rng([self.seed, epoch])
      self._order, self._epoch = rng.permutation(np.arange(self.count, dtype=np.int32)), epoch
    return self._order[position * self.batch_size : (position + 1) * self.batch_size]


class ShuffledByLength:
  """Epochs of tuples in random order, each batch of tuples of like length.

  A batch comes when its last tuple does; tuples that do not fill one wait for the next epoch.

  Args:
    buckets: [tuples] the number of each one's bucket.
    batch_size: B.
    seed: Seed of the shuffling.
  """

  def __init__(self, buckets: np.ndarray, batch_size: int, seed: int):
    self.buckets, self.batch_size, self.seed = buckets, batch_size, seed
    self._epoch, self._first = -1, 0
    self._batches: list[np.ndarray] = []
    self._left = np.zeros([0], np.int64)

  def rows(self, step: int) -> np.ndarray:
    while step >= self._first + len(self._batches):
      self._first += len(self._batches)
      self._next_epoch()
    return self._batches[step - self._first]

  def _next_epoch(self) -> None:
    self._epoch += 1
    rng = np.random.default_rng([self.seed, self._epoch])
    order = np.concatenate([self._left, rng.permutation(len(self.buckets))])
    found, left = [], []
    for bucket in np.unique(self.buckets):
      places = np.flatnonzero(self.buckets[order] == bucket)
      whole = len(places) // self.batch_size * self.batch_size
      found += np.split(places[:whole], whole // self.batch_size) if whole else []
      left.append(places[whole:])
    self._batches = [order[places] for places in sorted(found, key=lambda places: places[-1])]
    self._left = order[np.sort(np.concatenate(left))]


def of_items(
  tuples: Tuples,
  batch_size: int,
  seed: int,
  *,
  encoded: Sequence[int],
  compared: bool,
  blocks: bool,
) -> Order:
  """The order of a distillation set; a batch encodes each of its distinct items once.

  Args:
    tuples: The set.
    batch_size: B.
    seed: Seed of the shuffling.
    encoded: The slots whose items an encoder takes; others hold vectors.
    compared: Whether the loss compares the tuples of a left item: these then come together.
    blocks: Whether the set's groups are blocks, many pairs of few items, which stay together.

  Returns:
    Groups as the set has them where these are blocks, or save encodings; else single tuples.
  """
  if compared and not blocks:
    return ShuffledLists(np.asarray(tuples.items[:, 0]), batch_size, seed)
  if blocks or _saves_encodings(tuples, encoded):
    return ShuffledGroups(tuples.groups, batch_size, seed)
  return ShuffledTuples(len(tuples), batch_size, seed)


def _saves_encodings(tuples: Tuples, encoded: Sequence[int]) -> bool:
  """Whether groups hold a quarter fewer distinct items than as many random tuples, by a sample."""
  some = np.linspace(0, len(tuples.groups) - 2, _SAMPLED_GROUPS).astype(int)
  rng, together, apart = np.random.default_rng(0), 0, 0
  for start, stop in tuples.groups[np.unique(some)[:, None] + [0, 1]]:
    others = np.sort(rng.choice(len(tuples), stop - start, replace=False))
    for slot in encoded:
      together += len(np.unique(tuples.items[start:stop, slot]))
      apart += len(np.unique(tuples.items[others, slot]))
  return bool(encoded) and 4 * together <= 3 * apart
