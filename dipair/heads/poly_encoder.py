"""The Poly-encoder (Humeau et al. 2020, §4.4), which DiPair is compared with in Appendix C.

Learnt codes c_i attend over the left text's tokens x_t: y_i = sum_t softmax_t(c_i . x_t) x_t. The
right text is one vector v, its first kept token, which attends over the y_i: y = sum_i a_i y_i with
a = softmax_i(v . y_i), and s = v . y. That is sum_i a_i (v . y_i): the products are needed once.

Its limits, as Appendix C has them: one text must be short (below 20 tokens, say), here the right
one, of which one vector is all that is seen; it scores pairs, no more texts; and s is one number,
so it is made for regression and binary tasks: classes would differ by a slope and an offset alone.

Here s and the codes' attention are divided by sqrt(D), and s is scaled to logits. Of the left text
the codes see the kept tokens: `--output_tokens=32,1` is nearer to that paper than `4,8`. In Table 7
the left text is the one vector.

Dimensions: U texts, B pairs, k_i kept tokens of slot i, D their width, m codes, O outputs.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from common import flags
from common.modeling.similarity_head import SimilarityHead
from dipair.encoder import attention_mask


@dataclasses.dataclass(frozen=True)
class PolyEncoderConfig:
  """Number of codes."""

  codes: int = flags.option(
    8, "Poly-encoder head's codes, vectors that stand for a left text", bounds=(1, 1024)
  )


class PolyEncoderHead(SimilarityHead):
  """The head: logits = scale * s + bias.

  Args:
    config: m.
    tokens: k_i, a slot.
    dim: D.
    outputs: O.
    dropout: Not used.
  """

  def __init__(
    self, config: PolyEncoderConfig, tokens: Sequence[int], dim: int, outputs: int, dropout: float
  ):
    del tokens, dropout
    super().__init__('poly_encoder_head', outputs)
    self.codes = self.add_weight(
      'codes', [config.codes, dim], initializer=tf_keras.initializers.RandomNormal(stddev=1.0)
    )

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    """y_i / sqrt(D) of left texts, v of right ones: [U, k_i, D] to [U, m, D] or [U, D]."""
    if slot:
      return vectors[:, 0]
    shrunk = vectors * self.codes.shape[1] ** -0.5
    attention = tf.transpose(tf.tensordot(shrunk, self.codes, [[2], [1]]), [0, 2, 1])  # [U, m, k_0]
    return tf.nn.softmax(attention + attention_mask(vectors)) @ shrunk

  def similarity(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Maps [B, m, D] and [B, D] to [B]."""
    products = tf.squeeze(tf.matmul(right[:, None], left, transpose_b=True), 1)  # [B, m]
    return tf.reduce_sum(tf.nn.softmax(products) * products, axis=-1)
