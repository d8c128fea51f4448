"""DSE: distilled sentence embedding (Barkan et al., 2019)."""

import importlib
from typing import TYPE_CHECKING, Any

from common import __version__, extras  # noqa: I001  (quiets TensorFlow before it is imported)
from common.errors import InputError
from common.scoring.cross_encoder import CrossEncoder
from common.vectors.store import VectorStore
from dse.embedder import Embedder

if TYPE_CHECKING:
  from common.evaluate import evaluate
  from dse.run import distill

_LATE = {'distill': 'dse.run', 'evaluate': 'common.evaluate'}  # whose imports are heavy
__all__ = [
  'CrossEncoder',
  'Embedder',
  'InputError',
  'VectorStore',
  '__version__',
  'distill',
  'evaluate',
]


def __getattr__(name: str) -> Any:
  """`distill` and `evaluate`, imported when they are first asked for."""
  if name not in _LATE:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  try:
    with extras.needed('train'):
      return getattr(importlib.import_module(_LATE[name]), name)
  except InputError as error:  # raised by a call, so that `from dse import *` takes the rest
    return extras.unavailable(error)


def __dir__() -> list[str]:
  """Names that completion offers, `distill` and `evaluate` among them."""
  return sorted({*globals(), *__all__})
