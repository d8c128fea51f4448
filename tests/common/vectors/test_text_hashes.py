"""An id is in a store once, with one text; a killed call leaves it as it was and goes on."""

import json
import os
import signal
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from common import files as common_files
from common.errors import InputError
from common.vectors import text_hashes
from common.vectors.store import VectorStore
from common.vectors.text_hashes import TextHashes, hashes, repeated
from common.vectors.writer import VectorWriter


@pytest.fixture(name='fill')
def _fill(tmp_path):
  """Adds rows to a store in shards of two, a text's vector its length; `encoded` has the texts."""

  class Fill:
    folder = tmp_path / 'store'
    encoded: list[str] = []

    def __call__(self, rows, **options):
      self.encoded.clear()
      writer = VectorWriter(str(self.folder), [1], 'float32', 'f', 'left')
      return writer.fill(rows, self.encode, shard_size=2, **options)

    def encode(self, texts):
      self.encoded.extend(texts)
      return np.array([[len(text)] for text in texts], np.float32)

  return Fill()


def contents(store):
  """(id, vector) of every row, found by row and found by id."""
  store.verify()
  ids = store.ids(range(len(store)))
  assert store.rows(ids).tolist() == list(range(len(store)))
  return list(zip(ids, store.vectors(slice(None))[:, 0].tolist(), strict=True))


def files(folder):
  return {path.name for path in folder.iterdir()}


def test_what_is_there_with_the_same_text_is_not_added_again(fill):
  rows = [('a', 'x'), ('b', 'xx'), ('a', 'x'), ('c', 'xxx'), ('b', 'xx')]
  once = [('a', 1), ('b', 2), ('c', 3)]
  assert contents(fill(rows)) == once
  before, written = files(fill.folder), (fill.folder / 'manifest.json').stat().st_ino
  assert contents(fill(rows)) == once
  assert (fill.encoded, files(fill.folder)) == ([], before)
  assert (fill.folder / 'manifest.json').stat().st_ino == written  # it is not written anew
  assert contents(fill([('d', 'xxxx'), *rows, ('e', '')])) == [*once, ('d', 4), ('e', 0)]
  assert fill.encoded == ['', 'xxxx']


def test_few_rows_are_looked_for_and_no_other_stored_id_is_hashed(fill, monkeypatch):
  fill([(str(i), 'x' * i) for i in range(7)]).delete(['3'])
  hashed, hash64 = [], text_hashes.hash64
  monkeypatch.setattr(text_hashes, 'hash64', lambda text: hashed.append(text) or hash64(text))
  assert contents(fill([('5', 'yy')], replace=True))[-2:] == [('6', 6), ('5', 2)]
  assert set(hashed) == {'5', 'yy'}
  with pytest.raises(InputError, match="id '6' is there with another text"):
    fill([('6', 'y')])
  assert contents(fill([('3', 'z')]))[-1] == ('3', 1)  # whose row was deleted


def test_another_text_for_an_id_is_refused_or_replaces_its_vectors(fill):
  fill([('a', 'x'), ('b', 'xx'), ('c', 'xxx'), ('d', 'xxxx'), ('e', 'x')])
  manifest = (fill.folder / 'manifest.json').read_bytes()
  changed = [('f', 'x'), ('a', 'x'), ('d', 'yy'), ('c', 'yyy'), ('b', '')]
  with pytest.raises(InputError, match=r"store: id 'd' is there with another text; replace=True"):
    fill(changed)
  assert (fill.folder / 'manifest.json').read_bytes() == manifest
  expected = [('a', 1), ('e', 1), ('f', 1), ('d', 2), ('c', 3), ('b', 0)]
  assert contents(fill(changed, replace=True)) == expected
  listed = {s['name'] for s in json.loads((fill.folder / 'manifest.json').read_text())['shards']}
  assert files(fill.folder) == {*listed, 'manifest.json'}
  assert contents(fill(changed, replace=True)) == expected
  assert fill.encoded == []
  assert contents(fill([('d', 'yyyyy'), ('g', 'x')], replace=True))[-2:] == [('d', 5), ('g', 1)]


