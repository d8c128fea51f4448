"""Heads: float tensors of kept tokens in, logits out (§3.5, §3.6). They hold no tokenizer.

Dimensions: b pairs, k_i kept tokens of text i, S = Σ k_i, D their width, O outputs.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers

from dipair.config import StudentConfig
from dipair.encoder import present


class TransformerHead(tf_keras.layers.Layer):
  """A small transformer over the merged tokens; the first one's output gives the logits (§3.5).

  Position and segment embeddings are added, as in BERT; all-zero rows are masked. The last layer
  is computed for its first row only: nothing else of it is used. Kernels start from Glorot's
  uniform: BERT's deviation of 0.02 is made for its width and leaves so narrow a head near zero
  (queries, keys and segments: see `dipair.initialization`).

  Args:
    config: Layers, attention heads, widths, dropout.
    dim: D.
    outputs: O.
  """

  def __init__(self, config: StudentConfig, dim: int, outputs: int):
    super().__init__(name='transformer_head')
    length, texts = sum(config.output_tokens), len(config.output_tokens)
    self.positions = self.add_weight(
      'position_embeddings', [length, dim], initializer=_initializer()
    )
    self.segments = self.add_weight('segment_embeddings', [texts, dim], initializer=_initializer())
    self.segment_ids = [i for i, k in enumerate(config.output_tokens) for _ in range(k)]  # [S]
    self.norm = tf_keras.layers.LayerNormalization(
      epsilon=1e-12, dtype=tf.float32, name='embeddings/layer_norm'
    )
    self.dropout = tf_keras.layers.Dropout(config.dropout)
    self.blocks = [
      layers.TransformerEncoderBlock(
        config.head_attention_heads,
        config.head_inner_dim,
        lambda x: tf_keras.activations.gelu(x, approximate=True),
        output_dropout=config.dropout,
        attention_dropout=config.dropout,
        name=f'layer_{i}',
      )
      for i in range(config.head_layers)
    ]
    self.classifier = tf_keras.layers.Dense(outputs, name='classifier')

  def call(self, tokens: Sequence[tf.Tensor], training: bool | None = None) -> tf.Tensor:
    """Maps tokens, [b, k_i, D] a text, to logits [b, O] float32."""
    x, attention_mask = self.embed(tokens, training)
    for block in self.blocks[:-1]:
      x = block([x, attention_mask], training=training)
    x = self.blocks[-1]([x, attention_mask], output_range=1, training=training)  # [b, 1, D]
    return tf.cast(self.classifier(x[:, 0]), tf.float32)

  def embed(
    self, tokens: Sequence[tf.Tensor], training: bool | None = None
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """What the first layer takes: rows [b, S, D], and [b, S, S], 1.0 where a row may be seen."""
    x = tf.concat(list(tokens), axis=1)  # [b, S, D]
    mask = present(x)  # [b, S]
    x = x + self.positions + tf.gather(self.segments, self.segment_ids)
    x = self.dropout(self.norm(x), training=training)
    return x, tf.tile(mask[:, None, :], [1, x.shape[1], 1])

  def attention_kernels(self) -> list[tf.Variable]:
    """Every layer's query and key kernels, [D, heads, D / heads] each."""
    names = ('query/kernel', 'key/kernel')
    return [v for v in self.trainable_variables if v.name.split(':')[0].endswith(names)]


class FeedForwardHead(tf_keras.layers.Layer):
  """DiPairFFNN (§4.2): the kept tokens laid end to end, through a few dense ReLU layers.

  Args:
    config: Widths, dropout.
    dim: D.
    outputs: O.
  """

  def __init__(self, config: StudentConfig, dim: int, outputs: int):
    super().__init__(name='feed_forward_head')
    self.width = sum(config.output_tokens) * dim
    self.hidden = [
      tf_keras.layers.Dense(units, 'relu', name=f'hidden_{i}')
      for i, units in enumerate(config.ffnn_dims)
    ]
    self.dropout = tf_keras.layers.Dropout(config.dropout)
    self.classifier = tf_keras.layers.Dense(outputs, name='classifier')

  def call(self, tokens: Sequence[tf.Tensor], training: bool | None = None) -> tf.Tensor:
    """Maps tokens, [b, k_i, D] a text, to logits [b, O] float32."""
    x = tf.reshape(tf.concat(list(tokens), axis=1), [-1, self.width])
    for layer in self.hidden:
      x = self.dropout(layer(x), training=training)
    return tf.cast(self.classifier(x), tf.float32)


def _initializer() -> tf_keras.initializers.Initializer:
  return tf_keras.initializers.TruncatedNormal(stddev=0.02)


HEADS: dict[str, Any] = {'transformer': TransformerHead, 'ffnn': FeedForwardHead}
