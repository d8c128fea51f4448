"""pyarrow, imported when a store is first used: scoring without stores does not need it."""

import importlib
from typing import Any

from common.errors import InputError


def pyarrow() -> Any:
  """The module; raises InputError where it is not installed."""
  try:
    return importlib.import_module('pyarrow')
  except ModuleNotFoundError as error:
    raise InputError('a vector store takes pyarrow: pip install pyarrow') from error