@pytest.mark.parametrize('replace', [False, True])
@pytest.mark.parametrize('between', [[], [('b', 'x'), ('c', 'x')]])  # in a shard, in two
def test_two_texts_of_an_id_in_one_call_are_refused(fill, replace, between):
  fill([('old', 'x')])
  for key, text in (('new', 'x'), ('old', 'x')):
    with pytest.raises(InputError, match=f"^id '{key}': given with two texts; an id has one$"):
      fill([(key, text), *between, (key, 'other')], replace=replace)
  assert contents(VectorStore(str(fill.folder))) == [('old', 1)]


@pytest.mark.parametrize(
  ('row', 'message'),
  [
    (('c', None), 'row 2: None is not a text'),
    (('c', float('nan')), 'row 2: nan is not a text'),
    ((7, 'x'), r'row 2: 7 is not an id; ids are texts: str\(id\)'),
    (('c', b'x'), 'row 2: a value of type bytes is not a text'),
    ('ab', 'row 2: an id and a text are needed'),
    (('c', 'x', 'y'), 'row 2: an id and a text are needed'),
  ],
)
def test_a_row_that_holds_no_id_or_text_is_named(fill, row, message):
  with pytest.raises(InputError, match=f'^{message}$'):
    fill([('a', 'x'), ('b', 'x'), row])


_KILLED = """
import os, signal, sys
import numpy as np
from common.vectors.writer import VectorWriter

def encode(texts):
  if 'three' in texts:
    os.kill(os.getpid(), signal.SIGKILL)
  return np.array([[len(text)] for text in texts], np.float32)

rows = [('a', 'changed'), ('b', 'two'), ('a', 'changed'), ('c', 'three')]
VectorWriter(sys.argv[1], [1], 'float32', 'f', 'left').fill(
  rows, encode, replace=True, shard_size=2
)
"""


def test_a_killed_call_leaves_the_store_and_goes_on_with_the_first_missing_shard(fill):
  fill([('a', 'x'), ('z', 'xx')])
  done = subprocess.run([sys.executable, '-c', _KILLED, str(fill.folder)], check=False)
  assert done.returncode == -signal.SIGKILL
  assert contents(VectorStore(str(fill.folder))) == [('a', 1), ('z', 2)]
  rows = [('a', 'changed'), ('b', 'two'), ('a', 'changed'), ('c', 'three')]
  expected = [('z', 2), ('a', 7), ('b', 3), ('c', 5)]
  assert contents(fill(rows, replace=True)) == expected
  assert fill.encoded == ['three']


def test_a_call_killed_at_its_manifest_leaves_the_store_and_goes_on(fill, monkeypatch):
  fill([('a', 'x'), ('z', 'xx')])
  replace = os.replace

  def killed(source, target):
    if target.endswith('manifest.json'):
      raise KeyboardInterrupt
    replace(source, target)

  monkeypatch.setattr(common_files.os, 'replace', killed)
  with pytest.raises(KeyboardInterrupt):
    fill([('a', 'xxx')], replace=True)
  assert contents(VectorStore(str(fill.folder))) == [('a', 1), ('z', 2)]
  monkeypatch.undo()
  assert contents(fill([('a', 'xxx')], replace=True)) == [('z', 2), ('a', 3)]
  assert fill.encoded == []


def test_shards_missing_from_the_numbers_are_not_written_over(fill):
  fill([('a', 'x'), ('b', 'xx'), ('c', 'xxx')])
  path = fill.folder / 'manifest.json'
  manifest = common_files.read_json(str(path))
  (fill.folder / 'vectors-00001.arrow').rename(fill.folder / 'vectors-00002.arrow')
  manifest['shards'][1]['name'] = 'vectors-00002.arrow'  # as where units of a job had no rows
  path.write_text(json.dumps(manifest))
  assert contents(fill([('d', 'xxxx')])) == [('a', 1), ('b', 2), ('c', 3), ('d', 4)]


def test_hashes_take_rows_in_as_a_dictionary_does():
  rng = np.random.default_rng(0)
  there = TextHashes('', [(hashes(['1', '2']), hashes(['a', 'b'])), (hashes(['3']), hashes(['c']))])
  known = {'1': 'a', '2': 'b', '3': 'c'}
  for _ in range(50):
    ids = [str(i) for i in rng.integers(0, 200, 20)]
    texts = [known.get(key, f'text {key}') for key in ids]
    expected = []
    for row, key in enumerate(ids):
      if key not in known:
        expected.append(row)
        known[key] = texts[row]
    assert there.add(ids, texts).tolist() == expected
  assert len(there.replaced) == 0


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
