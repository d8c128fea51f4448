"""DiPair: fast and accurate distillation for trillion-scale text matching (Chen et al., 2020)."""

from typing import TYPE_CHECKING

from common import __version__, extras  # noqa: I001  (quiets TensorFlow before it is imported)
from common.errors import InputError
from common.scoring.cross_encoder import CrossEncoder
from common.vectors.store import VectorStore
from dipair.scorer import Scorer

if TYPE_CHECKING:
  from common.evaluate import evaluate
  from dipair.run import distill

__all__ = [
  'CrossEncoder',
  'Scorer',
  'InputError',
  'VectorStore',
  '__version__',
  'distill',
  'evaluate',
]
__getattr__ = extras.late(__name__, {'distill': 'dipair.run', 'evaluate': 'common.evaluate'})


def __dir__() -> list[str]:
  """Names that completion offers, `distill` and `evaluate` among them."""
  return sorted({*globals(), *__all__})
