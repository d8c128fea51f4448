"""Training batches: what comes, in what order, how padded; against slow Python references."""

import itertools
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from common.data import batching, input_pipeline, records
from common.data.examples import Example
from common.data.tokenization import Tokenizer

TOKENIZER = Tokenizer(['[PAD]', '[UNK]', '[CLS]', '[SEP]', *'abcdefgh'], lower_case=True)
PAD = TOKENIZER.pad_id


@pytest.fixture(autouse=True)
def buckets(monkeypatch):
  monkeypatch.setattr(batching, 'BUCKETS', (8, 12, 16))
  monkeypatch.setattr(batching, 'LEAST_STEP', 8)


def stored(tmp_path, examples, **options) -> str:
  records.write(str(tmp_path), examples, **options)
  return str(tmp_path)


def numbered(tmp_path, count: int, **options) -> str:
  """Pairs (i, -i) with the label i, so that a batch says which rows it holds."""
  rows = (Example(f'{i}', (f'{i}', f'{-i}'), float(i)) for i in range(count))
  return stored(tmp_path, rows, **options)


def tuples(folder: str, seed: int | None, batch_size: int, **options) -> tf.data.Dataset:
  options = {'outputs': 1, 'targets': ['label']} | options
  return input_pipeline.tuples(folder, seed=seed, batch_size=batch_size, **options)


def row_numbers(batches, limit: int | None = None) -> list[int]:
  """The rows that the first batches hold, end to end; texts and targets must agree."""
  found = []
  for batch in itertools.islice(batches, limit):
    rows = batch['targets'].numpy()[:, 0].astype(int).tolist()
    assert batch['texts'].numpy().tolist() == [[b'%d' % i, b'%d' % -i] for i in rows]
    found += rows
  return found


class TestTuples:
  def test_without_seed_in_order_and_once(self, tmp_path):
    batches = list(tuples(numbered(tmp_path, 5, shard_size=2), None, 2))
    assert [batch['texts'].shape for batch in batches] == [(2, 2), (2, 2), (1, 2)]
    assert [batch['targets'].shape for batch in batches] == [(2, 1), (2, 1), (1, 1)]
    assert row_numbers(batches) == [0, 1, 2, 3, 4]

  @pytest.mark.parametrize(
    ('options', 'expected'),
    [
      ({'targets': ['label'], 'outputs': 1}, [[2.0], [0.0]]),
      ({'targets': ['label'], 'outputs': 3}, [[0, 0, 1], [1, 0, 0]]),
      ({'targets': ['soft_labels'], 'outputs': 3}, [[0.5, 0.25, 0.25], [0, 1, 0]]),
      (
        {'targets': ['soft_labels', 'label'], 'outputs': 3},
        [[0.5, 0.25, 0.25, 0, 0, 1], [0, 1, 0, 1, 0, 0]],
      ),
    ],
  )
  def test_targets(self, options, expected, tmp_path):
    rows = [
      Example('x', ('a', 'b', 'c'), 2.0, None, (0.5, 0.25, 0.25)),
      Example('y', ('d', 'e', 'f'), 0.0, None, (0.0, 1.0, 0.0)),
    ]
    (batch,) = tuples(stored(tmp_path, rows), None, 4, **options)
    assert batch['targets'].dtype == tf.float32
    np.testing.assert_array_equal(batch['targets'], expected)
    found = [input_pipeline.target_row(r, options['targets'], options['outputs']) for r in rows]
    assert found == expected
    np.testing.assert_array_equal(batch['texts'], [[b'a', b'b', b'c'], [b'd', b'e', b'f']])

  @pytest.mark.parametrize('shard_size', [3, 12])
  def test_an_order_of_its_own_for_each_seed_and_epoch(self, shard_size, tmp_path):
    folder = numbered(tmp_path, 12, shard_size=shard_size)
    rows = row_numbers(tuples(folder, 1, 4), 9)
    assert row_numbers(tuples(folder, 1, 4), 9) == rows
    epochs = [rows[:12], rows[12:24], rows[24:], row_numbers(tuples(folder, 2, 4), 3)]
    assert all(sorted(epoch) == list(range(12)) for epoch in epochs)
    assert len({*map(tuple, epochs), tuple(range(12))}) == 5

  def test_what_an_epoch_leaves_over_begins_the_next_batch(self, tmp_path):
    rows = row_numbers(tuples(numbered(tmp_path, 5), 1, 3), 5)  # three epochs
    assert [sorted(rows[i : i + 5]) for i in (0, 5, 10)] == [[0, 1, 2, 3, 4]] * 3

  def test_blocks_stay_together(self, tmp_path):
    rows = row_numbers(tuples(numbered(tmp_path, 18, block=3, shard_size=6), 1, 6), 6)
    blocks = [rows[i : i + 3] for i in range(0, 36, 3)]
    assert all(block == [block[0], block[0] + 1, block[0] + 2] for block in blocks)
    firsts = [block[0] for block in blocks]
    assert sorted(firsts[:6]) == sorted(firsts[6:]) == [0, 3, 6, 9, 12, 15]
    assert firsts[:6] != firsts[6:]

  @pytest.mark.parametrize('seed', [None, 0, 3])
  def test_skipping_is_dropping(self, seed, tmp_path):
    folder = numbered(tmp_path, 10, shard_size=3)
    rows = row_numbers(tuples(folder, seed, 2), 5)
    assert row_numbers(tuples(folder, seed, 2).skip(3), 2) == rows[6:]


