"""A mined task, opened: vectors of its items, known matches, and its pairs in readable form."""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from common import digests
from common.data.records import RecordSet
from common.distillation import mining
from common.vectors.store import VectorStore


@dataclasses.dataclass(frozen=True)
class MinedTask:
  """A mined task, as `mining.mine` left it in a folder.

  Attributes:
    queries: Vectors of the queries, by item number.
    passages: Vectors of the passages.
    positives: [n, 2] pairs known to match.
    splits: [queries] each one's split, a number into `SPLITS`.
  """

  queries: VectorStore
  passages: VectorStore
  positives: np.ndarray
  splits: np.ndarray

  @classmethod
  def open(cls, folder: str) -> 'MinedTask':
    """Opens the folder."""
    left, right = (VectorStore(os.path.join(folder, mining.VECTORS, s)) for s in ('left', 'right'))
    path = os.path.join(folder, mining.KNOWN)
    known = digests.read_arrays(path, 'delete its folder and run again')
    return cls(left, right, known['positives'], known['splits'])

  def similarity(self, pairs: np.ndarray) -> np.ndarray:
    """Inner products of pairs [n, 2]: [n]."""
    return mining.similarity(pairs, self.queries, self.passages)

  def rows(self, records: RecordSet, count: int | None = None) -> Iterator[dict[str, Any]]:
    """A set's pairs, or the first of them, as {'id', 'query', 'passage', 'similarity', 'label'}.

    Their texts are held in memory.
    """
    tuples = records.tuples() if count is None else records.head(count)
    pairs = tuples.items[:count]
    named = [_named(records, slot, pairs[:, slot]) for slot in (0, 1)]
    for i, (pair, similarity) in enumerate(zip(pairs, self.similarity(pairs), strict=True)):
      (query, query_id), (passage, passage_id) = (named[s][pair[s]] for s in (0, 1))
      row = {
        'id': f'{query_id}-{passage_id}',
        'query': query,
        'passage': passage,
        'similarity': round(float(similarity), 4),
      }
      yield row if tuples.label is None else {**row, 'label': int(tuples.label[i, 0])}


def _named(records: RecordSet, slot: int, numbers: np.ndarray) -> dict[int, tuple[str, str]]:
  """(text, id) of each of the items."""
  items = records.items(slot)
  wanted = np.zeros(len(items), bool)
  wanted[numbers] = True
  named = zip(items.texts(), items.ids(), strict=True)
  return {number: item for number, item in enumerate(named) if wanted[number]}
