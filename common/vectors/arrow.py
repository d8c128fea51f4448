"""pyarrow, imported when a store is first used: scoring without stores does not need it."""

import importlib
from typing import Any

import numpy as np

from common import extras


def pyarrow() -> Any:
  """The module; raises InputError where it is not installed."""
  with extras.needed('store', 'a vector store: '):
    return importlib.import_module('pyarrow')


def lists(values: np.ndarray) -> Any:
  """An Arrow array of the rows of [n, ...], each nested fixed-size lists of its shape."""
  arrow = pyarrow()
  found = arrow.array(values.reshape(-1))
  for size in values.shape[:0:-1]:
    found = arrow.FixedSizeListArray.from_arrays(found, size)
  return found
