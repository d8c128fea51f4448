"""Orders of tuples: each once an epoch, what stays together, and another order each epoch."""

import itertools

import numpy as np
import pytest

from common.data import orders
from common.data.orders import ShuffledByLength, ShuffledGroups, ShuffledLists, ShuffledTuples
from common.data.tuples import Tuples

ORDERS = {
  'groups': lambda seed: ShuffledGroups(np.array([0, 3, 4, 9, 14]), 4, seed),
  'lists': lambda seed: ShuffledLists(np.array([5, 2, 9, 2, 5, 2, 0] * 2), 4, seed),
  'tuples': lambda seed: ShuffledTuples(14, 4, seed),
  'length': lambda seed: ShuffledByLength(np.array([0, 1] * 7), 4, seed),
}


@pytest.mark.parametrize('name', ORDERS)
def test_an_order_of_its_own_for_each_seed_and_epoch(name):
  def steps(seed):
    order = ORDERS[name](seed)
    return [order.rows(step).tolist() for step in range(6)]  # three a whole epoch

  found = steps(1)
  assert found == steps(1) != steps(2)
  for epoch in (found[:3], found[3:]):
    rows = sum(epoch, [])
    assert len(rows) == 12
    assert name == 'length' or len(set(rows)) == 12
  assert found[:3] != found[3:]


@pytest.mark.parametrize('name', ORDERS)
def test_a_step_is_the_same_where_those_before_are_not_asked_for(name):
  whole, late = ORDERS[name](3), ORDERS[name](3)
  rows = [whole.rows(step).tolist() for step in range(9)]
  assert [late.rows(step).tolist() for step in range(5, 9)] == rows[5:]


def test_groups_stay_together():
  sizes = [3, 1, 5, 5]
  starts = np.cumsum([0, *sizes])
  order, orders_of_groups = ShuffledGroups(starts, 14, 1), set()
  for step in range(5):  # an epoch each
    rows = order.rows(step).tolist()
    groups = [g for g, _ in itertools.groupby(np.searchsorted(starts, rows, side='right'))]
    orders_of_groups.add(tuple(groups))
    assert sorted(groups) == [1, 2, 3, 4]
    own = [sorted(row for row in rows if starts[g - 1] <= row < starts[g]) for g in groups]
    assert own == [[*range(starts[g - 1], starts[g])] for g in groups]
  assert len(orders_of_groups) > 1


def test_a_groups_rows_come_in_other_batches_of_the_next_epoch():
  order = ShuffledGroups(np.array([0, 64, 128]), 32, 1)
  epochs = [{frozenset(order.rows(4 * e + step).tolist()) for step in range(4)} for e in range(3)]
  assert all(sorted(itertools.chain(*epoch)) == [*range(128)] for epoch in epochs)
  assert len(set.union(*epochs)) == 12


def test_a_list_is_in_one_batch_wherever_its_tuples_are_in_the_set():
  left = np.array([5, 2, 5, 9, 2, 5, 9, 2, 5, 2, 9, 9])  # three lists of four, in no order
  order = ShuffledLists(left, 4, 1)
  for epoch in range(3):
    lists = [sorted(order.rows(3 * epoch + step).tolist()) for step in range(3)]
    assert sorted(lists) == [[0, 2, 5, 8], [1, 4, 7, 9], [3, 6, 10, 11]]
  cut = ShuffledLists(left, 6, 1)  # the second list is half in each batch
  assert [len({*left[cut.rows(step)]}) for step in range(2)] == [2, 2]
  rows = [*cut.rows(0), *cut.rows(1)]
  assert len([*itertools.groupby(left[rows])]) == 3


def test_tuples_that_fill_no_batch_wait_for_the_next_epoch():
  lengths = np.array([0] * 5 + [1] * 2)
  order = ShuffledByLength(lengths, 4, 1)
  batches = [order.rows(step) for step in range(7)]  # 35 tuples of 0 or 14 of 1 a five epochs
  assert all(len(set(lengths[rows])) == 1 for rows in batches)
  counts = np.bincount(np.concatenate(batches), minlength=7)
  assert counts.max() - counts.min() <= 1 and {lengths[rows[0]] for rows in batches} == {0, 1}


ROW = np.arange(640)


@pytest.mark.parametrize(
  ('left', 'right', 'encoded', 'order'),
  [
    (ROW // 10, ROW, (0, 1), ShuffledGroups),  # a log sorted by query
    (ROW // 3, ROW, (0, 1), ShuffledGroups),  # premises of three hypotheses
    (ROW % 64, ROW, (0, 1), ShuffledTuples),  # a log in another order
    (ROW, ROW % 32, (0, 1), ShuffledTuples),  # of few categories
    (ROW // 10, ROW, (1,), ShuffledTuples),  # queries that are vectors
    (ROW // 10, ROW, (), ShuffledTuples),
  ],
)
def test_groups_stay_together_where_that_saves_encodings(left, right, encoded, order):
  tuples = Tuples(np.stack([left, right], 1), groups=np.arange(0, 641, 64))
  for blocks, expected in ((False, order), (True, ShuffledGroups)):
    found = orders.of_items(tuples, 32, 1, encoded=encoded, compared=False, blocks=blocks)
    assert isinstance(found, expected)
