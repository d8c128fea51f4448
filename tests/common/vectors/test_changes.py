"""Rows deleted and shards compacted: at once or not at all, open readers undisturbed."""

import errno
import signal
import subprocess
import sys

import numpy as np
import pytest

from common import files, verify
from common.errors import InputError
from common.vectors import changes, shards, values
from common.vectors.manifest import Shard
from common.vectors.neighbors import Index
from common.vectors.store import VectorStore
from common.vectors.writer import VectorWriter

ROWS = [('a', 'x'), ('b', 'xx'), ('c', 'xxx'), ('d', 'xxxx'), ('e', 'xxxxx')]


def fill(folder, rows=ROWS, dtype='float32', **options):
  """Rows in shards of two: a text of n letters has the vector [n, 1]."""

  def encode(texts):
    return np.array([[len(text), 1] for text in texts], np.float32)

  writer = VectorWriter(str(folder), [2], dtype, 'f', 'right')
  return writer.fill(rows, encode, shard_size=2, **options)


def contents(opened):
  """(id, first number of its vector) of every row, found by row and found by id."""
  ids = opened.ids(range(len(opened)))
  assert opened.rows(ids).tolist() == list(range(len(opened)))
  lengths = opened.vectors(slice(None))[:, 0].round(1).tolist()
  for row, length in enumerate(lengths):
    assert round(float(opened.vectors([row])[0, 0]), 1) == length
  return list(zip(ids, lengths, strict=True))


def listed(folder):
  return {s['name']: s for s in files.read_json(str(folder / 'manifest.json'))['shards']}


def names(folder):
  return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize('dtype', values.DTYPES)
def test_deleted_ids_are_gone_and_their_shards_as_they_were(tmp_path, dtype):
  before = fill(tmp_path, dtype=dtype)
  first = (tmp_path / 'vectors-00000.arrow').read_bytes()
  after = before.delete(['b', 'nobody', 'e'])
  assert contents(after) == contents(VectorStore(str(tmp_path))) == [('a', 1), ('c', 3), ('d', 4)]
  assert after.find(['b', 'd', 'e']).tolist() == [-1, 2, -1]
  with pytest.raises(InputError, match="no vectors of id 'b'"):
    after.rows(['b'])
  assert (tmp_path / 'vectors-00000.arrow').read_bytes() == first
  assert names(tmp_path) == {'manifest.json', 'vectors-00000.arrow', 'vectors-00001.arrow'}
  assert verify.verify(str(tmp_path))[0] == 2
  manifest = (tmp_path / 'manifest.json').read_bytes()
  after.delete(['e', 'b'])
  assert (tmp_path / 'manifest.json').read_bytes() == manifest


def test_a_deleted_id_comes_again_with_any_text_and_a_changed_one_moves(tmp_path):
  fill(tmp_path).delete(['b'])
  again = fill(tmp_path, [('b', 'six' * 2), ('a', 'x')])
  assert contents(again) == [('a', 1), ('c', 3), ('d', 4), ('e', 5), ('b', 6)]
  moved = fill(tmp_path, [('c', 'sevenns'), ('b', 'six' * 2)], replace=True)
  assert contents(moved) == [('a', 1), ('d', 4), ('e', 5), ('b', 6), ('c', 7)]
  assert contents(moved.delete(['b', 'c', 'a'])) == [('d', 4), ('e', 5)]
  empty = moved.delete(key for key, _ in ROWS)
  assert contents(empty) == contents(empty.compact()) == []
  assert Index.of_store(empty).nearest(np.ones([1, 2], np.float32), 3).shape == (1, 0)
  assert contents(fill(tmp_path, [('a', 'x')])) == [('a', 1)]


@pytest.mark.parametrize('dtype', values.DTYPES)
def test_compaction_leaves_out_deleted_rows_and_joins_small_shards(tmp_path, dtype):
  fill(tmp_path, dtype=dtype).delete(['b', 'c'])
  changes.compact(str(tmp_path), shard_size=2)  # [a] [d] are one, [e] is as it was
  found = VectorStore(str(tmp_path))
  assert contents(found) == [('a', 1), ('d', 4), ('e', 5)]
  assert names(tmp_path) == {'manifest.json', 'vectors-00002.arrow', 'vectors-00003.arrow'}
  assert {name: shard['count'] for name, shard in listed(tmp_path).items()} == {
    'vectors-00003.arrow': 2,
    'vectors-00002.arrow': 1,
  }
  assert not any(shard['deleted'] for shard in listed(tmp_path).values())
  found.verify()
  assert contents(found.compact()) == [('a', 1), ('d', 4), ('e', 5)]
  assert list(listed(tmp_path)) == ['vectors-00004.arrow']
  assert contents(fill(tmp_path, [('d', 'xxxx'), ('f', 'x')], dtype)) == [
    *contents(found),
    ('f', 1),
  ]


