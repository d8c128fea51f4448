"""Training batches: what comes, how padded; against slow Python references."""

import numpy as np
import pytest

from common.data import batching, tokens
from common.data.batches import TupleBatches, by_length
from common.data.orders import ShuffledByLength
from common.data.tokenization import Tokenizer
from common.data.tokens import TokenizedTuples
from common.data.tuples import Tuples

TOKENIZER = Tokenizer(['[PAD]', '[UNK]', '[CLS]', '[SEP]', *'abcdefgh'], lower_case=True)
PAD = TOKENIZER.pad_id


@pytest.fixture(autouse=True)
def buckets(monkeypatch):
  monkeypatch.setattr(batching, 'BUCKETS', (8, 12, 16))
  monkeypatch.setattr(batching, 'LEAST_STEP', 8)


LEFTS = ['a', 'b c', 'a', ' '.join('abcdefgh'), 'b c', 'a']
RIGHTS = ['d d d d d d d d d', '', 'E', 'e', 'd d d d d d d d d', 'z']
TEXTS = list(zip(LEFTS, RIGHTS, strict=True))
TOKENS = TokenizedTuples.of_texts(TEXTS, TOKENIZER)
LABELS = np.arange(6, dtype=np.float32)[:, None]
TUPLES = Tuples(TOKENS.items, LABELS, groups=np.array([0, 6]))
MAX_LENGTHS = (9, 14)


class InOrder:
  """The six tuples, at each step."""

  batch_size = 6

  def rows(self, step):
    return np.arange(6)


def made(replicas=1, outputs=1, targets=('label',)) -> TupleBatches:
  return TupleBatches(TUPLES, InOrder(), targets, outputs, replicas)


@pytest.mark.parametrize(
  ('rows_of', 'widths'), [(None, [[8, 9], [8, 14]]), ((6, 5), [[9], [14]])], ids=['few', 'static']
)
def test_by_item_each_distinct_item_comes_once_and_index_gathers_each_tuples_own(rows_of, widths):
  dataset = made().by_item(0, TOKENS.tables, MAX_LENGTHS, rows_of)
  batch = next(iter(dataset))
  np.testing.assert_array_equal(batch['label'], LABELS)
  np.testing.assert_array_equal(batch['items'], TUPLES.items)
  for slot, texts in enumerate((LEFTS, RIGHTS)):
    assert [ids.shape[1] for ids in batch['ids'][slot]] == widths[slot]
    rows = [row for ids in batch['ids'][slot] for row in ids.numpy().tolist()]
    assert sum(any(token != PAD for token in row) for row in rows) == len(set(texts))
    expected = TOKENIZER.encode(texts, MAX_LENGTHS[slot]).to_list()
    for i, ids in zip(batch['index'][slot].numpy(), expected, strict=True):
      assert rows[i] == ids + [PAD] * (len(rows[i]) - len(ids))
  if rows_of:
    assert [[ids.shape for ids in slot] for slot in dataset.element_spec['ids']] == [
      [(6, 9)],
      [(5, 14)],
    ]


def test_an_item_is_in_the_least_bucket_that_holds_it():
  batch = next(iter(made().by_item(0, TOKENS.tables, MAX_LENGTHS)))
  assert [ids.shape for ids in batch['ids'][0]] == [(2, 8), (1, 9)]  # 3 and 4 tokens; 10 cut to 9
  assert [ids.shape for ids in batch['ids'][1]] == [(4, 8), (1, 14)]  # ''; E, e, z; 11


def test_no_bucket_is_empty_and_no_index_is_of_what_fills_it():
  batch = next(iter(made().by_item(0, TOKENS.tables, (24, 14))))
  assert [len(ids) for ids in batch['ids'][0]] == [2, 1, 1]  # 8, 16 and 24 tokens; none has over 16
  assert [len(ids) for ids in batch['ids'][1]] == [4, 1]
  rows = [row for ids in batch['ids'][0] for row in ids.numpy().tolist()]
  expected = TOKENIZER.encode(LEFTS, 24).to_list()
  found = [[t for t in rows[i] if t != PAD] for i in batch['index'][0].numpy()]
  assert found == expected


def test_replicas_share_a_batch_in_order():
  parts = list(made(replicas=2).by_item(1, TOKENS.tables, MAX_LENGTHS).take(2))
  assert [part['label'].numpy()[:, 0].tolist() for part in parts] == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize('bucketed', [True, False])
def test_packed_batches_are_of_like_length_and_the_tokenizers_rows(bucketed):
  buckets, lengths = by_length(TUPLES, TOKENS.tables, 16, bucketed)
  batches = TupleBatches(TUPLES, ShuffledByLength(buckets, 2, 1), ('label',), 1)
  widths = set()
  for batch in batches.packed(0, TOKENS.tables, 16, lengths).take(6):
    widths.add(batch['ids'].shape[1])
    for ids, segments, (label,) in zip(
      *(batch[key].numpy() for key in ('ids', 'segment_ids', 'label')), strict=True
    ):
      items = TOKENS.items[[int(label)]]
      sizes = tokens.packed_sizes(TOKENS.tables, items, 16)
      length = tokens.packed_lengths(sizes)[0]
      expected = [of[0].tolist() for of in tokens.pack(TOKENS.tables, items, sizes, length)]
      fill = [0] * (len(ids) - len(expected[0]))
      assert ids.tolist() == expected[0] + fill and segments.tolist() == expected[1] + fill
      assert not bucketed or len(ids) == min(x for x in lengths if x >= len(expected[0]))
  assert widths == ({8, 12, 16} if bucketed else {16})


def test_gathered_features_are_those_of_the_tuples_items():
  features = [
    np.arange(8, dtype=np.float32).reshape([4, 2]),
    np.arange(9.0, dtype=np.float32)[:, None],
  ]
  places = [np.array([3, 0, 2]), np.array([8, 1, 0, 4, 5])]
  batch = next(iter(made().gathered(0, features, places)))
  for slot in range(2):
    np.testing.assert_array_equal(
      batch['features'][slot], features[slot][places[slot][TUPLES.items[:, slot]]]
    )


def test_classes_are_one_hot_and_targets_stand_apart():
  logits = np.array([[0.5, 0.25, 0.25], [1, 2, 3]], np.float32)
  labels = np.array([[2.0], [0.0], [np.nan]], np.float32)
  tuples = Tuples(np.zeros([3, 1], np.int32), labels, teacher_logits=logits)
  assert tuples.targets('label', [0, 1], 3).tolist() == [[0, 0, 1], [1, 0, 0]]
  assert tuples.targets('label', [1], 1).tolist() == [[0.0]]
  np.testing.assert_array_equal(tuples.targets('label', [2, 0], 3), [[np.nan] * 3, [0, 0, 1]])
  np.testing.assert_array_equal(tuples.targets('teacher_logits', [1, 0], 3), logits[::-1])
