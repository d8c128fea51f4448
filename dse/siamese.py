"""SBERT's two ways from sentence vectors u, v to logits (Reimers and Gurevych, 2019, §3).

Its classification objective is `Concatenation` with cross-entropy. Its regression objective is
`Cosine` with squared error: a cos(u, v) + b, as a score here is a sigmoid; SBERT takes the cosine
itself. DSE's own way is `dse.similarity`.

Dimensions: B pairs, d width of a vector, C outputs.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from common.modeling.head import Head
from common.modeling.similarity_head import Cosine
from dse.similarity import Similarity, SplitHead


class Concatenation(SplitHead):
  """f(u, v) = W [u, v, |u - v|], before the softmax; W u and W v once per text.

  Args:
    dim: d.
    outputs: C.
  """

  def __init__(self, dim: int, outputs: int):
    super().__init__('concatenation')
    self.left, self.right, self.difference = (
      self.add_weight(f'w_{name}', [dim, outputs], initializer='glorot_uniform')
      for name in ('left', 'right', 'difference')
    )

  def logits(
    self,
    parts: Sequence[tf.Tensor],
    vectors: Sequence[tf.Tensor] = (),
    training: bool | None = None,
  ) -> tf.Tensor:
    """Logits [B, C] of parts and vectors of both slots; a slot of one row goes with all others."""
    del training
    u, v = vectors
    return tf.cast(parts[0] + parts[1] + tf.abs(u - v) @ self.difference, tf.float32)


# A head is made of (width of a vector, rows of DSE's W, outputs).
SIMILARITIES: dict[str, Callable[[int, int, int], Head]] = {
  'dse': Similarity,
  'concat': lambda dim, rows, outputs: Concatenation(dim, outputs),
  'cosine': lambda dim, rows, outputs: Cosine('cosine', dim, outputs),
}
