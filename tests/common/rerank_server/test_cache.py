"""Vectors by content: what was added comes back, from memory or the file, bit by bit."""

import os
import sqlite3

import numpy as np
import pytest

from common.errors import InputError
from common.rerank_server.cache import VectorCache, stored
from common.vectors.values import narrowed

SHAPE = (3, 4)
ROW = 3 * 4 + 3 * 4  # bytes: int8 values and float32 scales
KEYS = [bytes([number]) * 16 for number in range(5)]
VECTORS = np.random.default_rng(0).normal(size=(5, *SHAPE)).astype(np.float32)


def filled(cache, keys):
  rows = np.zeros(len(keys), cache.row)
  return rows, cache.fill(keys, rows)


def test_the_last_used_stay_in_memory_as_a_store_would_hold_them():
  cache = VectorCache(SHAPE, 3 * ROW)
  cache.add(KEYS[:3], VECTORS[:3])
  assert filled(cache, [KEYS[0]])[1] == []  # used: now the first that came is the second
  cache.add(KEYS[3:4], VECTORS[3:4])
  rows, missing = filled(cache, KEYS)
  assert (missing, len(cache)) == ([1, 4], 3)
  found, (values, scale) = stored(rows[[0, 2, 3]]), narrowed(VECTORS[[0, 2, 3]], 'int8')
  np.testing.assert_array_equal(found.values, values)
  np.testing.assert_array_equal(found.scale, scale)


def test_more_at_once_than_the_memory_holds():
  cache = VectorCache(SHAPE, 2 * ROW)
  assert len(cache.add(KEYS, VECTORS)) == 5 and len(cache) == 2
  assert filled(cache, KEYS)[1] == [0, 1, 2]


def test_another_process_finds_what_add_returned_from(tmp_path):
  path = str(tmp_path / 'folder' / 'vectors.sqlite')
  one, other = VectorCache(SHAPE, ROW, path), VectorCache(SHAPE, ROW, path)
  added = one.add(KEYS[:4], VECTORS[:4])
  rows, missing = filled(other, KEYS)
  assert missing == [4]
  np.testing.assert_array_equal(rows[:4], added)
  other.add(KEYS, VECTORS)  # four are there already
  assert sqlite3.connect(path).execute('SELECT count(*) FROM vectors').fetchone() == (5,)


def test_a_file_of_something_else_is_refused_and_a_lost_one_is_told(tmp_path, capsys):
  path = tmp_path / 'vectors.sqlite'
  path.write_bytes(b'no database at all' * 100)
  with pytest.raises(InputError, match=r'vectors\.sqlite: damaged .*; delete it'):
    VectorCache(SHAPE, ROW, str(path))
  os.remove(path)
  cache = VectorCache(SHAPE, 5 * ROW, str(path))
  sqlite3.connect(path).execute('DROP TABLE vectors')
  cache.add(KEYS, VECTORS)
  cache.add(KEYS, VECTORS)
  assert filled(cache, KEYS)[1] == []
  assert capsys.readouterr().err == f'{path}: no such table: vectors: no longer used\n'
