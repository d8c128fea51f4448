"""Word pieces kept on disk, padded and packed: against the tokenizer in the graph."""

import os

import numpy as np
import pytest
import tensorflow as tf

from common.data import record_writer, tokens
from common.data.examples import Example
from common.data.records import RecordSet
from common.data.tokenization import Tokenizer
from common.data.tokens import TokenizedTuples, TokenTable, pack, packed_sizes
from common.errors import InputError

TOKENIZER = Tokenizer(['[PAD]', '[UNK]', '[CLS]', '[SEP]', *'abcdefgh'], lower_case=True)
RNG = np.random.default_rng(0)


def words() -> str:
  return ' '.join(RNG.choice(list('abcdefghz'), RNG.integers(0, 12)))


TEXTS = [(words(), words(), words()) for _ in range(60)]


def slowly_packed(row: tuple[str, ...], most: int) -> tuple[list[int], list[int]]:
  """BERT's `_truncate_seq_pair`, a piece at a time: the longest first, of equals the last."""
  kept = TOKENIZER.pieces(tf.constant(row)).to_list()
  while sum(map(len, kept)) > most - 1 - len(row):
    max(reversed(kept), key=len).pop()
  ids, segments = [TOKENIZER.start_id], [0]
  for slot, pieces in enumerate(kept):
    ids += [*pieces, TOKENIZER.end_id]
    segments += [min(slot, 1)] * (len(pieces) + 1)
  return ids, segments


@pytest.mark.parametrize('max_length', [4, 5, 6, 9, 12, 20, 40])
@pytest.mark.parametrize('slots', [1, 2, 3])
def test_packed_tuples_are_berts(slots, max_length):
  texts = [row[:slots] for row in TEXTS]
  tuples = TokenizedTuples.of_texts(texts, TOKENIZER)
  sizes = packed_sizes(tuples.tables, tuples.items, max_length)
  found = pack(tuples.tables, tuples.items, sizes, max_length)
  for row, ids, segments in zip(texts, *found, strict=True):
    expected = slowly_packed(row, max_length)
    fill = [0] * (max_length - len(expected[0]))
    assert (ids.tolist(), segments.tolist()) == tuple(of + fill for of in expected)
  whole = packed_sizes(tuples.tables, tuples.items, 100)
  assert tuples.cut_packed(max_length) == (sizes < whole).any(1).mean()


@pytest.mark.parametrize(
  ('texts', 'length', 'packed', 'segments'),
  [
    (('a', 'b c'), 7, '2 4 3 5 6 3 0', '0 0 0 1 1 1 0'),
    (('', 'a'), 5, '2 3 4 3 0', '0 0 1 1 0'),
    (('a', 'b', 'c d'), 8, '2 4 3 5 3 6 7 3', '0 0 0 1 1 1 1 1'),  # BERT has two segments
    (('a b c', 'd e f'), 8, '2 4 5 6 3 7 8 3', '0 0 0 0 0 1 1 1'),  # of equals the later is cut
  ],
)
def test_packed_by_hand(texts, length, packed, segments):
  tuples = TokenizedTuples.of_texts([texts], TOKENIZER)
  sizes = packed_sizes(tuples.tables, tuples.items, length)
  found = pack(tuples.tables, tuples.items, sizes, length)
  assert [' '.join(map(str, of[0])) for of in found] == [packed, segments]


@pytest.mark.parametrize('max_length', [2, 3, 8, 30])
def test_padded_items_are_the_tokenizers(max_length):
  texts = [row[0] for row in TEXTS]
  found = TokenTable.of_texts(texts, TOKENIZER).padded(np.arange(60), max_length, 30)
  ragged = TOKENIZER.encode(tf.constant(texts), max_length)
  np.testing.assert_array_equal(found, ragged.to_tensor(TOKENIZER.pad_id, shape=[60, 30]))


def test_few_characters_are_tokenized_at_a_time(monkeypatch):
  texts, sizes, pieces = (
    ['a ' * n for n in (1, 49, 50, 2, 200, 0, 3, 4, 5, 6)],
    [],
    Tokenizer.pieces,
  )
  expected = TokenTable.of_texts(texts, TOKENIZER)

  def recorded(tokenizer, some):
    sizes.append([len(text) for text in some.numpy().tolist()])
    return pieces(tokenizer, some)

  monkeypatch.setattr(Tokenizer, 'pieces', recorded)
  monkeypatch.setattr(tokens, '_CHARACTERS', 100)
  monkeypatch.setattr(tokens, '_READ', 3)
  found = TokenTable.of_texts(texts, TOKENIZER)
  assert sizes == [[2, 98], [100], [4], [400], [0, 6, 8], [10, 12]]
  np.testing.assert_array_equal(found.ids, expected.ids)
  np.testing.assert_array_equal(found.ends, expected.ends)


def test_items_are_tokenized_once_and_for_each_vocabulary(tmp_path):
  rows = record_writer.of_examples([Example('', (text,)) for text in ('a b', 'b', '', 'a b')])
  record_writer.write_sets(str(tmp_path), {'': rows}, 1)
  items = RecordSet(str(tmp_path)).items(0)
  table = TokenTable.of_items(items, TOKENIZER)
  assert (table.ids.tolist(), table.ends.tolist()) == ([4, 5, 5], [0, 2, 3, 3])
  (folder,) = os.listdir(tmp_path / 'items/tokens')
  made = os.stat(tmp_path / 'items/tokens' / folder).st_mtime_ns
  assert TokenTable.of_items(items, TOKENIZER).ends.tolist() == [0, 2, 3, 3]
  assert os.stat(tmp_path / 'items/tokens' / folder).st_mtime_ns == made
  other = Tokenizer(['[PAD]', '[UNK]', '[CLS]', '[SEP]', 'b', 'a'], lower_case=True)
  assert TokenTable.of_items(items, other).ids.tolist() == [5, 4, 4]
  np.save(tmp_path / 'items/tokens' / folder / 'ends.npy', np.array([0, 2, 3]))
  with pytest.raises(InputError, match='tokens/.*/ends.npy: damaged: .*; delete it and run again'):
    TokenTable.of_items(items, TOKENIZER)
