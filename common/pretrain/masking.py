"""BERT's masking: tokens to predict, and what stands in their places.

15% of a sequence's tokens are predicted; of those 80% are [MASK], 10% random pieces, 10% as they
were (Devlin et al., 2019, Sec. 3.1). Whole words are masked together, and share that draw.

Dimensions: B sequences, L tokens, P predictions at the most.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from common import flags
from common.pretrain.vocabulary import JOINER, MASK, SPECIAL

DRAWS = 3  # uniform numbers a token: order, action, random piece
PREDICTED = 0.15  # share of a sequence's tokens (Devlin et al., 2019, Sec. 3.1)
_MASKED, _REPLACED = 0.8, 0.9  # where an action's draw ends


@dataclasses.dataclass(frozen=True)
class MaskingConfig:
  """Flags of the masks."""

  whole_words: bool = flags.option(True, 'mask the pieces of a word together')
  static_masks: int = flags.option(
    0,
    'masks of a sequence, made once (BERT: 10); 0: another one at each visit (RoBERTa)',
    bounds=(0, 1000),
  )


class Masking:
  """Masks sequences, by draws that are given: the same ones mask the same tokens.

  Args:
    config: The flags.
    vocabulary: Word pieces; special tokens are neither predicted nor drawn.
  """

  def __init__(self, config: MaskingConfig, vocabulary: Sequence[str]):
    self.config = config
    self._mask_id = vocabulary.index(MASK)
    self._ordinary = np.array([piece not in SPECIAL for piece in vocabulary])
    self._pieces = np.flatnonzero(self._ordinary).astype(np.int32)
    self._within = np.array([piece.startswith(JOINER) for piece in vocabulary])

  def __call__(
    self, ids: np.ndarray, lengths: np.ndarray, draws: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Masks sequences.

    Args:
      ids: [B, L] int32, padded.
      lengths: [B] tokens of each sequence.
      draws: [B, DRAWS, L] uniform numbers in [0, 1).

    Returns:
      ids: [B, L] int32, with what stands in the predicted tokens' places.
      positions: [B, P] int32 of the predicted tokens, in rising order; 0 beyond them.
      labels: [B, P] int32, the tokens there; 0 beyond.
      weights: [B, P] float32, 1 for a prediction, 0 beyond.
    """
    order, action, piece = draws[:, 0], draws[:, 1], draws[:, 2]
    maskable = self._ordinary[ids]
    starts = maskable.copy()
    if self.config.whole_words:
      starts[:, 1:] &= ~(self._within[ids[:, 1:]] & maskable[:, :-1])
    word = np.where(maskable, np.cumsum(starts, 1) - 1, 0)  # [B, L]: each token's, by number
    rows = np.arange(len(ids))[:, None]
    sizes = np.zeros(ids.shape, int)  # [B, L]: each word's tokens
    np.add.at(sizes, (rows, word), maskable)
    taken = _take(sizes, order, [most(length) for length in lengths.tolist()])
    chosen = maskable & taken[rows, word]
    of_word = action[rows, word]
    drawn = self._pieces[(piece * len(self._pieces)).astype(int)]
    replaced = np.where(of_word < _MASKED, self._mask_id, np.where(of_word < _REPLACED, drawn, ids))
    first = np.argsort(~chosen, 1, kind='stable')  # the chosen positions, in rising order
    positions = first[:, : most(ids.shape[1])]
    weights = np.take_along_axis(chosen, positions, 1)
    labels = np.take_along_axis(ids, positions, 1) * weights
    return (
      np.where(chosen, replaced, ids).astype(np.int32),
      (positions * weights).astype(np.int32),
      labels.astype(np.int32),
      weights.astype(np.float32),
    )


def most(length: int) -> int:
  """Maximum predictions in a sequence of so many tokens, special ones counted."""
  return max(1, round(length * PREDICTED))


def _take(sizes: np.ndarray, order: np.ndarray, room: Sequence[int]) -> np.ndarray:
  """Words that are taken, [B, L], in the order of their draws.

  One that is too large for what is left is passed over.

  Args:
    sizes: [B, L] tokens of each word; 0: there is none.
    order: [B, L] draws.
    room: Most tokens of each sequence.
  """
  taken, left = np.zeros(sizes.shape, bool), np.array(room)
  rows = np.arange(len(sizes))
  for words in np.argsort(order, 1).T:
    size = sizes[rows, words]
    fits = (size > 0) & (size <= left)
    taken[rows, words] = fits
    left -= size * fits
  return taken