def test_an_open_store_stays_what_it_was(tmp_path):
  before = fill(tmp_path)
  query = np.array([[5.0, 1.0]], np.float32)  # the more letters, the nearer
  expected = contents(before)
  after = before.delete(['e', 'a'])
  fill(tmp_path, [('d', 'x')], replace=True)
  after.compact()
  assert contents(before) == expected
  assert contents(after) == [('b', 2), ('c', 3), ('d', 4)]
  assert Index.of_store(before).nearest(query, 5).tolist() == [[4, 3, 2, 1, 0]]
  assert Index.of_store(after).nearest(query, 5).tolist() == [[2, 1, 0]]  # d, c, b
  now = VectorStore(str(tmp_path))
  assert contents(now) == [('b', 2), ('c', 3), ('d', 1)]
  assert Index.of_store(now).nearest(query, 5).tolist() == [[1, 0, 2]]


def test_a_store_that_changes_while_it_is_opened_is_opened_anew(tmp_path, monkeypatch):
  fill(tmp_path).delete(['a'])
  opened = shards.opened

  def compacted(*of):
    monkeypatch.setattr(shards, 'opened', opened)
    changes.compact(str(tmp_path))  # the shards that the manifest named are gone
    return opened(*of)

  monkeypatch.setattr(shards, 'opened', compacted)
  assert contents(VectorStore(str(tmp_path))) == [('b', 2), ('c', 3), ('d', 4), ('e', 5)]


_KILLED = """
import os, signal, sys
from common.vectors import changes

replace = os.replace

def killed(source, target):
  if target.endswith('manifest.json'):
    os.kill(os.getpid(), signal.SIGKILL)
  replace(source, target)

os.replace = killed
if sys.argv[1] == 'delete':
  changes.delete(sys.argv[2], ['a', 'd'])
else:
  changes.compact(sys.argv[2])
"""


@pytest.mark.parametrize(
  ('change', 'expected'),
  [('delete', [('c', 3), ('e', 5)]), ('compact', [('a', 1), ('c', 3), ('d', 4), ('e', 5)])],
)
def test_a_change_killed_before_the_manifest_is_renamed_has_not_been(tmp_path, change, expected):
  fill(tmp_path).delete(['b'])
  done = subprocess.run([sys.executable, '-c', _KILLED, change, str(tmp_path)], check=False)
  assert done.returncode == -signal.SIGKILL
  there = VectorStore(str(tmp_path))
  there.verify()
  assert contents(there) == [('a', 1), ('c', 3), ('d', 4), ('e', 5)]
  again = there.delete(['a', 'd']) if change == 'delete' else there.compact()
  again.verify()
  assert contents(again) == expected
  assert names(tmp_path) - {'manifest.json.tmp'} == {'manifest.json', *listed(tmp_path)}


def test_a_compaction_that_is_broken_off_leaves_no_copy(tmp_path, monkeypatch):
  fill(tmp_path).delete(['b', 'c', 'e'])
  whole = {'manifest.json', *listed(tmp_path)}
  (tmp_path / 'vectors-00009.arrow.tmp').touch()  # of one that was killed
  written, copied = Shard.written, []

  def full(folder, name, count):
    if copied:
      raise OSError(errno.ENOSPC, 'No space left on device', name)
    copied.append(name)
    return written(folder, name, count)

  monkeypatch.setattr(Shard, 'written', full)
  with pytest.raises(OSError, match='No space left'):
    changes.compact(str(tmp_path), shard_size=1)
  assert copied and names(tmp_path) == whole
  monkeypatch.undo()
  changes.compact(str(tmp_path), shard_size=1)
  assert contents(VectorStore(str(tmp_path))) == [('a', 1), ('d', 4)]
  assert names(tmp_path) == {'manifest.json', *listed(tmp_path)}


def test_files_that_are_not_the_stores_stay(tmp_path):
  own = {'products.arrow', 'data-00000-of-00001.arrow', 'vectors-0.arrow'}
  for name in own:
    (tmp_path / name).write_text('mine')
  fill(tmp_path).delete(['b']).compact()
  assert own == names(tmp_path) - {'manifest.json', *listed(tmp_path)}


def test_what_cannot_be_deleted_is_refused(tmp_path):
  with pytest.raises(InputError, match='no whole vector store there'):
    changes.delete(str(tmp_path), ['a'])
  opened = fill(tmp_path)
  with pytest.raises(InputError, match='^ids: a list of ids is needed, not a value of type str$'):
    opened.delete('a')
  with pytest.raises(InputError, match='^ids, row 1: 7 is not an id$'):
    opened.delete(['a', 7])
  with files.alone(str(tmp_path), 'folder'):
    for change in (lambda: opened.delete(['a']), opened.compact, lambda: fill(tmp_path)):
      with pytest.raises(InputError, match=r'^folder=.*: another process .*works in it; wait'):
        change()
  assert contents(VectorStore(str(tmp_path))) == contents(opened)
