"""DE-Cos (§4.2): the cosine between one vector a text.

A text's vector is the output at [CLS], as in the paper: the first of its kept tokens. All kept
tokens are stored, so `--output_tokens=1,1` goes with this head.

Dimensions: U texts, B pairs, k_i kept tokens of slot i, D their width, O outputs.
"""

from collections.abc import Sequence

import tensorflow as tf

from common.modeling.similarity_head import Cosine


class CosineHead(Cosine):
  """The head: logits = scale * cos(u, v) + bias.

  Args:
    config: None.
    tokens: k_i, a slot.
    dim: D.
    outputs: O.
    dropout: Not used.
  """

  def __init__(self, config: None, tokens: Sequence[int], dim: int, outputs: int, dropout: float):
    del config, tokens, dim, dropout
    super().__init__('cosine_head', outputs)

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    """The text's vector, of length 1: [U, k_i, D] to [U, D]; all-zero for a text without tokens."""
    return super().part(vectors[:, 0], slot)
