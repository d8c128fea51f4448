"""Sequences cut by hand; batches as a function of the step."""

import numpy as np
import pytest

from common.data.tokenization import Tokenizer
from common.errors import InputError
from common.pretrain import masking
from common.pretrain.batches import Batch, MaskedBatches
from common.pretrain.masking import Masking, MaskingConfig
from common.pretrain.sequences import FullSentences, SegmentPairs, tokenized

WORDS = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', *'abcdefgh']
TOKENIZER = Tokenizer(WORDS, lower_case=True)
DOCUMENTS = [('a b', 'c', 'd d d d d d d'), ('\u200b', 'e'), ('f f', 'g h', 'g')]


@pytest.fixture(name='pieces')
def _pieces(tmp_path):
  """A function of documents to their word pieces."""

  def made(documents):
    return tokenized(str(tmp_path / 'pieces'), documents, TOKENIZER)

  return made


def text(sequence):
  return ' '.join(WORDS[i] for i in sequence.ids)


def test_full_sentences_fill_sequences_across_documents(pieces):
  of = FullSentences(pieces(DOCUMENTS), 8)  # of at most 6 pieces
  found = [of.sequence(number, np.zeros(4)) for number in range(len(of))]
  assert [text(sequence) for sequence in found] == [
    '[CLS] a b c [SEP]',
    '[CLS] d d d d d d [SEP]',  # cut: 7 pieces are one too many
    '[CLS] d [SEP] e [SEP] f f [SEP]',  # a passage without a piece is none
    '[CLS] g h g [SEP]',
  ]
  assert of.sizes.tolist() == [len(sequence.ids) for sequence in found]
  assert all(not sequence.segments.any() and not sequence.next_sentence for sequence in found)


def test_pairs_of_segments_by_hand(pieces):
  of = SegmentPairs(pieces(DOCUMENTS), 11)  # of at most 8 pieces, units of at most 4
  # Units: ab, c, dddd | ddd | e | ff, gh, g; those before a bar are neighbours that fit.
  following, other = 0.5, 0.4

  def pair(number, *draws):
    sequence = of.sequence(number, np.array(draws))
    a = int((sequence.segments == 0).sum())
    assert (np.diff(sequence.segments) >= 0).all() and sequence.ids[a - 1] == 3
    return text(sequence), sequence.next_sentence

  assert len(of) == 4
  assert pair(0, following, 0, 0, 0) == ('[CLS] a b [SEP] c d d d d [SEP]', 0)
  assert pair(0, following, 0.5, 0, 0) == ('[CLS] a b c [SEP] d d d d [SEP]', 0)
  # Of another document: of two, the last; from its second passage, as many as fit into five pieces.
  assert pair(0, other, 0, 0.5, 0.4) == ('[CLS] a b [SEP] g h g [SEP]', 1)
  assert pair(0, other, 0, 0, 0) == ('[CLS] a b [SEP] e [SEP]', 1)
  # A passage without a neighbour: always another document, here the first, cut at a passage's end.
  assert pair(2, following, 0, 0, 0.99) == ('[CLS] e [SEP] d d d [SEP]', 1)
  assert pair(2, following, 0, 0, 0) == ('[CLS] e [SEP] a b c d d d d [SEP]', 1)
  assert of.sizes.tolist() == [10, 11, 11, 8]


def test_half_of_the_pairs_follow_and_none_is_too_long(pieces):
  of = SegmentPairs(pieces([('a b', 'c', 'd e f g h a b c d e')] * 5), 12)
  rng = np.random.default_rng(1)
  found = [of.sequence(i, rng.random(4)) for _ in range(400) for i in np.flatnonzero(of.sizes < 12)]
  assert max(len(sequence.ids) for sequence in found) <= 12
  share = np.mean([sequence.next_sentence for sequence in found])
  assert share == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize('documents', [[('a',), ('b',)], [('a', 'b')]])
def test_pairs_need_documents_of_several_passages(pieces, documents):
  with pytest.raises(InputError, match='--next_sentence needs two documents or more'):
    SegmentPairs(pieces(documents), 16)


@pytest.fixture(autouse=True)
def _share(monkeypatch):
  """Two of five tokens are predicted."""
  monkeypatch.setattr(masking, 'PREDICTED', 0.4)


def batches(pieces, static_masks=0, bucketed=True, seed=2):
  """Batches of eight texts, each a sequence of its own: the letters, from another one on."""
  texts = [(' '.join(('abcdefgh' * 2)[i : i + 8]),) for i in range(8)]
  mask = Masking(MaskingConfig(static_masks=static_masks), WORDS)
  return MaskedBatches(FullSentences(pieces(texts), 12), mask, seed, bucketed)


def arrays(dataset, count):
  return [Batch(*(tensor.numpy() for tensor in batch)) for batch in dataset.take(count)]


def equal(one, other):
  return all(map(np.array_equal, one, other))


@pytest.mark.parametrize('static_masks', [0, 2])
def test_a_batch_is_a_function_of_its_step(pieces, static_masks):
  made = batches(pieces, static_masks)
  found = arrays(made.training(0, 4), 9)
  for one, other in zip(found[5:], arrays(made.training(5, 4), 4), strict=True):
    assert equal(one, other)
  assert not equal(found[0], arrays(batches(pieces, static_masks, seed=3).training(0, 4), 1)[0])


def test_a_sequence_that_comes_twice_in_a_batch_is_masked_twice(pieces):
  batch = arrays(batches(pieces).training(0, 16), 1)[0]  # of eight sequences
  assert len({tuple(ids) for ids in batch.ids}) > 10


def test_replicas_share_a_batch_in_order(pieces):
  made = batches(pieces, bucketed=False)
  (whole,) = arrays(made.training(0, 4), 1)
  shares = arrays(made.training(0, 4, replicas=2), 2)
  assert equal(whole, map(np.concatenate, zip(*shares, strict=True)))


@pytest.mark.parametrize('static_masks', [3, 0])
def test_static_masks_of_a_sequence_come_back(pieces, static_masks):
  seen = {}
  for batch in arrays(batches(pieces, static_masks).training(0, 4), 24):
    for ids, _, positions, labels, weights, _ in zip(*batch, strict=True):
      plain, predicted = ids.copy(), weights == 1
      plain[positions[predicted]] = labels[predicted]
      seen.setdefault(tuple(plain), []).append(tuple(ids))
  assert sorted(len(masks) for masks in seen.values()) == [12] * 8
  different = [len(set(masks)) for masks in seen.values()]
  assert different == [3] * 8 if static_masks else min(different) > 9


def test_static_shapes_and_each_held_out_sequence_once_with_one_mask(pieces):
  made = batches(pieces, bucketed=False)
  spec = made.training(0, 4).element_spec
  assert [of.shape.as_list() for of in (spec.ids, spec.labels)] == [[4, 12], [4, 5]]
  first, again = (list(made.each(4)) for _ in range(2))
  numbers = np.concatenate([rows for rows, _ in first])
  assert sorted(numbers.tolist()) == list(range(len(made.sequences)))
  for (_, one), (_, other) in zip(first, again, strict=True):
    assert equal(one, other)
