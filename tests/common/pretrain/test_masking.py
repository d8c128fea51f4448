"""Masks worked out by hand; their shares over a large sample; what is never masked."""

import numpy as np
import pytest

from common.pretrain import masking
from common.pretrain.masking import DRAWS, Masking, MaskingConfig

WORDS = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'a', 'b', 'c', 'd', '##x', '##y']
PAD, UNK, CLS, SEP, MASK, A, B, C, D, X, Y = range(len(WORDS))
ROW = [CLS, A, X, B, C, Y, SEP, D, SEP, PAD]  # words: ax, b, cy, d


def masked(config, order, action, piece, row=ROW):
  """A row masked by draws: of a word each for order and action, of a token each for pieces."""
  draws = np.full([1, DRAWS, len(row)], 0.99)
  for number, values in enumerate((order, action, piece)):
    draws[0, number, : len(values)] = values
  length = np.array([sum(token != PAD for token in row)])
  found = Masking(config, WORDS)(np.array([row], np.int32), length, draws)
  return [array[0].tolist() for array in found]


@pytest.fixture(name='share')
def _share(monkeypatch):
  """A function that sets the share of tokens that are predicted."""
  return lambda share: monkeypatch.setattr(masking, 'PREDICTED', share)


@pytest.mark.parametrize(
  ('order', 'ids', 'positions', 'weights'),
  [
    # 0.3 of 9 tokens are 3 predictions: ax, then b.
    ([0.1, 0.2, 0.3, 0.4], [CLS, MASK, MASK, A, C, Y, SEP, D, SEP, PAD], [1, 2, 3], [1, 1, 1]),
    # ax; cy is too large for what is left; d.
    ([0.1, 0.4, 0.2, 0.3], [CLS, MASK, MASK, B, C, Y, SEP, D, SEP, PAD], [1, 2, 7], [1, 1, 1]),
    # cy, whose draw keeps it as it was, and d, kept too.
    ([0.8, 0.7, 0.1, 0.2], [CLS, A, X, B, C, Y, SEP, D, SEP, PAD], [4, 5, 7], [1, 1, 1]),
  ],
)
def test_whole_words_are_masked_together_by_hand(share, order, ids, positions, weights):
  action = [0.5, 0.85, 0.95, 0.9]  # of ax: [MASK]; of b: another piece; of cy and d: none
  piece = [0.99, 0.99, 0.99, 0.0]  # the third position's: the first ordinary piece, a
  share(0.3)
  found = masked(MaskingConfig(), order, action, piece)
  assert found == [ids, positions, [ROW[place] for place in positions], weights]


def test_single_pieces_are_masked_alone_and_what_is_beyond_has_no_weight(share):
  share(0.3)
  config = MaskingConfig(whole_words=False)
  row = [CLS, A, X, SEP, PAD, PAD, PAD, PAD, PAD, PAD]  # 4 tokens are 1 prediction, of 3 at most
  ids, positions, labels, weights = masked(config, [0.2, 0.1], [0.95, 0.5], [], row)
  assert ids == [CLS, A, MASK, SEP, *[PAD] * 6]
  assert (positions, labels, weights) == ([2, 0, 0], [X, 0, 0], [1, 0, 0])


def test_unknown_words_are_not_predicted_and_end_a_word(share):
  share(0.5)
  ids, positions, _, weights = masked(
    MaskingConfig(), [0.1, 0.2], [0.5] * 2, [], [CLS, UNK, X, A, Y, SEP]
  )
  assert ids == [CLS, UNK, MASK, MASK, MASK, SEP]  # words: x, ay
  assert (positions, weights) == ([2, 3, 4], [1, 1, 1])


@pytest.mark.parametrize('whole_words', [True, False])
def test_shares_of_a_large_sample_are_berts(whole_words):
  rng = np.random.default_rng(3)
  vocabulary = WORDS[:5] + [f'w{i}' for i in range(600)] + [f'##w{i}' for i in range(400)]
  ids = rng.integers(5, len(vocabulary), [1000, 100]).astype(np.int32)
  ids[:, 0], ids[:, 40], ids[:, 90], ids[:, 91:] = CLS, SEP, SEP, PAD
  ids[:, 50] = UNK
  mask = Masking(MaskingConfig(whole_words=whole_words), vocabulary)
  masked_ids, positions, labels, weights = mask(
    ids, np.full(1000, 91), rng.random([1000, DRAWS, 100])
  )

  rows = np.arange(1000)[:, None]
  weights = weights == 1
  before, after = ids[rows, positions][weights], masked_ids[rows, positions][weights]
  assert before.min() >= 5  # no special token
  np.testing.assert_array_equal(labels[weights], before)
  assert not labels[~weights].any() and not positions[~weights].any()
  changed = masked_ids != ids
  chosen = np.zeros(ids.shape, bool)
  chosen[np.broadcast_to(rows, weights.shape)[weights], positions[weights]] = True
  assert not (changed & ~chosen).any()
  assert chosen.sum(1).max() == weights.sum(1).max() == 14  # 0.15 of 91
  assert chosen.sum() == weights.sum() > 13_900
  # Of 14,000 draws (of words, about 8,700) shares are within 0.015 of what is asked for.
  assert np.mean(after == MASK) == pytest.approx(0.8, abs=0.015)
  assert np.mean(after == before) == pytest.approx(0.1, abs=0.015)
  replaced = after[(after != MASK) & (after != before)]
  assert len(replaced) / len(after) == pytest.approx(0.1, abs=0.015)
  assert replaced.min() >= 5 and len(np.unique(replaced)) > 600
  if whole_words:
    within = np.array([piece.startswith('##') for piece in vocabulary])
    same_word = within[ids[:, 1:]] & (ids[:, :-1] >= 5)
    assert same_word.sum() > 30_000
    np.testing.assert_array_equal(chosen[:, 1:][same_word], chosen[:, :-1][same_word])
