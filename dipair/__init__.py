"""DiPair: fast and accurate distillation for trillion-scale text matching (Chen et al., 2020)."""

from typing import TYPE_CHECKING, Any

from common import __version__, extras  # noqa: I001  (quiets TensorFlow before it is imported)
from common.errors import InputError
from common.scoring.cross_encoder import CrossEncoder
from common.vectors.store import VectorStore
from dipair.scorer import Scorer

if TYPE_CHECKING:
  from dipair.run import distill

__all__ = ['CrossEncoder', 'Scorer', 'InputError', 'VectorStore', '__version__', 'distill']


def __getattr__(name: str) -> Any:
  """`distill`, whose import loads TensorFlow, when it is first asked for."""
  if name != 'distill':
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  try:
    with extras.needed('train'):
      from dipair.run import distill
  except InputError as error:  # raised by a call, so that `from dipair import *` takes the rest
    return extras.unavailable(error)
  return distill


def __dir__() -> list[str]:
  """Names that completion offers, `distill` among them before it is imported."""
  return sorted({*globals(), *__all__})
