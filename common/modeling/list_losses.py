"""Losses over lists: the tuples of a batch that share their left item, a query and its candidates.

Each compares a list's logits with one another and leaves their level free. A list is what a batch
holds of it: one of a single tuple counts for nothing. Means are over a replica's share of a batch.

Dimensions: B tuples.
"""

import dataclasses

import tensorflow as tf

Tuples = dict[str, tf.Tensor]
_MARGIN = 1.0  # of triplets, in logits


@dataclasses.dataclass(frozen=True)
class MarginMSE:
  """Mean of ((s_i - s_j) - (t_i - t_j))^2 over the pairs of tuples of a list.

  Margin-MSE (Hofstätter et al., 2020, arXiv:2010.02666) over all pairs in place of one. Over the
  pairs of a list of n it sums to n sum_i (d_i - mean d)^2, d = s - t: B numbers in place of B^2.
  """

  needs = ('teacher_logits', 'items')

  def __call__(self, tuples: Tuples, logits: tf.Tensor) -> tf.Tensor:
    """Losses [B] of logits [B, 1]; their mean is the loss."""
    lists = list_numbers(tuples['items'])
    off = logits[:, 0] - tuples['teacher_logits'][:, 0]
    sizes = _sum(tf.ones_like(off), lists)
    losses = sizes * tf.square(off - _sum(off, lists) / sizes)
    return _scaled(losses, tf.reduce_sum(sizes - 1) / 2)  # n (n - 1) / 2 pairs a list


@dataclasses.dataclass(frozen=True)
class ListwiseKL:
  """Mean of T^2 KL(softmax(t / T) || softmax(s / T)) over the lists of two tuples and more.

  The softmax is over a list's tuples, as in ListNet (Cao et al., 2007), which has the same
  gradients, and in the distillation of ColBERTv2 (Santhanam et al., 2022).

  Args:
    temperature: T > 0, of both sides; T^2 keeps the gradients' size.
  """

  temperature: float = 1.0
  needs = ('teacher_logits', 'items')

  def __call__(self, tuples: Tuples, logits: tf.Tensor) -> tf.Tensor:
    """Losses [B] of logits [B, 1]; their mean is the loss."""
    lists = list_numbers(tuples['items'])
    teacher = _log_softmax(tuples['teacher_logits'][:, 0] / self.temperature, lists)
    student = _log_softmax(logits[:, 0] / self.temperature, lists)
    losses = self.temperature**2 * tf.exp(teacher) * (teacher - student)
    sizes = _sum(tf.ones_like(losses), lists)
    return _scaled(losses, tf.reduce_sum(tf.where(sizes > 1, 1 / sizes, 0.0)))


@dataclasses.dataclass(frozen=True)
class Triplet:
  """Mean of max(0, 1 - (s_i - s_j)) over the pairs of a list with t_i > t_j.

  SBERT's triplet objective and margin (Reimers and Gurevych, 2019, §3), with logits in place of
  distances. The left item is the anchor; the teacher says which of two candidates is the positive
  one. Takes B^2 numbers.
  """

  needs = ('teacher_logits', 'items')

  def __call__(self, tuples: Tuples, logits: tf.Tensor) -> tf.Tensor:
    """Losses [B] of logits [B, 1]; their mean is the loss."""
    left, teacher, student = tuples['items'][:, 0], tuples['teacher_logits'][:, 0], logits[:, 0]
    above = (left[:, None] == left) & (teacher[:, None] > teacher)  # [B, B]
    hinge = tf.nn.relu(_MARGIN - (student[:, None] - student))
    losses = tf.reduce_sum(tf.where(above, hinge, 0.0), 1)
    return _scaled(losses, tf.reduce_sum(tf.cast(above, tf.float32)))


def list_numbers(items: tf.Tensor) -> tf.Tensor:
  """Numbers of the tuples' lists, from 0: [B] int32 below B, of items [B, slots]."""
  order = tf.argsort(items[:, 0], stable=True)
  left = tf.gather(items[:, 0], order)
  starts = tf.concat([[0], tf.cast(left[1:] != left[:-1], tf.int32)], 0)
  return tf.gather(tf.cumsum(starts), tf.argsort(order))


def _sum(values: tf.Tensor, lists: tf.Tensor) -> tf.Tensor:
  """The sum over each tuple's list: [B]. There are B segments, as XLA wants a fixed number."""
  return tf.gather(tf.math.unsorted_segment_sum(values, lists, tf.size(lists)), lists)


def _log_softmax(logits: tf.Tensor, lists: tf.Tensor) -> tf.Tensor:
  """Logarithm of the softmax over each tuple's list: [B]."""
  highest = tf.math.unsorted_segment_max(tf.stop_gradient(logits), lists, tf.size(lists))
  logits -= tf.gather(highest, lists)
  return logits - tf.math.log(_sum(tf.exp(logits), lists))


def _scaled(losses: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
  """Losses [B] so that their mean is their sum by `count`; 0 where that is."""
  return losses * tf.cast(tf.size(losses), tf.float32) / tf.maximum(count, 1.0)
