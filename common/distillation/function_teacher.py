"""A teacher that is a function of texts, given from Python in place of a folder.

A run's flags hold its name (`python:CrossEncoder.predict`). The run goes on with a function of the
same name and refuses any other.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from common.data import examples
from common.data.examples import TableConfig
from common.data.records import RecordSet
from common.data.tuple_set import TupleSet
from common.distillation.annotate import Advance, Labeller
from common.errors import InputError

Function = Callable[[list[tuple[str, ...]]], Any]  # tuples of texts to scores, [n] or [n, outputs]
_PREFIX = 'python:'
_BLOCK = 2048  # tuples of a call
_FIRST = 256  # tuples that are scored before all others


def name_of(function: Function) -> str:
  """Name of a function among the teachers of a run's flags."""
  return _PREFIX + getattr(function, '__qualname__', type(function).__name__)


def is_named(teacher: str) -> bool:
  """Whether a teacher of a run's flags is a function."""
  return teacher.startswith(_PREFIX)


def labeller(function: Function, table: TableConfig, records: TupleSet) -> Labeller:
  """A function of tuples of a record set, [n, slots] item numbers, to logits, some at a time."""

  @functools.cache
  def contents() -> list[list[Any]]:
    """Each slot's items, which are read once for all shards."""
    return [list(records.items(slot).contents()) for slot in range(records.slots)]

  def label(items: np.ndarray, advance: Advance) -> Iterator[np.ndarray]:
    for start in range(0, len(items), _BLOCK):
      rows = items[start : start + _BLOCK].tolist()
      block = [tuple(of[n] for of, n in zip(contents(), row, strict=True)) for row in rows]
      logits = _logits(function, table, block)
      advance(len(block))
      yield logits

  return label


def check(function: Function, table: TableConfig, records: RecordSet) -> None:
  """Refuses scores that are not what `--teacher_scores` says, by the set's first tuples."""
  first = records.head(_FIRST).items[:_FIRST]
  logits = np.concatenate(list(labeller(function, table, records)(first, lambda _: None)))
  if table.teacher_scores == 'logit' and 0 <= logits.min() <= logits.max() <= 1:
    raise InputError(
      f'--teacher={name_of(function)}: its scores lie within [0, 1], as probabilities do and '
      'logits do not; --teacher_scores=probability takes them'
    )


def _logits(function: Function, table: TableConfig, texts: list[tuple[str, ...]]) -> np.ndarray:
  """Logits [n, outputs] of tuples of texts."""
  given, name = function(texts), name_of(function)
  try:
    scores = np.asarray(given, np.float64)
  except (TypeError, ValueError) as error:
    of_rows = f' of {type(given[0]).__name__}' if isinstance(given, (list, tuple)) else ''
    raise InputError(
      f'--teacher={name}: it gave a {type(given).__name__}{of_rows} ({error}); numbers are needed, '
      'one a tuple of texts, or one a class'
    ) from error
  if scores.ndim not in (1, 2) or len(scores) != len(texts):
    raise InputError(
      f'--teacher={name}: scores of shape {list(scores.shape)} for {len(texts)} tuples of texts; '
      'one a tuple, or one a class'
    )
  rows = scores.reshape(len(texts), -1).tolist()
  return np.array(
    [
      examples.logits(row, table, f'--teacher={name}, {own!r}')
      for row, own in zip(rows, texts, strict=True)
    ]
  )
