"""A mined task by hand: texts on a circle, whose inner products are cosines of their angles."""

import re

import numpy as np
import pytest

from common.data.matching import Matching
from common.data.records import RecordSet
from common.distillation import mining, transfer
from common.distillation.mining import MinedTask, MiningConfig
from common.errors import InputError

QUERIES, PASSAGES = 60, 360  # a passage each degree; query i asks for that at 6 i


class Circle:
  """A text's number is its angle in degrees; `asked` counts what was embedded."""

  fingerprint = 'circle'

  def __init__(self):
    self.asked = 0

  def encode(self, texts, side):
    self.asked += len(texts)
    degrees = np.radians([float(re.findall(r'\d+', text)[0]) for text in texts])
    return np.stack([np.cos(degrees), np.sin(degrees)], 1).astype(np.float32)


@pytest.fixture(name='circle')
def _circle(monkeypatch):
  def read(*_):
    found = Matching()
    for i in range(PASSAGES):
      found.add_passage(f'p{i}', f'passage at {i}')
    for i in range(QUERIES):
      found.add_query(f'q{i}', f'query {6 * i}', 'train' if i < 40 else 'valid')
      found.add_pair(f'q{i}', f'p{6 * i}', '')
      found.add_pair(f'q{i}', f'p{(6 * i + 1) % 360}', '', positive=False)
    found.add_query('new', 'query 3')
    return found

  embedder = Circle()
  monkeypatch.setattr(mining.matching, 'read', read)
  monkeypatch.setattr(mining.embedders, 'load', lambda handle: embedder)
  return embedder


def mined(config, folder, seed):
  mining.mine(config, str(folder / 'data'), seed)
  return transfer.write(config, str(folder / 'data'), str(folder / 'transfer'), seed)


def set_of(folder, name):
  return RecordSet(str(folder / 'transfer' if name == 'transfer' else folder / 'data' / name))


def rows(folder, name):
  return list(MinedTask.open(str(folder / 'data')).rows(set_of(folder, name)))


def away(row):
  """Degrees between a row's query and its passage."""
  one, other = (int(re.findall(r'\d+', row[name])[0]) for name in ('query', 'passage'))
  return min((one - other) % 360, (other - one) % 360)


def test_negatives_are_near_below_the_threshold_and_never_known(tmp_path, circle):
  threshold = float(np.cos(np.radians(4.5)))
  config = MiningConfig(
    negatives_from=21,
    negative_threshold=threshold,
    negative_quantile=0,
    transfer_per_query=5,
    transfer_pairs=0,
  )
  sheet = mined(config, tmp_path, 1)
  train = rows(tmp_path, 'train')
  assert [sum(row['label'] == label for row in train) for label in (1, 0)] == [40, 40]
  assert {away(row) for row in train if row['label']} == {0}
  assert {away(row) for row in train if not row['label']} == {5, 6, 7, 8, 9, 10}
  held = {row['query'] for name in ('valid', 'test') for row in rows(tmp_path, name)}
  assert len(held) == 20
  near = rows(tmp_path, 'transfer')
  assert len(near) == 5 * 41 and max(map(away, near)) == 2  # with the query of no match
  assert not held & {row['query'] for row in near + train}
  assert sheet['similarity_auc_roc'] == 1
  assert transfer.summary(sheet).endswith('on test: 1.000')
  poor = transfer.summary({**sheet, 'similarity_auc_roc': 0.444})
  assert 'on test: 0.444\nBelow 0.5 the negatives lie nearer than the matches.' in poor
  assert sheet['transfer'] == {'queries': 41, 'pairs': 205}
  assert sheet['splits']['train'] == {'queries': 40, 'positive': 40, 'negative': 40}


