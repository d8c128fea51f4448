"""pyarrow, imported when a store is first used: scoring without stores does not need it."""

import importlib
from typing import Any

from common import extras


def pyarrow() -> Any:
  """The module; raises InputError where it is not installed."""
  with extras.needed('store', 'a vector store: '):
    return importlib.import_module('pyarrow')
