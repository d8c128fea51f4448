"""Numbers that tell texts apart as an uncased BERT tokenizer reads them (`word_pieces.normal`)."""

import numpy as np
from tqdm import tqdm

from common.data.texts import hash64
from common.data.tuple_set import ItemTable, TupleSet
from common.data.word_pieces import normal


def of_items(items: ItemTable, numbers: np.ndarray | None = None) -> np.ndarray:
  """A number for each item, or each of `numbers`; texts with one normal form share it.

  [items] uint64.
  """
  count = len(items) if numbers is None else len(numbers)
  contents = items.contents(numbers)
  read = tqdm(contents, 'texts compared', count, unit=' texts', delay=2, leave=False)
  normals = (normal(item) if isinstance(item, str) else item for item in read)
  return np.fromiter(map(hash64, normals), np.uint64, count)


def of_tuples(records: TupleSet) -> np.ndarray:
  """The keys of a small set's tuples, [n, slots]; its tables may hold many more items."""
  columns = []
  for slot, column in enumerate(records.tuples().items.T):
    used, places = np.unique(column, return_inverse=True)
    columns.append(of_items(records.items(slot), used)[places])
  return np.stack(columns, 1)
