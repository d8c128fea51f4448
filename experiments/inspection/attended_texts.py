"""Texts encoded with their attention: what each kept token takes from where, on average.

Dimensions: U texts, b of a batch, t tokens, k kept tokens, L most tokens, H encoder width.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common.data import batching
from common.data.tokens import TokenTable
from dipair.student import DiPair
from experiments.inspection.attention import Attended, AttendingEncoder

# What an input token is to a kept one, the first that fits: itself, [CLS], [SEP], another kept one.
TARGETS = ('own', 'cls', 'sep', 'kept', 'other')
_MOST_SCORES = 1 << 18  # b * t * t of a batch; an encoder gives as many for each layer and head


class AttendedTexts(NamedTuple):
  """Texts of one slot.

  Attributes:
    kept: [U, k, H], their kept output tokens; all-zero past a text's end.
    shares: {target: [k]}, how much of a kept token's rollout goes to each of `TARGETS`; the mean
      over texts that reach this far, which adds up to one.
    reached: [k], how many texts do.
    offsets: [o], distances from the own position, up to the farthest that occurs.
    relative: [k, o], how much goes how far; to word pieces alone, not to [CLS] and [SEP].
    examples: The first texts, each with 'text', its word 'pieces' [t], the 'kept' positions of them
      and their 'rollout' [kept, t].
  """

  kept: np.ndarray
  shares: dict[str, np.ndarray]
  reached: np.ndarray
  offsets: np.ndarray
  relative: np.ndarray
  examples: list[dict[str, Any]]


def attend(
  model: DiPair,
  table: TokenTable,
  items: np.ndarray,
  texts: Sequence[str],
  slot: int,
  progress: str,
) -> AttendedTexts:
  """Encodes texts of one slot with their attention.

  Args:
    model: The student.
    table: Word pieces of the slot's items.
    items: [U] the items that are encoded.
    texts: The first items' texts, which are given as examples.
    slot: The texts' place in a tuple.
    progress: The bar's name.
  """
  encoder, most = AttendingEncoder(model, slot), model.max_lengths[slot]
  k, width = model.feature_shape(slot)
  kept = np.zeros([len(items), k, width], np.float32)
  sums = np.zeros([len(TARGETS), k])
  relative = np.zeros([k, 2 * most - 1])  # by offset + most - 1
  reached, examples = np.zeros(k, int), {}
  batch_size = max(1, min(128, _MOST_SCORES // most**2))
  lengths = batching.bucket_lengths(most)
  sizes = np.minimum(table.sizes(items) + 2, most)
  vocabulary = table.tokenizer.vocabulary
  with tqdm(total=len(items), desc=progress, unit=' texts') as bar:
    for rows in batching.longest_first(sizes, batch_size):
      length = batching.bucket_of(lengths, sizes[rows[0]])
      padded = table.padded(items[rows], most, length)
      attended = encoder(tf.constant(padded))
      kept[rows], size = attended.kept, sizes[rows]
      reached += (attended.positions < size[:, None]).sum(0)
      sums += _by_target(attended, size)
      _add_by_offset(relative, attended, size)
      for row, ids, one, at, n in zip(
        rows, padded, attended.rollout, attended.positions, size, strict=True
      ):
        if row < len(texts):
          pieces = [vocabulary[i] for i in ids[:n]]
          there = at[at < n]
          examples[row] = {
            'text': texts[row],
            'pieces': pieces,
            'kept': there.tolist(),
            'rollout': one[: len(there), :n],
          }
      bar.update(len(rows))
  found = np.maximum(reached, 1)
  occurs = np.flatnonzero(relative.any(0))
  used = slice(occurs[0], occurs[-1] + 1) if len(occurs) else slice(0)
  return AttendedTexts(
    kept,
    dict(zip(TARGETS, sums / found, strict=True)),
    reached,
    np.arange(1 - most, most)[used],
    relative[:, used] / found[:, None],
    [examples[row] for row in sorted(examples)],
  )


def _by_target(attended: Attended, size: np.ndarray) -> np.ndarray:
  """Rollout by `TARGETS`, summed over a batch of texts of `size` [b] tokens: [targets, k]."""
  positions, rollout = attended.positions, attended.rollout
  token = np.arange(rollout.shape[-1])  # [t]
  own = token == positions[..., None]  # [b, k, t]
  first, last = token == 0, token == size[:, None] - 1  # [t], [b, t]
  target = np.full(rollout.shape, TARGETS.index('other'))
  for name, where in (
    ('kept', own.any(1)[:, None]),
    ('sep', last[:, None]),
    ('cls', first),
    ('own', own),
  ):
    target = np.where(where, TARGETS.index(name), target)
  return np.array([(rollout * (target == i)).sum((0, 2)) for i in range(len(TARGETS))])


def _add_by_offset(relative: np.ndarray, attended: Attended, size: np.ndarray) -> None:
  """Adds a batch's rollout to word pieces to [k, 2 L - 1], by distance from the own position."""
  k, tokens = attended.rollout.shape[1:]
  most = (relative.shape[1] + 1) // 2
  token = np.arange(tokens)
  offset = token - attended.positions[..., None]  # [b, k, t]
  piece = (token > 0) & (token < size[:, None] - 1)  # [b, t]
  there = piece[:, None] & (attended.rollout > 0)
  rows = np.broadcast_to(np.arange(k)[:, None], offset.shape)
  np.add.at(relative, (rows[there], offset[there] + most - 1), attended.rollout[there])
