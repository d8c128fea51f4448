"""Blocks of pairs from vectors laid out by hand, against a slow reference."""

import dataclasses
import itertools
import tracemalloc

import numpy as np
import pytest

from common.data import record_writer
from common.data.examples import Example
from common.data.records import RecordSet
from common.data.texts import hash64
from common.data.tuples import Tuples
from common.distillation import blocks, pairing
from common.distillation.pairing import PairingConfig
from common.errors import InputError
from common.vectors import neighbors


def arc(*degrees: float) -> np.ndarray:
  """Vectors of length one; on a quarter circle, nearer by angle is nearer by inner product."""
  angles = np.radians(degrees)
  return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)


LEFT = arc(0, 2.3, 30, 33.5, 80, 88.6)
RIGHT = arc(1.1, 15.2, 31.9, 50.3, 78.7, 86.4, 90)
PARTNERS = np.array([(0, 6), (0, 4), (1, 5), (3, 0), (4, 1), (5, 2), (0, 6)])  # (2, none)


def first_blocks(count: int, shape=(2, 3), seed=0):
  """The first blocks, of all combinations, as (side of the group, lefts, rights)."""
  pairs = shape[0] * shape[1]
  made = blocks.pair_blocks(LEFT, RIGHT, PARTNERS, shape, pairs, 1.0, seed)
  found = []
  for side, block in zip(itertools.cycle((0, 1)), itertools.islice(made, count), strict=False):
    lefts, rights = (list(dict.fromkeys(block[:, i].tolist())) for i in (0, 1))
    assert block.tolist() == [[i, j] for i in lefts for j in rights]  # every left with every right
    found.append((side, lefts, rights))
  return found


def in_turn(group: list[int], side: int, count: int) -> list[list[int]]:
  """Partners, then neighbours by distance: the first of each member, the second of each, ...

  A list for each order in which the members' partners may stand.
  """
  own, other = (LEFT, RIGHT) if side == 0 else (RIGHT, LEFT)
  found, orders = [], []
  for member in group:
    partners = [pair[1 - side] for pair in PARTNERS.tolist() if pair[side] == member]
    nearest = sorted(range(len(other)), key=lambda i: -(own[member] @ other[i]))
    orders.append([[*order, *nearest] for order in itertools.permutations(partners)])
  for lists in itertools.product(*orders):
    ranks = itertools.zip_longest(*lists)
    chosen = dict.fromkeys(i for rank in ranks for i in rank if i is not None)
    found.append(list(chosen)[:count])
  return found


@pytest.mark.parametrize('shape', [(2, 3), (1, 4), (3, 2), (2, 7)])
def test_near_items_equal_the_reference(shape):
  found = first_blocks(24, shape)
  assert len(found) == 24
  for side, lefts, rights in found:
    assert (len(lefts), len(rights)) == shape
    group, chosen = (lefts, rights) if side == 0 else (rights, lefts)
    assert chosen in in_turn(group, side, shape[1 - side])


def test_a_group_meets_other_partners_each_time():
  chosen = {tuple(rights) for side, lefts, rights in first_blocks(24, (1, 1)) if lefts == [0]}
  assert {(4,), (6,)} <= chosen


def test_groups_are_neighbours():
  groups = {tuple(sorted(lefts)) for side, lefts, _ in first_blocks(6) if side == 0}
  assert groups == {(0, 1), (2, 3), (4, 5)}  # an epoch of left groups, every one once


@pytest.mark.parametrize('pairs', [6, 9, 14, 30, 42])
def test_combinations_equal_the_reference(pairs):
  known = {tuple(pair) for pair in PARTNERS.tolist()}
  everything = list(itertools.product(range(6), range(7)))
  value = {(i, j): np.inf if (i, j) in known else LEFT[i] @ RIGHT[j] for i, j in everything}

  def turn(i: int, j: int) -> int:
    """How many of the same left, or of the same right, come before; known pairs are before all."""
    of_left = sum(value[i, k] > value[i, j] for k in range(7))
    of_right = sum(value[k, j] > value[i, j] for k in range(6))
    return -1 if (i, j) in known else min(of_left, of_right)

  expected = sorted(everything, key=lambda pair: (turn(*pair), -value[pair]))[:pairs]
  made = blocks.pair_blocks(LEFT, RIGHT, PARTNERS, (6, 7), pairs, 1.0, 0)
  found = [sorted(map(tuple, block.tolist())) for block in itertools.islice(made, 4)]
  assert found == [sorted(expected)] * 4


def test_the_rest_of_a_block_is_random_and_never_twice():
  seen = set()
  made = blocks.pair_blocks(LEFT, RIGHT, PARTNERS, (6, 7), 12, 0.5, 0)
  for block in itertools.islice(made, 40):
    pairs = {tuple(pair) for pair in block.tolist()}
    assert len(pairs) == 12
    assert {tuple(pair) for pair in PARTNERS.tolist()} <= pairs  # the six known of 0.5 * 12
    seen |= pairs
  assert len(seen) == 42


def test_blocks_are_a_function_of_the_seed():
  assert first_blocks(8, seed=3) == first_blocks(8, seed=3)
  assert first_blocks(8, seed=3) != first_blocks(8, seed=4)


@pytest.mark.parametrize('side', [0, 1])
def test_every_item_gets_its_groups(side):
  groups = [b[1 + side] for b in first_blocks(60, shape=(4, 5)) if b[0] == side]
  assert {item for group in groups for item in group} == set(range((6, 7)[side]))


