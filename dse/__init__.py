"""DSE: distilled sentence embedding (Barkan et al., 2019)."""

import common  # noqa: F401, I001  (quiets TensorFlow before it is imported)
from dse.embedder import Embedder

__all__ = ['Embedder']
