"""A small transformer over the merged tokens; the first one's output gives the logits (§3.5).

Dimensions: U texts, B tuples, k_i kept tokens of slot i, S = Σ k_i, D their width, O outputs.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers

from common import flags
from common.errors import InputError
from common.modeling.head import Head
from dipair.encoder import present
from dipair.heads.transformer_restructured import RestructuredTransformer


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
  """Depth and widths of the head."""

  layers: int = flags.option(2, "transformer head's layers", bounds=(1, 64))
  attention_heads: int = flags.option(1, "transformer head's attention heads", bounds=(1, 1024))
  inner_dim: int = flags.option(1024, "transformer head's feed-forward width", bounds=(1, 65_536))

  def check(self, dim: int) -> None:
    """Refuses D = 1, which layer normalization reduces to nothing, and more than D heads."""
    if dim < 2:
      raise InputError(
        '--projection_dim=1: layer normalization leaves nothing of one number; two or more are '
        'needed'
      )
    if self.attention_heads > dim:
      raise InputError(
        f'--head_attention_heads={self.attention_heads}: the kept tokens are {dim} wide '
        f'(--projection_dim); {dim} or fewer heads are needed'
      )


class TransformerHead(Head):
  """The head.

  Position and segment embeddings are added, as in BERT; all-zero rows are masked. The last layer
  is computed for its first row only: nothing else of it is used. Kernels start from Glorot's
  uniform: BERT's deviation of 0.02 is made for its width and leaves so narrow a head near zero
  (queries, keys and segments: see `start`).

  Args:
    config: Layers, attention heads, widths.
    tokens: k_i, a slot.
    dim: D.
    outputs: O.
    dropout: Rate, of attention too.
  """

  def __init__(
    self, config: TransformerConfig, tokens: Sequence[int], dim: int, outputs: int, dropout: float
  ):
    super().__init__('transformer_head')
    self.tokens, self.dim = tuple(tokens), dim
    self.positions = self.add_weight(
      'position_embeddings', [sum(tokens), dim], initializer=_initializer()
    )
    self.segments = self.add_weight(
      'segment_embeddings', [len(tokens), dim], initializer=_initializer()
    )
    self.norm = tf_keras.layers.LayerNormalization(
      epsilon=1e-12, dtype=tf.float32, name='embeddings/layer_norm'
    )
    self.dropout = tf_keras.layers.Dropout(dropout)
    self.blocks = [
      layers.TransformerEncoderBlock(
        config.attention_heads,
        config.inner_dim,
        _gelu,
        output_dropout=dropout,
        attention_dropout=dropout,
        name=f'layer_{i}',
      )
      for i in range(config.layers)
    ]
    self.classifier = tf_keras.layers.Dense(outputs, dtype=tf.float32, name='classifier')

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    """Rows of the first layer's input: [U, k_i, D] to [U, k_i, D]; all-zero rows stay all-zero."""
    x = self.norm(vectors + self.embeddings(slot))
    return x * present(vectors)[..., None]

  def embeddings(self, slot: int) -> tf.Tensor:
    """Position and segment embeddings of a slot's tokens: [k_i, D]."""
    start = sum(self.tokens[:slot])
    return self.positions[start : start + self.tokens[slot]] + self.segments[slot]

  def logits(
    self,
    parts: Sequence[tf.Tensor],
    vectors: Sequence[tf.Tensor] = (),
    training: bool | None = None,
  ) -> tf.Tensor:
    """Maps parts, [B, k_i, D] a slot, to logits [B, O] float32."""
    del vectors
    x, mask = self.merged(parts)
    x = self.dropout(x, training=training)
    for block in self.blocks[:-1]:
      x = block([x, mask], training=training)
    x = self.blocks[-1]([x, mask], output_range=1, training=training)  # [B, 1, D]
    return self.classifier(x[:, 0])

  def merged(self, parts: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Inputs of the first layer: rows [B, S, D], and [B, S, S], 1.0 where a row may be seen."""
    x = tf.concat(list(parts), axis=1)
    return x, tf.tile(present(x)[:, None, :], [1, x.shape[1], 1])

  def start(self, vectors: Sequence[np.ndarray], seed: int) -> None:
    """Starts where tokens attend to those like them in the other text (see `initialization`).

    Args:
      vectors: [U_i, k_i, D] a slot, of some texts; all-zero rows are padding.
      seed: Seed of the segment embeddings.
    """
    self.positions.assign(-np.concatenate([_mean_by_position(tokens) for tokens in vectors]))
    segments = np.random.default_rng(seed).normal(size=self.segments.shape)
    # As large as the tokens, which without a projection are as the encoder gives them.
    self.segments.assign(_spread(vectors) * segments)
    span, _ = np.linalg.qr(segments.T)
    turned = np.eye(self.dim) - 2 * span @ span.T
    for variable in self.attention_kernels():
      dim, heads, width = variable.shape
      looked_for = turned if variable.name.split(':')[0].endswith('key/kernel') else np.eye(dim)
      variable.assign((looked_for @ np.eye(dim, heads * width)).reshape([dim, heads, width]))

  def attention_kernels(self) -> list[tf.Variable]:
    """Every layer's query and key kernels, [D, heads, D / heads] each."""
    names = ('query/kernel', 'key/kernel')
    return [v for v in self.trainable_variables if v.name.split(':')[0].endswith(names)]

  def exported(self) -> RestructuredTransformer:
    """This head with equal logits in fewer operations."""
    embeddings = [self.embeddings(slot) for slot in range(len(self.tokens))]
    return RestructuredTransformer(embeddings, self.norm, self.blocks, self.classifier)


def _mean_by_position(tokens: np.ndarray) -> np.ndarray:
  """Mean over the texts that reach a position: [U, k, D] to [k, D]."""
  there = np.any(tokens != 0, axis=-1).sum(0)  # [k]
  return tokens.sum(0) / np.maximum(1, there)[:, None]


def _spread(vectors: Sequence[np.ndarray]) -> float:
  """Root of the mean variance of the tokens' numbers, [U_i, k_i, D] a slot.

  1 after the projection that `initialization` gives texts, unless that is wider than their encoder.
  """
  rows = np.concatenate([tokens.reshape([-1, tokens.shape[-1]]) for tokens in vectors])
  return float(np.sqrt(rows[rows.any(axis=1)].var(axis=0).mean()))


def _gelu(x: tf.Tensor) -> tf.Tensor:
  return tf.nn.gelu(x, approximate=True)


def _initializer() -> tf_keras.initializers.Initializer:
  return tf_keras.initializers.TruncatedNormal(stddev=0.02)