# [CLS] a.. [SEP] b.. [SEP]: 5, 8 (twice the first bucket), 11 and 14 tokens, four rows of each.
WORDS = [(1, 1), (2, 3), (5, 3), (1, 10)]


def of_four_lengths(tmp_path) -> str:
  rows = []
  for i in range(16):
    left, right = WORDS[i % 4]
    texts = (' '.join('abcd'[i // 4] * left), ' '.join('efgh'[i // 4] * right))
    rows.append(Example(f'{i}', texts, float(i)))
  return stored(tmp_path, rows, shard_size=5)


def packed(folder: str, seed: int | None, *, max_length=16, bucketed=True) -> tf.data.Dataset:
  options = {'outputs': 1, 'targets': ['label'], 'seed': seed, 'batch_size': 4}
  return input_pipeline.packed(
    folder, TOKENIZER, max_length=max_length, bucketed=bucketed, **options
  )


def sequences(batches) -> list[tuple]:
  """(target, tokens, segments) of each row, once its padding is seen to be at its end alone."""
  found = []
  for batch in batches:
    rows = zip(*(batch[key].numpy() for key in ('targets', 'ids', 'segment_ids')), strict=True)
    for (target,), ids, segments in rows:
      size = int((ids != PAD).sum())
      assert (ids[size:] == PAD).all() and (segments[size:] == 0).all()
      found.append((target, tuple(ids[:size]), tuple(segments[:size])))
  return found


class TestPacked:
  def test_a_batch_is_of_its_bucket(self, tmp_path):
    batches = list(packed(of_four_lengths(tmp_path), None))
    shapes = sorted(tuple(batch['ids'].shape) for batch in batches)
    assert shapes == [(4, 8), (4, 8), (4, 12), (4, 16)]
    shorter = {8: 0, 12: 8, 16: 12}
    for batch in batches:
      longest = batch['ids'].shape[1]
      sizes = (batch['ids'].numpy() != PAD).sum(1)
      assert ((shorter[longest] < sizes) & (sizes <= longest)).all()
      assert batch['ids'].shape == batch['segment_ids'].shape

  @pytest.mark.parametrize('max_length', [9, 16])
  @pytest.mark.parametrize('bucketed', [True, False])
  def test_rows_are_those_of_the_tokenizer(self, max_length, bucketed, tmp_path):
    folder = of_four_lengths(tmp_path)
    expected = []
    for example in records.read(folder):
      ids, segments = TOKENIZER.pack([tf.constant([text]) for text in example.texts], max_length)
      expected.append((example.label, tuple(ids[0].numpy()), tuple(segments[0].numpy())))
    batches = list(packed(folder, None, max_length=max_length, bucketed=bucketed))
    assert Counter(sequences(batches)) == Counter(expected)
    if not bucketed:
      assert {batch['ids'].shape for batch in batches} == {(4, max_length)}

  def test_each_epoch_brings_every_pair(self, tmp_path):
    batches = packed(of_four_lengths(tmp_path), 5).take(8)  # every bucket fills up in an epoch
    targets = [target for target, _, _ in sequences(batches)]
    assert sorted(targets[:16]) == sorted(targets[16:]) == list(range(16))
    assert targets[:16] != targets[16:]

  def test_skipping_is_dropping(self, tmp_path):
    folder = of_four_lengths(tmp_path)
    found = sequences(packed(folder, 5).take(6))
    assert sequences(packed(folder, 5).skip(2).take(4)) == found[8:]


class TestSplit:
  def test_cuts_in_order(self):
    batch = {'x': tf.constant(['a', 'b', 'c', 'd']), 'y': (tf.reshape(tf.range(8), [4, 2]),)}
    parts = list(input_pipeline.split(tf.data.Dataset.from_tensors(batch).repeat(2), 2))
    assert [part['x'].numpy().tolist() for part in parts] == [[b'a', b'b'], [b'c', b'd']] * 2
    assert [part['y'][0].numpy().tolist() for part in parts][:2] == [
      [[0, 1], [2, 3]],
      [[4, 5], [6, 7]],
    ]

  def test_one_part_is_the_batch(self):
    dataset = tf.data.Dataset.range(4).batch(4)
    assert input_pipeline.split(dataset, 1) is dataset


LEFTS = ['a', 'b c', 'a', ' '.join('abcdefgh'), 'b c', 'a']
RIGHTS = ['d d d d d d d d d', '', 'E', 'e', 'd d d d d d d d d', 'z']
BATCH = {
  'texts': tf.constant(list(zip(LEFTS, RIGHTS, strict=True))),
  'targets': tf.reshape(tf.range(6.0), [6, 1]),
}
MAX_LENGTHS = (9, 14)


@pytest.mark.parametrize('mapped', [False, True], ids=['eager', 'tf.data'])
@pytest.mark.parametrize(
  ('options', 'widths'),
  [
    ({}, [[8, 9], [8, 14]]),
    ({'bucketed': False}, [[9], [14]]),
    ({'rows': (6, 5)}, [[9], [14]]),
  ],
  ids=['bucketed', 'padded', 'static'],
)
class TestByText:
  @staticmethod
  def batches(options, mapped):
    def by_text(batch):
      return input_pipeline.by_text(batch, TOKENIZER, MAX_LENGTHS, **options)

    if not mapped:
      return by_text(BATCH)
    return next(iter(tf.data.Dataset.from_tensors(BATCH).map(by_text)))

  def test_index_gathers_each_pairs_own_tokens(self, options, widths, mapped):
    found = self.batches(options, mapped)
    np.testing.assert_array_equal(found['targets'], BATCH['targets'])
    for slot, texts in enumerate((LEFTS, RIGHTS)):
      assert [ids.shape[1] for ids in found['ids'][slot]] == widths[slot]
      rows = [row for ids in found['ids'][slot] for row in ids.numpy().tolist()]
      expected = TOKENIZER.encode(tf.constant(texts), MAX_LENGTHS[slot]).to_list()
      for i, tokens in zip(found['index'][slot].numpy(), expected, strict=True):
        assert rows[i] == tokens + [PAD] * (len(rows[i]) - len(tokens))

  def test_each_distinct_text_comes_once(self, options, widths, mapped):
    found = self.batches(options, mapped)
    for slot, texts in enumerate((LEFTS, RIGHTS)):
      texts_held = [(ids.numpy() != PAD).any(1).sum() for ids in found['ids'][slot]]
      assert sum(texts_held) == len(set(texts))
      assert len(set(found['index'][slot].numpy().tolist())) == len(set(texts))


def test_by_text_puts_a_text_in_the_least_bucket_that_holds_it():
  found = input_pipeline.by_text(BATCH, TOKENIZER, MAX_LENGTHS)
  assert [ids.shape for ids in found['ids'][0]] == [(2, 8), (1, 9)]  # 3 and 4 tokens; 10 cut to 9
  assert [ids.shape for ids in found['ids'][1]] == [(4, 8), (1, 14)]  # ''; E, e, z; 11


def test_rows_make_static_shapes():
  def by_text(batch):
    return input_pipeline.by_text(batch, TOKENIZER, MAX_LENGTHS, rows=(6, 5))

  dataset = tf.data.Dataset.from_tensors(BATCH).map(by_text)
  assert [[ids.shape for ids in slot] for slot in dataset.element_spec['ids']] == [
    [(6, 9)],
    [(5, 14)],
  ]
