"""An id is in a store once, with one text; a killed call leaves it as it was and goes on."""

import json
import os

import numpy as np
import pytest

from common import files as common_files
from common.errors import InputError
from common.vectors.store import VectorStore
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
  rows = [('a', 'x'), ('b', 'x'), ('a', 'x'), ('c', 'xxx'), ('b', 'x')]
  once = [('a', 1), ('b', 1), ('c', 3)]
  assert contents(fill(rows)) == once
  assert fill.encoded == ['x', 'xxx']
  before, written = files(fill.folder), (fill.folder / 'manifest.json').stat().st_ino
  assert contents(fill(rows)) == once
  assert (fill.encoded, files(fill.folder)) == ([], before)
  assert (fill.folder / 'manifest.json').stat().st_ino == written  # it is not written anew
  assert contents(fill([('d', 'xxxx'), *rows, ('e', '')])) == [*once, ('d', 4), ('e', 0)]
  assert fill.encoded == ['', 'xxxx']
  VectorStore(str(fill.folder)).delete(['b'])
  assert contents(fill(rows))[-1] == ('b', 1)  # whose row was deleted


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
  ('rows', 'message'),
  [
    (None, 'rows: pairs of an id and a text are needed, not None'),
    ([5], 'row 0: an id and a text are needed'),
    (['ab'], 'row 0: an id and a text are needed'),
    ([('c', 'x', 'y')], 'row 0: an id and a text are needed'),
    ([('b', 'x'), ('c', None)], 'row 1: None is not a text'),
    ([('b', 'x'), ('c', float('nan'))], 'row 1: nan is not a text'),
    ([('b', 'x'), (7, 'x')], r'row 1: 7 is not an id; ids are texts: str\(id\)'),
    ([('c', b'x')], 'row 0: a value of type bytes is not a text'),
    ([('a', 'x'), ('\ud800', 'x')], 'row 1: not a text: .* surrogates not allowed'),
    ([('a', '\ud800')], 'row 0: not a text: .* surrogates not allowed'),
    (
      [('a', np.ones(2)), ('b', 'x')],
      r"row 1 \(id 'b'\): a text; the first row has numbers of shape \(2,\)",
    ),
    (
      [('a', 'x'), ('b', np.ones(2))],
      r"row 1 \(id 'b'\): numbers of shape \(2,\); the first row has a text",
    ),
    ([('a', np.ones(2)), ('b', np.ones(3))], r"row 1 \(id 'b'\): numbers of shape \(3,\); .*"),
    (
      [('z', np.ones(1)), ('b', np.array([np.nan]))],
      r"row 1 \(id 'b'\): not all of its numbers are finite numbers",
    ),
  ],
)
def test_a_row_that_holds_no_id_or_text_is_named(fill, rows, message):
  with pytest.raises(InputError, match=f'^{message}$'):
    fill(rows)


def test_a_killed_call_leaves_the_store_and_goes_on_with_the_first_missing_shard(fill, monkeypatch):
  fill([('a', 'x'), ('z', 'xx')])
  rows = [('a', 'changed'), ('b', 'two'), ('a', 'changed'), ('c', 'three')]
  encode = fill.encode

  def killed(texts):
    if 'three' in texts:
      raise KeyboardInterrupt
    return encode(texts)

  monkeypatch.setattr(fill, 'encode', killed)
  with pytest.raises(KeyboardInterrupt):
    fill(rows, replace=True)
  assert contents(VectorStore(str(fill.folder))) == [('a', 1), ('z', 2)]
  monkeypatch.undo()
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
