"""Attention of a head, and of an encoder, rolled out from its output tokens.

Attention rollout (Abnar and Zuidema, 2020) follows attention from an encoder's output down to its
input tokens: R = A'_K ... A'_1, where A' = 0.5 A + 0.5 I, A the mean over a layer's heads, and I
stands for what passes the layer by its side.

Dimensions: b texts or tuples, t tokens, h attention heads, k_i kept tokens of slot i, S = sum k_i,
H encoder width, D projected width.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from dipair.student import DiPair


def rollout(attention: Sequence[np.ndarray]) -> np.ndarray:
  """The share that each input token has in each output row.

  Args:
    attention: A layer each, from the input up, [..., h, rows, t]; rows add up to one. The last may
      be of the first rows alone.

  Returns:
    [..., rows, t]; rows add up to one, as a mean of A's rows, which do, and of I's.
  """
  mixed = []
  for scores in attention:
    rows, tokens = scores.shape[-2:]
    mixed.append(0.5 * scores.mean(-3) + 0.5 * np.eye(rows, tokens, dtype=scores.dtype))
  return functools.reduce(np.matmul, reversed(mixed))


class Attended(NamedTuple):
  """Texts as their encoder gives them.

  Attributes:
    kept: [b, k, H], the kept output tokens; all-zero past the text's end.
    positions: [b, k], where in the text each is.
    rollout: [b, k, t], what each takes from each input token; all-zero past the text's end.
  """

  kept: np.ndarray
  positions: np.ndarray
  rollout: np.ndarray


class AttendingEncoder:
  """The encoder of a student's slot, with its attention.

  Args:
    model: The student; later changes of it are not seen.
    slot: The texts' place in a tuple.
  """

  def __init__(self, model: DiPair, slot: int):
    self.tokens = model.config.output_tokens[slot]
    self.encoder = model.encoder(slot)
    attending = self.encoder.encoder.attending()
    self._run = tf.function(
      lambda ids: attending(ids, training=False), autograph=False, reduce_retracing=True
    )

  def __call__(self, ids: tf.Tensor) -> Attended:
    """Encodes [b, t] word ids; t is padded to k at least."""
    encoded = self._run(self.encoder.padded(ids, self.tokens))
    kept, mask = self.encoder.keep(encoded, self.tokens), encoded.mask
    positions = self.encoder.kept_positions(mask, self.tokens).numpy()
    present = mask.numpy()
    whole = rollout([scores.numpy() for scores in encoded.attention])
    rolled = np.take_along_axis(whole, positions[..., None], axis=1)  # [b, k, t]
    if self.encoder.selection == 'mean':
      rolled[:, 0] = np.einsum('bt,bts->bs', present / present.sum(1, keepdims=True), whole)
    there = np.take_along_axis(present, positions, axis=1)  # [b, k]
    return Attended(kept.numpy(), positions, rolled * there[..., None])


def head_attention(model: DiPair, *vectors: np.ndarray) -> np.ndarray:
  """Attention of each of a tuple's kept tokens, in each layer of the head.

  The score depends on the last layer's first row alone.

  Args:
    model: A student with a transformer head.
    *vectors: One argument a slot: [k_i, D] of one tuple, or [b, k_i, D].

  Returns:
    [layers, h, S, S], or [b, layers, h, S, S]. Rows add up to one; nothing attends to a position
    past a text's end.
  """
  one, head = np.ndim(vectors[0]) == 2, model.head
  given = [tf.constant(v[None] if one else v) for v in vectors]
  x, mask = head.merged([head.part(tokens, slot) for slot, tokens in enumerate(given)])
  found = []
  for block in head.blocks:
    scores = block._attention_layer(x, x, attention_mask=mask, return_attention_scores=True)[1]
    found.append(scores.numpy())
    x = block([x, mask], training=False)
  stacked = np.stack(found, axis=1)
  return stacked[0] if one else stacked
