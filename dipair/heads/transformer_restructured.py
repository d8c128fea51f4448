"""The transformer head in fewer operations: the same logits, to rounding (§3.5).

What a head computes of a text alone, whatever it is paired with, is that text's part: made once per
text, or once per call for a query. The rest is computed per pair. Exact in four steps:

* Part: the first layer's input (position and segment embeddings, LayerNorm) and its queries, keys
  and values. A padded position's part is all zeros, as its vector is, and is masked.
* One attention head: (W_q x_i) . (W_k x_j) = (W_k^T W_q x_i) . x_j, so that x_j is its own key, and
  W_o W_v is one matrix: the part is [x, q, v], the output projection is gone.
* LayerNorm: x = scale * n + shift, where n is normalized. Matrices that multiply x take the scale,
  their biases the shift: `_Stream` is x as n. Attention weights add up to one, so whatever is added
  to each key drops out of softmax, and what is added to each value joins the output's bias.
* Last layer: computed for its first row alone, and without its keys and values:
  q . (W_k x_j) = (W_k^T q) . x_j, and sum_j a_j W_v x_j = W_v sum_j a_j x_j.

A product's bias is added to it before anything else is, and rows are sliced without dropping an
axis: so LiteRT computes either in its fast kernels.

Dimensions: B tuples, k_i kept tokens of slot i, S = sum k_i, D their width, h attention heads of
width e, R width of a part, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras

from common.modeling.head import to_same_rows
from dipair.encoder import attention_mask, present


class RestructuredTransformer(tf.Module):
  """A transformer head as it is exported; later changes of the trained one are not seen.

  Args:
    embeddings: What is added to a slot's tokens, position and segment, [k_i, D] each.
    norm: LayerNorm of the first layer's input.
    blocks: The layers, tf-models' `TransformerEncoderBlock`s.
    classifier: The dense layer on the first row of the last one.
  """

  takes_vectors, multiplies = False, False

  def __init__(
    self,
    embeddings: Sequence[tf.Tensor],
    norm: tf_keras.layers.LayerNormalization,
    blocks: Sequence[Any],
    classifier: tf_keras.layers.Dense,
  ):
    super().__init__(name='transformer')
    self.added = [tf.Variable(added) for added in embeddings]
    self.gamma, self.beta = (tf.Variable(v) for v in (norm.gamma, norm.beta))
    self.epsilon = norm.epsilon
    streams = [_Stream.after(block._output_layer_norm) for block in blocks]
    self.blocks = [
      _Block(block, stream) for block, stream in zip(blocks, [None, *streams[:-1]], strict=True)
    ]
    self.classifier = _Dense.of(streams[-1], *classifier.variables)
    # Widths of x and of the inputs of the first layer's attention (none if it is the last layer).
    widths = self.blocks[0].input_widths if len(self.blocks) > 1 else []
    self.widths = [embeddings[0].shape[1], *widths]

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    x = _normalized(vectors + self.added[slot], self.epsilon) * self.gamma + self.beta
    inputs = self.blocks[0].attention_inputs(x) if len(self.blocks) > 1 else []
    return tf.concat([x, *inputs], axis=-1) * present(vectors)[..., None]

  def logits(self, parts: Sequence[tf.Tensor], vectors: Sequence[tf.Tensor] = ()) -> tf.Tensor:
    del vectors  # the parts have all of them
    part = tf.concat(to_same_rows(parts), axis=1)  # [B, S, R]
    x, *inputs = tf.split(part, self.widths, axis=-1)
    mask = attention_mask(x)
    for number, block in enumerate(self.blocks[:-1]):
      x = block(x, inputs if number == 0 else block.attention_inputs(x), mask)
    return self.classifier(tf.squeeze(self.blocks[-1].first_row(x, mask), 1))


class _Stream(NamedTuple):
  """Scale and shift, [D] each, of a layer's input n: x = scale * n + shift."""

  scale: tf.Tensor
  shift: tf.Tensor

  @classmethod
  def after(cls, norm: Any) -> _Stream:
    """The stream that a LayerNorm gives."""
    return cls(norm.gamma.read_value(), norm.beta.read_value())


class _Dense(tf.Module):
  """n @ kernel + bias, as one product of matrices, whatever n's rank."""

  def __init__(self, kernel: tf.Tensor, bias: tf.Tensor):
    super().__init__()
    self.kernel, self.bias = tf.Variable(kernel), tf.Variable(bias)

  @classmethod
  def of(cls, stream: _Stream, kernel: Any, bias: Any) -> _Dense:
    """The layer of x that takes n."""
    kernel = tf.convert_to_tensor(kernel)
    return cls(
      stream.scale[:, None] * kernel,
      bias + tf.linalg.matvec(kernel, stream.shift, transpose_a=True),
    )

  def __call__(self, n: tf.Tensor) -> tf.Tensor:
    return _times(n, self.kernel) + self.bias


