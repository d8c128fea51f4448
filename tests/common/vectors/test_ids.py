"""Ids are found exactly, whatever their hashes; repeated ids are found in little memory."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from common.vectors import ids
from common.vectors.ids import Ids, hashes, repeated


@pytest.mark.parametrize('distinct', [0, 1, 7])  # hashes; 0: as they are
def test_ids_are_found_as_in_a_dictionary(monkeypatch, distinct):
  if distinct:
    few = lambda some: np.array([len(key) % distinct for key in some], np.int64)  # noqa: E731
    monkeypatch.setattr(ids, '_hashed', few)
  rng = np.random.default_rng(0)
  keys = [f'é{"x" * (i % 9)}{i}' for i in rng.permutation(120)]
  found = Ids(pa.array(keys[start : start + 7], pa.string()) for start in range(0, 70, 7))
  known = {key: row for row, key in enumerate(keys[:70])}
  for start in range(70, 120, 10):
    asked = [keys[i] for i in rng.integers(0, 120, 40)]
    assert found.find(asked).tolist() == [known.get(key, -1) for key in asked]
    found.add(keys[start : start + 10])
    known |= {key: row for row, key in enumerate(keys[start : start + 10], start)}
  assert found.find(keys).tolist() == list(range(120)) and len(found) == 120
  assert found[np.array([119, 3, 3, 70])] == [keys[119], keys[3], keys[3], keys[70]]
  assert found.find([]).tolist() == found[np.zeros(0, np.int64)] == []
  assert Ids().find(['a']).tolist() == [-1]


def test_what_occurs_twice_in_all_parts_together():
  parts = [hashes(['a', 'b', 'c']), hashes([]), hashes(['d', 'c', 'e', 'e', 'e'])]
  assert repeated(parts).tolist() == sorted(hashes(['c', 'e']).tolist())
  assert repeated([]).tolist() == []


def test_ids_that_are_compared_take_10_bytes_each():
  parts = (np.arange(start, start + 1000, dtype=np.uint64) for start in range(0, 50_000, 1000))
  tracemalloc.start()
  assert len(repeated(parts)) == 0
  _, peak = tracemalloc.get_traced_memory()
  tracemalloc.stop()
  assert peak / 50_000 < 11