def test_queries_and_passages_are_items_once_and_pairs_are_their_numbers(tmp_path, circle):
  mined(MiningConfig(negative_quantile=0.9, transfer_per_query=50, transfer_pairs=0), tmp_path, 1)
  train, transferred = set_of(tmp_path, 'train'), set_of(tmp_path, 'transfer')
  for records in (train, transferred):
    assert list(records.items(0).texts())[:2] == ['query 0', 'query 6']
    assert list(records.items(1).texts()) == [f'passage at {i}' for i in range(PASSAGES)]
    assert list(records.items(1).ids()) == [f'p{i}' for i in range(PASSAGES)]
  names = sorted(path.name for path in (tmp_path / 'transfer').iterdir())
  assert names == ['00000.tfrecord', 'manifest.json']
  (row, *_), pair = rows(tmp_path, 'train'), train.tuples().items[0]
  assert (row['id'], row['query']) == (f'q{pair[0]}-p{pair[1]}', f'query {6 * pair[0]}')
  groups = transferred.tuples().groups
  assert np.diff(groups).tolist() == [400] * 5 + [50]  # eight queries each, and the last one
  items = transferred.tuples().items[:, 0]
  of_group = [set(some.tolist()) for some in np.split(items, groups[1:-1])]
  assert sum(map(len, of_group)) == len(set.union(*of_group)) == 41  # no query in two groups


def test_a_quantile_and_what_was_embedded(tmp_path, circle):
  config = MiningConfig(negatives_from=22, negative_quantile=0.5, transfer_pairs=600)
  first = mined(config, tmp_path, 1)
  degrees = [d for d in range(1, 11) for _ in (0, 1)]  # both sides of the query, but one related
  del degrees[0]
  expected = np.median(np.cos(np.radians(degrees)))
  assert first['threshold'] == pytest.approx(expected, abs=2e-3)
  assert first['transfer'] == {'queries': 41, 'pairs': 615}
  tuples = set_of(tmp_path, 'transfer').tuples()
  assert tuples.groups.tolist() == [0, 615]
  assert [len(set(items.tolist())) for items in tuples.items.T] == [41, 64]
  taken = rows(tmp_path, 'transfer')
  assert len({row['id'] for row in taken}) == 615
  assert sum(away(row) == 0 for row in taken) == 41  # all matches, and the nearest of query 3
  before, text = circle.asked, rows(tmp_path, 'train')
  assert mined(config, tmp_path, 1) == first
  assert circle.asked == before + 2  # one text of each side, for the width
  assert rows(tmp_path, 'train') == text
  mined(config, tmp_path, 2)
  assert rows(tmp_path, 'train') != text


@pytest.mark.parametrize(
  ('split', 'says'),
  [
    (
      'train',
      'valid: no positives; it brings splits of its own: add matches (qrels) of dev or test',
    ),
    ('', 'valid: no positives; more data or another --split_shares is needed'),
  ],
)
def test_a_split_without_positives_is_refused_before_a_text_is_embedded(
  tmp_path, circle, monkeypatch, split, says
):
  found = Matching()
  found.add_query('q', 'query 0', split)
  found.add_passage('p', 'passage 0')
  found.add_pair('q', 'p', '')
  monkeypatch.setattr(mining.matching, 'read', lambda *_: found)
  monkeypatch.setattr(mining.matching, 'split_of', lambda *_: 0)
  with pytest.raises(InputError, match=f'^qa.tsv: {re.escape(says)}$'):
    mining.mine(MiningConfig(mine_from='qa.tsv'), str(tmp_path), seed=1)
  assert not circle.asked


def test_what_is_refused(tmp_path, circle):
  with pytest.raises(InputError, match='train: has no negatives below -1'):
    mining.mine(MiningConfig(negative_threshold=-1, negative_quantile=0), str(tmp_path), seed=1)
  with pytest.raises(InputError, match='split_shares'):
    MiningConfig(split_shares=(0.5, 0.5))
  with pytest.raises(InputError, match='three shares that add up to 1'):
    MiningConfig(split_shares=(0.5, 0.1, 0.1))
