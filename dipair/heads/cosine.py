"""DE-Cos (§4.2): the cosine between one vector a text.

The paper's vector is the output at [CLS], the first kept token; the mean of the kept tokens is the
other usual one. A text is stored as its kept tokens, so `--output_tokens=1,1` goes with the first.

Dimensions: U texts, B pairs, k_i kept tokens of slot i, D their width, O outputs.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from common import flags
from common.modeling.similarity_head import Cosine


@dataclasses.dataclass(frozen=True)
class CosineConfig:
  """The vector of a text."""

  pooling: str = flags.option(
    'first', "cosine head's vector of a text, of its kept tokens", ('first', 'mean')
  )


class CosineHead(Cosine):
  """The head: logits = scale * cos(u, v) + bias.

  Args:
    config: The vector of a text.
    tokens: k_i, a slot.
    dim: D.
    outputs: O.
    dropout: Not used.
  """

  def __init__(
    self, config: CosineConfig, tokens: Sequence[int], dim: int, outputs: int, dropout: float
  ):
    del tokens, dropout
    super().__init__('cosine_head', dim, outputs)
    self.pooling = config.pooling

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    """The text's vector, of length 1: [U, k_i, D] to [U, D]; all-zero for a text without tokens."""
    # The sum has the mean's direction; padded rows, all zeros, add nothing to it.
    pooled = vectors[:, 0] if self.pooling == 'first' else tf.reduce_sum(vectors, axis=1)
    return super().part(pooled, slot)
