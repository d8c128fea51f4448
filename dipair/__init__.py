"""DiPair: fast and accurate distillation for trillion-scale text matching (Chen et al., 2020)."""

import common  # noqa: F401, I001  (quiets TensorFlow before it is imported)
from dipair.scorer import Scorer

__all__ = ['Scorer']