TINY = PairingConfig(distillation_pairs=10, block_pairs=4, pairing_pretrained='random-tiny')
TRAIN = {
  2: [('red', 'a shoe'), ('red', 'a hat'), ('blue', 'a hat'), ('green', 'a sock')],
  3: [('red', 'shoe', 'new'), ('red', 'hat', 'old'), ('blue', 'hat', 'old'), ('tan', 'hat', 'new')],
}


def train_set(folder, texts: int) -> RecordSet:
  """The rows as `train`, beside a set whose texts come first in the tables."""
  other = [Example('', ('never paired',) * texts, 1.0)]
  train = [Example('', row, n / 4) for n, row in enumerate(TRAIN[texts])]
  sets = {'test': record_writer.of_examples(other), 'train': record_writer.of_examples(train)}
  record_writer.write_sets(str(folder), sets, texts)
  return RecordSet(str(folder / 'train'))


@pytest.fixture(autouse=True)
def _two_texts_a_side(monkeypatch):
  monkeypatch.setattr(blocks, 'TEXTS', 2)
  monkeypatch.setattr(blocks, 'NEAR', 0.5)


def made_of(train: RecordSet, folder, config=TINY) -> list[Tuples]:
  items = [train.items(slot) for slot in range(train.slots)]
  return list(pairing.from_training(train.tuples(), items, config, str(folder), seed=1))


def vector(text):  # the same to the last bit, whatever it is encoded with
  values = np.random.default_rng(hash64(text)).normal(size=8)
  return values / np.linalg.norm(values)


class Vectors:
  """An encoder that gives a text its `vector`."""

  dim = 8

  def __init__(self, path):
    del path

  def encode(self, texts, advance):
    return np.array([vector(text) for text in texts])


@pytest.mark.parametrize('texts', [2, 3])
def test_tuples_from_training_texts(texts, tmp_path, monkeypatch):
  """Against texts in dictionaries, in the order of their first rows."""
  train, rows = train_set(tmp_path, texts), TRAIN[texts]
  lefts, rights = (
    list(dict.fromkeys(side)) for side in zip(*((r[:1], r[1:]) for r in rows), strict=True)
  )

  def vectors(items):
    means = np.stack([np.mean([vector(text) for text in item], 0) for item in items])
    return means / np.linalg.norm(means, axis=1, keepdims=True)

  partners = np.array([(lefts.index(r[:1]), rights.index(r[1:])) for r in rows])
  expected = blocks.pair_blocks(vectors(lefts), vectors(rights), partners, (2, 2), 4, 0.5, 1)
  monkeypatch.setattr(pairing, 'MeanPooledEncoder', Vectors)
  made, folder = made_of(train, tmp_path), tmp_path / 'made'
  assert [len(block) for block in made] == [4, 4, 4]  # whole blocks, 10 pairs or more
  record_writer.write(str(folder), made, record_writer.tables_from(train, str(folder)))
  assert sorted(path.name for path in folder.iterdir()) == ['00000.tfrecord', 'manifest.json']
  found = RecordSet(str(folder)).texts()
  pairs = itertools.chain.from_iterable(itertools.islice(expected, 3))
  assert found == [lefts[i] + rights[j] for i, j in pairs]
  label = np.concatenate([block.label[:, 0] for block in made])
  known = {row: n / 4 for n, row in enumerate(rows)}
  np.testing.assert_array_equal(label, [known.get(row, np.nan) for row in found])
  assert all(block.teacher_logits is None for block in made)


@pytest.mark.parametrize('texts', [2, 3])
def test_vectors_lie_in_a_file_and_few_are_read_at_a_time(texts, tmp_path, monkeypatch):
  class Encoder:
    dim = 2048

    def __init__(self, path):
      del path

    def encode(self, texts, advance):
      return np.random.default_rng(len(texts)).normal(size=[len(texts), 2048]).astype(np.float32)

  rows = [Example('', tuple(f'{slot} {n}' for slot in range(texts)), 1.0) for n in range(1000)]
  record_writer.write_sets(str(tmp_path), {'train': record_writer.of_examples(rows)}, texts)
  train = RecordSet(str(tmp_path / 'train'))
  monkeypatch.setattr(pairing, 'MeanPooledEncoder', Encoder)
  monkeypatch.setattr(blocks, 'TEXTS', 64)
  for module in (blocks, neighbors, pairing):
    monkeypatch.setattr(module, '_BLOCK', 64)
  made_of(train_set(tmp_path / 'few', texts), tmp_path)  # what is imported and cached at first
  left = sorted(tmp_path.iterdir())
  tracemalloc.start()
  try:
    made_of(train, tmp_path)
    _, peak = tracemalloc.get_traced_memory()
  finally:
    tracemalloc.stop()
  assert peak < texts * 1000 * 2048 * 4 / 4  # a quarter of one copy
  assert sorted(tmp_path.iterdir()) == left


@pytest.mark.parametrize(('texts', 'sizes'), [(2, [4, 4, 4]), (3, [5, 5]), (64, [5, 5])])
def test_a_block_is_smaller_where_texts_are_few(texts, sizes, tmp_path, monkeypatch):
  monkeypatch.setattr(blocks, 'TEXTS', texts)
  monkeypatch.setattr(pairing, 'MeanPooledEncoder', Vectors)
  config = dataclasses.replace(TINY, block_pairs=5)
  assert [len(block) for block in made_of(train_set(tmp_path, 2), tmp_path, config)] == sizes


def test_config_is_refused_when_made():
  with pytest.raises(InputError, match='--unlabelled_texts=c.tsv: COLUMN:FILE is needed'):
    PairingConfig(unlabelled_texts=('c.tsv',))
  with pytest.raises(InputError, match='=a:b.tsv: pairs are made of them; --distillation_pairs=0 '):
    PairingConfig(0, unlabelled_texts=('a:b.tsv',))
