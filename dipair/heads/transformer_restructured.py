"""The transformer head in fewer operations: the same logits, to rounding (§3.5).

What a head computes of a text alone, whatever it is paired with, is that text's part: made once per
text, or once per call for a query. The rest is computed per pair. Exact in three steps:

* Part: the first layer's input (position and segment embeddings, LayerNorm) and its queries, keys
  and values. A padded position's part is all zeros, as its vector is, and is masked.
* One attention head: (W_q x_i) . (W_k x_j) = (W_k^T W_q x_i) . x_j, so that x_j is its own key, and
  W_o W_v is one matrix: the part is [x, q, v], the output projection is gone.
* Last layer: computed for its first row alone, and without its keys and values:
  q . (W_k x_j) = (W_k^T q) . x_j, and sum_j a_j W_v x_j = W_v sum_j a_j x_j.

Dimensions: B tuples, k_i kept tokens of slot i, S = sum k_i, D their width, h attention heads of
width e, R width of a part, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from common.modeling.head import to_same_rows
from dipair.encoder import present

if TYPE_CHECKING:
  from dipair.heads.transformer import TransformerHead

_MASKED = -1e9  # added to the attention logits of padded positions


class RestructuredTransformer(tf.Module):
  """A `TransformerHead` as it is exported; later changes of the trained one are not seen."""

  takes_vectors, attends = False, True

  def __init__(self, head: TransformerHead):
    super().__init__(name='transformer')
    self.tokens = head.tokens
    self.added = [tf.Variable(head.embeddings(slot)) for slot in range(len(head.tokens))]
    self.norm = _LayerNorm(head.norm)
    self.blocks = [_Block(block) for block in head.blocks]
    self.classifier = [tf.Variable(v) for v in head.classifier.variables]
    # Widths of x and of what the first layer's attention takes beside it (nothing if it is the last).
    widths = self.blocks[0].input_widths if len(self.blocks) > 1 else []
    self.widths = [head.dim, *widths]

  def part_shape(self, slot: int) -> tuple[int, ...]:
    return self.tokens[slot], sum(self.widths)

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    x = self.norm(vectors + self.added[slot])
    inputs = self.blocks[0].attention_inputs(x) if len(self.blocks) > 1 else []
    return tf.concat([x, *inputs], axis=-1) * present(vectors)[..., None]

  def logits(self, parts: Sequence[tf.Tensor], vectors: Sequence[tf.Tensor] = ()) -> tf.Tensor:
    del vectors  # the parts have all of them
    part = tf.concat(to_same_rows(parts), axis=1)  # [B, S, R]
    mask = (1.0 - present(part))[:, None, :] * _MASKED  # [B, 1, S]
    x, *inputs = tf.split(part, self.widths, axis=-1)
    for number, block in enumerate(self.blocks[:-1]):
      x = block(x, inputs if number == 0 else block.attention_inputs(x), mask)
    x = self.blocks[-1].first_row(x, mask)
    kernel, bias = self.classifier
    return x @ kernel + bias

  def attention(self, vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    tokens = tf.concat(list(vectors), axis=1)  # [B, S, D]
    mask = (1.0 - present(tokens))[:, None, :] * _MASKED
    x = self.norm(tokens + tf.concat(self.added, axis=0))
    found = []
    for block in self.blocks:
      inputs = block.attention_inputs(x)
      found.append(tf.reduce_mean(block.weights(x, inputs, mask), axis=1))
      x = block(x, inputs, mask)
    return tf.stack(found, axis=1)


class _Block(tf.Module):
  """A layer of BERT: attention and feed-forward, each followed by LayerNorm.

  Keys have no bias: it adds the same to all of a row's attention logits, which softmax does not
  see. That of values passes through, as attention's weights add up to one: it joins the output's.

  Attributes:
    input_widths: Widths of what `attention_inputs` gives.
  """

  def __init__(self, block: Any):
    super().__init__()
    (query, query_bias), (key, _), (value, value_bias), (output, output_bias) = (
      [v.read_value() for v in getattr(block._attention_layer, f'_{name}_dense').variables]
      for name in ('query', 'key', 'value', 'output')
    )
    dim, self.heads, width = query.shape  # D, h, e
    query, key, value = (tf.reshape(kernel, [dim, -1]) for kernel in (query, key, value))
    output = tf.reshape(output, [-1, dim])
    query, query_bias = query * width**-0.5, tf.reshape(query_bias, [-1]) * width**-0.5
    output_bias += tf.linalg.matvec(output, tf.reshape(value_bias, [-1]), transpose_a=True)
    if self.heads == 1:
      query, query_bias = query @ tf.transpose(key), tf.linalg.matvec(key, query_bias)
      value = value @ output
    self.query, self.query_bias = tf.Variable(query), tf.Variable(query_bias)
    self.value, self.output_bias = tf.Variable(value), tf.Variable(output_bias)
    if self.heads > 1:
      self.key, self.output = tf.Variable(key), tf.Variable(output)
    self.input_widths = [dim, dim] if self.heads == 1 else [self.heads * width] * 3
    self.attention_norm, self.output_norm = (
      _LayerNorm(block._attention_layer_norm),
      _LayerNorm(block._output_layer_norm),
    )
    self.inner, self.outer = (
      [tf.Variable(v) for v in layer.variables]
      for layer in (block._intermediate_dense, block._output_dense)
    )

  def attention_inputs(self, x: tf.Tensor) -> list[tf.Tensor]:
    """Queries, keys where they are not x itself, and values: [B, S, D] each."""
    query, value = _times(x, self.query) + self.query_bias, _times(x, self.value)
    return [query, value] if self.heads == 1 else [query, _times(x, self.key), value]

  def __call__(self, x: tf.Tensor, inputs: Sequence[tf.Tensor], mask: tf.Tensor) -> tf.Tensor:
    """Maps [B, S, D] to [B, S, D]; mask is [B, 1, S], added to the attention logits."""
    weights = self.weights(x, inputs, mask)
    if self.heads == 1:
      attended = weights[:, 0] @ inputs[1]
    else:
      attended = tf.transpose(weights @ self._split(inputs[2]), [0, 2, 1, 3])
      attended = _times(tf.reshape(attended, tf.shape(inputs[0])), self.output)
    return self._feed_forward(x + attended + self.output_bias)

  def weights(self, x: tf.Tensor, inputs: Sequence[tf.Tensor], mask: tf.Tensor) -> tf.Tensor:
    """Attention weights between rows: [B, h, S, S]; arguments as for `__call__`."""
    if self.heads == 1:
      return tf.nn.softmax(tf.matmul(inputs[0], x, transpose_b=True) + mask)[:, None]
    query, key = (self._split(i) for i in inputs[:2])  # [B, h, S, e]
    return tf.nn.softmax(tf.matmul(query, key, transpose_b=True) + mask[:, None])

  def first_row(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The first row of what the layer gives: [B, S, D] to [B, D]."""
    first, dim = x[:, 0], x.shape[2]
    query = first @ self.query + self.query_bias  # [B, h e], or [B, D] for one head
    if self.heads > 1:
      query = tf.einsum('bhe,dhe->bhd', self._by_head(query), self._by_head(self.key))
    logits = tf.matmul(tf.reshape(query, [-1, self.heads, dim]), x, transpose_b=True) + mask
    mixed = tf.nn.softmax(logits) @ x  # [B, h, D]
    if self.heads == 1:
      attended = tf.reshape(mixed, [-1, dim]) @ self.value
    else:
      values = tf.einsum('bhd,dhe->bhe', mixed, self._by_head(self.value))
      attended = tf.reshape(values, [-1, self.output.shape[0]]) @ self.output
    return self._feed_forward(first + attended + self.output_bias)

  def _feed_forward(self, x: tf.Tensor) -> tf.Tensor:
    x = self.attention_norm(x)
    inner = tf.nn.gelu(_times(x, self.inner[0]) + self.inner[1], approximate=True)
    return self.output_norm(x + _times(inner, self.outer[0]) + self.outer[1])

  def _by_head(self, x: tf.Tensor) -> tf.Tensor:
    """[n, h e] as [n, h, e]."""
    return tf.reshape(x, [-1, self.heads, x.shape[1] // self.heads])

  def _split(self, x: tf.Tensor) -> tf.Tensor:
    """[B, S, h e] as [B, h, S, e]."""
    shape = [-1, x.shape[1], self.heads, x.shape[2] // self.heads]
    return tf.transpose(tf.reshape(x, shape), [0, 2, 1, 3])


def _times(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
  """x @ kernel as one product of matrices, whatever x's rank."""
  return tf.tensordot(x, kernel, 1)


class _LayerNorm(tf.Module):  # noqa: N801
  """Normalization of the last axis."""

  def __init__(self, layer: Any):
    super().__init__()
    self.gamma, self.beta = tf.Variable(layer.gamma), tf.Variable(layer.beta)
    self.epsilon = layer.epsilon

  def __call__(self, x: tf.Tensor) -> tf.Tensor:
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
    return centred * tf.math.rsqrt(variance + self.epsilon) * self.gamma + self.beta
