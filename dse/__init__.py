"""DSE: distilled sentence embedding (Barkan et al., 2019)."""

from typing import TYPE_CHECKING

from common import __version__, extras  # noqa: I001  (quiets TensorFlow before it is imported)
from common.errors import InputError
from common.scoring.cross_encoder import CrossEncoder
from common.vectors.store import VectorStore
from dse.embedder import Embedder

if TYPE_CHECKING:
  from common.evaluate import evaluate
  from dse.run import distill

__all__ = [
  'CrossEncoder',
  'Embedder',
  'InputError',
  'VectorStore',
  '__version__',
  'distill',
  'evaluate',
]
__getattr__ = extras.late(__name__, {'distill': 'dse.run', 'evaluate': 'common.evaluate'})


def __dir__() -> list[str]:
  """Names that completion offers, `distill` and `evaluate` among them."""
  return sorted({*globals(), *__all__})
