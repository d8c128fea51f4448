"""The one contract of a head: vectors of a tuple's texts in, logits out, split by text.

vectors → part(vectors, slot): per-text computation, whatever the text is paired with
parts (and vectors) → logits(parts, vectors)

Dimensions: U texts, B tuples, O outputs, S all stored tokens of a tuple.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import tensorflow as tf
import tf_keras


class ExportedHead(Protocol):
  """A head as it is exported: a `tf.Module` whose weights are constants of the export.

  Attributes:
    variables: All its weights.
    takes_vectors: Whether `logits` needs vectors beside parts.
    multiplies: Whether it has `logits_of_products`.
  """

  variables: Sequence[tf.Variable]
  takes_vectors: bool
  multiplies: bool

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    """Maps vectors of a slot, [U, *vector_shape], to parts [U, *part_shape]."""

  def logits(self, parts: Sequence[tf.Tensor], vectors: Sequence[tf.Tensor] = ()) -> tf.Tensor:
    """Logits [B, O] float32 of a part a slot; a slot of a single row goes with all other rows."""

  def logits_of_products(self, products: tf.Tensor, squares: tf.Tensor) -> tf.Tensor:
    """Logits [B, O] of a left part's inner products with right vectors; see `Head`."""


class Head(tf_keras.layers.Layer):
  """A trained head; a subclass has `part` and `logits`, and holds no tokenizer.

  Its own arithmetic is in float32, its sublayers' by the precision of training.
  """

  takes_vectors, multiplies = False, False

  def __init__(self, name: str):
    super().__init__(name=name, dtype=tf.float32)

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    """Maps vectors of a slot, [U, *vector_shape], to parts [U, *part_shape]; without dropout."""
    raise NotImplementedError

  def logits(
    self,
    parts: Sequence[tf.Tensor],
    vectors: Sequence[tf.Tensor] = (),
    training: bool | None = None,
  ) -> tf.Tensor:
    """Maps parts, and vectors where the head takes them, [B, ...] a slot, to [B, O] float32."""
    raise NotImplementedError

  def call(self, vectors: Sequence[tf.Tensor], training: bool | None = None) -> tf.Tensor:
    """Maps vectors, [B, *vector_shape] a slot, to logits [B, O]."""
    vectors = list(vectors)
    parts = [self.part(x, slot) for slot, x in enumerate(vectors)]
    return self.logits(parts, vectors, training)

  def start(self, vectors: Sequence[np.ndarray], seed: int) -> None:
    """Sets the starting point by vectors of texts, [U_i, ...] a slot; random unless overridden."""

  def logits_of_products(self, products: tf.Tensor, squares: tf.Tensor) -> tf.Tensor:
    """Logits of one left text with many right ones, by the inner products of their tokens.

    Args:
      products: [B, M, N] of right vectors with the left text's part.
      squares: [B, M], squared lengths of the right vectors.

    Returns:
      [B, O] float32.
    """
    raise NotImplementedError

  def exported(self) -> ExportedHead:
    """The form that is exported: this head, unless one of fewer operations overrides it."""
    return _AsTrained(self)


class _AsTrained(tf.Module):
  """A head that is exported as it is; a slot's single row is repeated for the others'."""

  def __init__(self, head: Head):
    super().__init__(name='head')
    self.head, self.takes_vectors, self.multiplies = head, head.takes_vectors, head.multiplies
    self.part, self.logits_of_products = head.part, head.logits_of_products

  @property
  def variables(self) -> Sequence[tf.Variable]:
    return self.head.variables

  def logits(self, parts: Sequence[tf.Tensor], vectors: Sequence[tf.Tensor] = ()) -> tf.Tensor:
    return self.head.logits(to_same_rows(parts), to_same_rows(vectors), training=False)


def to_same_rows(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
  """Repeats a single row of a tensor as often as the others have rows."""
  if not tensors:
    return []
  rows = tf.reduce_max([tf.shape(one)[0] for one in tensors])
  return [tf.broadcast_to(one, [rows, *one.shape[1:]]) for one in tensors]
