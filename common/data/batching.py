"""Texts of like length share a batch ("smart batching"), so that little is padded."""

from collections.abc import Iterator, Sequence

import numpy as np

LEAST_STEP = 16  # between few buckets
BUCKETS = (*range(8, 64, 8), *range(64, 128, 16), *range(128, 512, 32))


def bucket_lengths(max_length: int, bucketed: bool = True) -> tuple[int, ...]:
  """Lengths that sequences are padded to: BUCKETS up to `max_length`, or that alone."""
  shorter = [length for length in BUCKETS if length < max_length] if bucketed else []
  return (*shorter, max_length)


def few_bucket_lengths(max_length: int) -> tuple[int, ...]:
  """At most four even lengths, for small batches: each bucket costs a gradient of all weights."""
  step = max(LEAST_STEP, -(-max_length // 32) * 8)
  return (*range(step, max_length, step), max_length)


def length_sorted(texts: Sequence[str], batch_size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
  """Yields (row numbers, those rows), as `longest_first` of the texts' lengths, for inference."""
  column = np.array(texts, object)
  for rows in longest_first(np.fromiter(map(len, texts), np.int64, len(texts)), batch_size):
    yield rows, column[rows]


def longest_first(sizes: np.ndarray, batch_size: int) -> Iterator[np.ndarray]:
  """Yields row numbers, `batch_size` at a time, largest sizes first.

  Rows of like length share a batch, so little is padded; the longest come first, so that what does
  not fit in memory fails at once.
  """
  order = np.argsort(-sizes, kind='stable')
  for start in range(0, len(order), batch_size):
    yield order[start : start + batch_size]


def bucket_of(lengths: Sequence[int], size: int) -> int:
  """The least of the lengths that holds a sequence of `size` tokens."""
  return lengths[int(np.searchsorted(lengths, size))]
