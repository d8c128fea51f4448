"""What attends to what: a head's attention, and an encoder's, rolled out from its output tokens.

Attention rollout (Abnar and Zuidema, 2020) follows attention from an encoder's output down to its
input tokens: R = A'_K ... A'_1, where A' = 0.5 A + 0.5 I, A the mean over a layer's heads, and I
stands for what passes the layer by its side.

Dimensions: b texts or tuples, t tokens, h attention heads, k_i kept tokens of text i, S = sum k_i,
H encoder width, D projected width.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.errors import InputError
from common.modeling import encoders
from dipair.heads import TransformerHead
from dipair.model import DiPair


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
  """The encoder of a student's text, with its attention.

  Args:
    model: The student; later changes of it are not seen.
    text: Number of the text.
  """

  def __init__(self, model: DiPair, text: int):
    self.tokens = model.config.output_tokens[text]
    self.encoder = model.encoders[0 if model.config.one_encoder else text]
    most = max(model.config.output_tokens) if self.encoder.selection == 'first' else None
    shape = dataclasses.replace(model.encoder_config, num_layers=model.config.depths[text])
    self.bert = encoders.build(shape, output_range=most, attention_scores=True)
    self.bert.set_weights(self.encoder.bert.get_weights())
    self._run = tf.function(lambda inputs: self.bert(inputs, training=False), reduce_retracing=True)

  def __call__(self, ids: tf.Tensor) -> Attended:
    """Encodes [b, t] word ids; t is padded to k at least."""
    inputs = self.encoder.bert_inputs(ids, self.tokens)
    outputs, mask = self._run(inputs), inputs['input_mask']
    kept = self.encoder.keep(outputs['sequence_output'], mask, self.tokens)
    positions = self.encoder.kept_positions(mask, self.tokens).numpy()
    rolled = rollout([scores.numpy() for scores in outputs['attention_scores']])
    rolled = np.take_along_axis(rolled, positions[..., None], axis=1)  # [b, k, t]
    there = np.take_along_axis(mask.numpy(), positions, axis=1)  # [b, k]
    return Attended(kept.numpy(), positions, rolled * there[..., None])


def head_attention(model: DiPair, *vectors: np.ndarray) -> np.ndarray:
  """What each of a tuple's kept tokens attends to, in each layer of the head.

  Of the last layer, the score depends on the first row alone.

  Args:
    model: With a transformer head.
    *vectors: A text each, as `model.vectors` gives them: [k_i, D] of one tuple, or [b, k_i, D].

  Returns:
    [layers, h, S, S], or [b, layers, h, S, S]. Rows add up to one; nothing attends to a position
    past a text's end.

  Raises:
    InputError: The head has no attention.
  """
  if not isinstance(model.head, TransformerHead):
    raise InputError('a feed-forward head has no attention')
  one = np.ndim(vectors[0]) == 2
  x, mask = model.head.embed([tf.constant(v[None] if one else v) for v in vectors], training=False)
  layers = []
  for block in model.head.blocks:
    scores = block._attention_layer(x, x, attention_mask=mask, return_attention_scores=True)[1]
    layers.append(scores.numpy())
    x = block([x, mask], training=False)
  stacked = np.stack(layers, axis=1)
  return stacked[0] if one else stacked