class _Block(tf.Module):
  """A layer of BERT: attention and feed-forward, each followed by LayerNorm.

  Args:
    block: The trained layer.
    stream: Its input; none: x itself.

  Attributes:
    heads: h.
    input_widths: Widths of what `attention_inputs` gives.
  """

  def __init__(self, block: Any, stream: _Stream | None):
    super().__init__()
    self.activation = block._inner_activation
    (query, query_bias), (key, _), (value, value_bias), (output, output_bias) = (
      [v.read_value() for v in getattr(block._attention_layer, f'_{name}_dense').variables]
      for name in ('query', 'key', 'value', 'output')
    )
    dim, self.heads, width = query.shape  # D, h, e
    self.scale = None if stream is None else tf.Variable(stream.scale)
    stream = stream or _Stream(tf.ones([dim]), tf.zeros([dim]))
    query, key, value = (tf.reshape(kernel, [dim, -1]) for kernel in (query, key, value))
    output = tf.reshape(output, [-1, dim])
    query, query_bias = query * width**-0.5, tf.reshape(query_bias, [-1]) * width**-0.5
    key = stream.scale[:, None] * key
    output_bias += tf.linalg.matvec(output, tf.reshape(value_bias, [-1]), transpose_a=True)
    if self.heads == 1:
      query, query_bias = query @ tf.transpose(key), tf.linalg.matvec(key, query_bias)
      self.value = _Dense.of(stream, value @ output, output_bias + stream.shift)
    else:
      through = tf.linalg.matvec(value @ output, stream.shift, transpose_a=True)
      self.key, self.value = tf.Variable(key), tf.Variable(stream.scale[:, None] * value)
      self.output = _Dense(output, output_bias + through + stream.shift)
    self.query = _Dense.of(stream, query, query_bias)
    self.input_widths = [dim, dim] if self.heads == 1 else [self.heads * width] * 3
    norm = block._attention_layer_norm
    between = _Stream.after(norm)
    self.epsilons = norm.epsilon, block._output_layer_norm.epsilon
    self.inner = _Dense.of(between, *block._intermediate_dense.variables)
    self.between = tf.Variable(between.scale)
    kernel, bias = block._output_dense.variables
    self.outer = _Dense(kernel, bias + between.shift)

  def attention_inputs(self, n: tf.Tensor) -> list[tf.Tensor]:
    """Queries, keys where they are not n itself, and values: [B, S, D] each."""
    if self.heads == 1:
      return [self.query(n), self.value(n)]
    return [self.query(n), _times(n, self.key), _times(n, self.value)]

  def __call__(self, n: tf.Tensor, inputs: Sequence[tf.Tensor], mask: tf.Tensor) -> tf.Tensor:
    """Maps [B, S, D] to normalized [B, S, D]; mask is [B, 1, S], added to the attention logits."""
    if self.heads == 1:
      query, value = inputs
      attended = tf.nn.softmax(tf.matmul(query, n, transpose_b=True) + mask) @ value
    else:
      query, key, value = map(self._split, inputs)  # [B, h, S, e]
      weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) + mask[:, None])
      attended = tf.transpose(weights @ value, [0, 2, 1, 3])
      attended = self.output(tf.reshape(attended, tf.shape(inputs[0])))
    return self._feed_forward(n, attended)

  def first_row(self, n: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The first row of what the layer gives: [B, S, D] to [B, 1, D]."""
    first = n[:, :1]
    query = self.query(first)  # [B, 1, h e], or [B, 1, D] for one head
    if self.heads > 1:
      query = tf.einsum('bhe,dhe->bhd', self._by_head(query), self._by_head(self.key))
    weights = tf.nn.softmax(tf.matmul(query, n, transpose_b=True) + mask)  # [B, h, S]
    mixed = weights @ n  # [B, h, D]
    if self.heads == 1:
      attended = self.value(mixed)
    else:
      values = tf.einsum('bhd,dhe->bhe', mixed, self._by_head(self.value))
      attended = self.output(tf.reshape(values, [-1, 1, self.value.shape[1]]))
    return self._feed_forward(first, attended)

  def _feed_forward(self, n: tf.Tensor, attended: tf.Tensor) -> tf.Tensor:
    x = (n if self.scale is None else n * self.scale) + attended
    n = _normalized(x, self.epsilons[0])
    inner = self.outer(self.activation(self.inner(n)))
    return _normalized(n * self.between + inner, self.epsilons[1])

  def _by_head(self, x: tf.Tensor) -> tf.Tensor:
    """Rows of h e as [n, h, e]."""
    return tf.reshape(x, [-1, self.heads, x.shape[-1] // self.heads])

  def _split(self, x: tf.Tensor) -> tf.Tensor:
    """[B, S, h e] as [B, h, S, e]."""
    shape = [-1, x.shape[1], self.heads, x.shape[2] // self.heads]
    return tf.transpose(tf.reshape(x, shape), [0, 2, 1, 3])


def _times(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
  """x @ kernel as one product of matrices, whatever x's rank."""
  return tf.tensordot(x, kernel, 1)


def _normalized(x: tf.Tensor, epsilon: float) -> tf.Tensor:
  """The last axis with mean 0 and variance 1."""
  centred = x - tf.reduce_mean(x, -1, keepdims=True)
  return centred * tf.math.rsqrt(tf.reduce_mean(tf.square(centred), -1, keepdims=True) + epsilon)
