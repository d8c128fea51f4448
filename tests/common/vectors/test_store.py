"""The vector store: what is written is read, and nothing half-written or changed is."""

import json
import os
import re
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from common import files
from common.errors import InputError
from common.vectors import parquet
from common.vectors.store import VectorStore
from common.vectors.writer import VectorWriter

SHAPE = (2, 3)


def vectors(rows, seed=0):
  values = np.random.default_rng(seed).normal(size=(rows, *SHAPE)).astype(np.float32)
  values[0, 1] = 0  # a padded position
  return values


def write(folder, dtype='float32', fingerprint='f'):
  """Two shards, of 5 and 3 rows."""
  writer = VectorWriter(str(folder), SHAPE, dtype, fingerprint, 'right')
  values = vectors(8)
  ids = [f'é{i}' for i in range(8)]
  writer.write(0, ids[:5], ids[:5], values[:5])
  writer.write(1, ids[5:], ids[5:], values[5:])
  return writer.finish(2), values


@pytest.mark.parametrize(
  ('dtype', 'atol', 'size'), [('float32', 0, 24), ('float16', 2e-3, 12), ('int8', 0.02, 14)]
)
def test_vectors_are_read_as_they_were_written(tmp_path, dtype, atol, size):
  store, values = write(tmp_path, dtype)
  assert (len(store), store.dtype, store.shape, store.side) == (8, dtype, SHAPE, 'right')
  np.testing.assert_allclose(store.vectors(slice(None)), values, atol=atol)
  picked = [6, 0, 4, 5, 5]  # across shards, out of order
  np.testing.assert_allclose(store.vectors(picked), values[picked], atol=atol)
  np.testing.assert_allclose(store.vectors(slice(4, 6)), values[4:6], atol=atol)
  assert not store.vectors([0])[0, 1].any()
  assert store.ids(picked) == ['é6', 'é0', 'é4', 'é5', 'é5']
  assert store.rows(['é7', 'é0']).tolist() == [7, 0]
  store.verify()
  stored = [piece.stored for piece in store._pieces]
  arrays = [a for of in stored for a in (of.values, of.scale) if a is not None]
  assert sum(a.nbytes for a in arrays) == 8 * size


@pytest.mark.parametrize('dtype', ['float32', 'float16', 'int8'])
def test_rows_that_follow_one_another_are_the_files_own_bytes(tmp_path, dtype):
  store, values = write(tmp_path, dtype)
  stored = store.stored(slice(1, 4))
  assert len(stored) == 3 and stored.values.dtype == dtype
  assert np.shares_memory(stored.values, store._pieces[0].stored.values)
  assert stored[1:].dtype == np.float32
  np.testing.assert_allclose(stored[1:], values[2:4], atol=0.02)
  np.testing.assert_array_equal(store.stored([5, 1])[:], store.vectors([5, 1]))  # of two shards


def test_rows_of_many_shards_come_in_their_order(tmp_path):
  values, writer = vectors(60), VectorWriter(str(tmp_path), SHAPE, 'float32', 'f', 'right')
  ids = [str(i) for i in range(60)]
  for number in range(20):
    rows = slice(3 * number, 3 * number + 3)
    writer.write(number, ids[rows], ids[rows], values[rows])
  store = writer.finish(20).delete(ids[::7])
  kept = [row for row in range(60) if row % 7]
  for count in (0, 1, 40):
    picked = np.random.default_rng(count).integers(0, len(kept), count)
    expected = np.reshape([values[kept[row]] for row in picked], [count, *SHAPE])
    np.testing.assert_array_equal(store.vectors(picked), expected)


def test_int8_rounds_to_the_nearest_127th_of_a_tokens_largest_value(tmp_path):
  store, values = write(tmp_path, 'int8')
  step = np.abs(values).max(-1, keepdims=True) / 127
  assert np.all(np.abs(store.vectors(slice(None)) - values) <= step / 2 + 1e-6)


@pytest.mark.parametrize('dtype', ['float32', 'float16', 'int8'])
def test_a_parquet_file_has_ids_and_vectors_without_deleted_rows(tmp_path, monkeypatch, dtype):
  monkeypatch.setattr(parquet, '_BLOCK', 3)
  store, path = write(tmp_path / 'store', dtype)[0].delete(['é4']), str(tmp_path / 'x.parquet')
  store.to_parquet(path)
  table, number = pq.read_table(path), pa.int8() if dtype == 'int8' else pa.float32()
  tokens = pa.list_(pa.field('element', pa.list_(pa.field('element', number), 3)), 2)
  assert table.schema.field('vectors').type == tokens
  assert table['id'].to_pylist() == [f'é{i}' for i in range(8) if i != 4]
  found = np.array(table['vectors'].to_pylist(), np.float32)
  if dtype == 'int8':  # else there is no such column
    found *= np.array(table['scale'].to_pylist(), np.float32)[..., None]
  assert table.num_columns == 2 + (dtype == 'int8')
  np.testing.assert_array_equal(found, store.vectors(slice(None)))
  groups = pq.ParquetFile(path).metadata
  assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [3, 3, 1]
  store.to_parquet(path, lambda block: block.max(1))
  found = np.array(pq.read_table(path)['vectors'].to_pylist())
  np.testing.assert_array_equal(found, store.vectors(slice(None)).max(1))


def test_a_parquet_file_is_whole_or_stays_what_it_was(tmp_path, monkeypatch):
  monkeypatch.setattr(parquet, '_BLOCK', 3)
  (store, _), path = write(tmp_path / 'store'), tmp_path / 'x.parquet'
  store.to_parquet(path)
  before = path.read_bytes()
  for transform, message in (
    (lambda block: block[:2], r'shape \(2, 2, 3\) for 3 rows'),
    (lambda block: block.sum((1, 2)), r'shape \(3,\) for 3 rows'),
    (lambda block: block[: len(block)] / (len(block) - 2), 'NaN or infinity .* of row 6$'),
  ):
    with pytest.raises(InputError, match=f'^transform: .*{message}'), np.errstate(all='ignore'):
      store.to_parquet(path, transform)
    assert path.read_bytes() == before
  with pytest.raises(InputError, match='^path=.*there is no folder'):
    store.to_parquet(tmp_path / 'none/x.parquet')
  empty = store.delete(store.ids(range(8)))
  empty.to_parquet(path)
  assert pq.read_table(path).shape == (0, 2)


def test_a_store_is_whole_or_not_there_and_can_be_appended_to(tmp_path):
  writer = VectorWriter(str(tmp_path), SHAPE, 'float32', 'f', 'right')
  writer.write(0, ['a'], ['x'], vectors(1))
  with pytest.raises(InputError, match='no whole vector store there'):
    VectorStore(str(tmp_path))
  assert writer.has(0, ['a'], ['x'])
  assert not writer.has(0, ['a'], ['y'])
  assert not writer.has(0, ['b'], ['x'])
  assert not writer.has(1, ['a'], ['x'])
  other = VectorWriter(str(tmp_path), SHAPE, 'float32', 'f', 'right', 'litert-int8')
  assert not other.has(0, ['a'], ['x'])
  writer.finish(1)
  more = VectorWriter(str(tmp_path), SHAPE, 'float32', 'f', 'right')
  assert not more.has(0, ['a'], ['x'])
  more.write(0, ['b', 'c'], ['y', 'z'], vectors(2, seed=1))
  assert len(VectorStore(str(tmp_path))) == 1
  store = more.finish(1)
  assert store.ids([0, 1, 2]) == ['a', 'b', 'c']
  np.testing.assert_array_equal(store.vectors([2]), vectors(2, seed=1)[1:])


def test_what_does_not_fit_is_refused(tmp_path):
  _, values = write(tmp_path)
  with pytest.raises(InputError, match='a store of fingerprint f, not g'):
    VectorWriter(str(tmp_path), SHAPE, 'float32', 'g', 'right')
  with pytest.raises(InputError, match="dtype='int4': one of float32, float16, int8"):
    VectorWriter(str(tmp_path), SHAPE, 'int4', 'f', 'right')
  with open(tmp_path / 'manifest.json', encoding='utf-8') as file:
    name = json.load(file)['shards'][0]['name']
  path = tmp_path / name
  data = bytearray(path.read_bytes())
  data[data.index(values[0].tobytes())] ^= 1
  path.write_bytes(data)
  with pytest.raises(InputError, match='not those that were written'):
    VectorStore(str(tmp_path)).verify()
  path.write_bytes(bytes(len(data)))
  with pytest.raises(InputError, match='damaged'):
    VectorStore(str(tmp_path))
  os.truncate(path, len(data) - 1)
  with pytest.raises(InputError, match='damaged: .* bytes; .* were written; write the store anew'):
    VectorStore(str(tmp_path))


def test_a_store_is_on_this_machine(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  message = '^gs://b/store: a folder of this machine is needed: copy the store here$'
  with pytest.raises(InputError, match=message):
    VectorStore('gs://b/store')
  with pytest.raises(InputError, match=message):
    VectorWriter('gs://b/store', SHAPE, 'float32', 'f', 'right')
  assert os.listdir() == []


def test_without_pyarrow_a_store_says_what_it_takes(tmp_path, monkeypatch):
  writer = VectorWriter(str(tmp_path), (2,), 'float32', 'f', 'left')
  writer.fill([('a', 'x')], lambda texts: np.zeros([len(texts), 2], np.float32), shard_size=2)
  monkeypatch.setitem(sys.modules, 'pyarrow', None)
  with pytest.raises(InputError, match=r"^a vector store: pyarrow .*'dipair\[store\]'$"):
    VectorStore(str(tmp_path))


@pytest.mark.parametrize(
  ('call', 'message'),
  [
    (lambda store: store.vectors([0, -1]), 'no row -1; rows are 0 to 7'),
    (lambda store: store.vectors([8]), 'no row 8; rows are 0 to 7'),
    (lambda store: store.ids([10**18]), 'no row 1000000000000000000; rows'),
    (lambda store: store.stored([10**30]), 'rows are a list of whole numbers, not of object'),
    (lambda store: store.stored([True] * 8), 'rows are a list of whole numbers, not of bool'),
    (
      lambda store: store.vectors([float('nan')]),
      'rows are a list of whole numbers, not of float64$',
    ),
    (lambda store: store.ids(3), r'a list of whole numbers, not an array of shape \(\)$'),
    (lambda store: store.ids([[0]]), r'a list of whole numbers, not an array of shape \(1, 1\)$'),
    (lambda store: store.rows(['é0', 'nobody']), "no vectors of id 'nobody'"),
    (lambda store: store.rows(key for key in ('é0', 'nobody')), "no vectors of id 'nobody'"),
    (lambda store: store.delete(None), 'ids: a list of ids is needed, not None'),
    (lambda store: store.delete(['é0', '\ud800']), 'ids, row 1: not a text: '),
    (lambda store: store.find('é0'), 'ids texts: a list of texts is needed, not one text'),
    (lambda store: store.find([['é0']]), 'ids texts, row 0: a value of type list is not a text'),
  ],
)
def test_rows_and_ids_that_are_none_are_refused(tmp_path, call, message):
  store, _ = write(tmp_path)
  with pytest.raises(InputError, match=message):
    call(store)


@pytest.mark.parametrize(
  ('place', 'value', 'message'),
  [
    (['vectors', 'shape'], None, 'manifest.vectors.shape is None, not a list'),
    (['shards'], {}, 'manifest.shards is {}, not a list'),
    (['shards', 0], 'x', "manifest.shards[0] is 'x', not an object"),
    (['shards', 0, 'name'], ['x'], "manifest.shards[0].name is ['x'], not a text"),
    (['shards', 1, 'count'], -1, 'manifest.shards[1].count is -1, not a whole number from 0'),
    (['shards', 1], {'name': 'vectors-00001.arrow'}, 'manifest.shards[1].bytes is missing'),
    (['shards', 0, 'deleted'], 0, 'manifest.shards[0].deleted is 0, not a list'),
    *(
      (['shards', 0, 'deleted'], deleted, 'vectors-00000.arrow: its deleted rows are none of its 5')
      for deleted in ([5], [1, 0], [0, 0])
    ),
    # It would be removed once its rows are replaced.
    (['shards', 0, 'name'], '../thesis.txt', "'../thesis.txt' is no file of this folder"),
  ],
)
def test_a_manifest_of_other_types_is_refused(tmp_path, place, value, message):
  write(tmp_path)
  path = str(tmp_path / 'manifest.json')
  manifest = at = files.read_json(path)
  for name in place[:-1]:
    at = at[name]
  at[place[-1]] = value
  files.write_json(path, manifest)
  with pytest.raises(InputError, match=re.escape(f'{path}: damaged ({message}); write the store')):
    VectorStore(str(tmp_path))


@pytest.mark.parametrize('form', ['record set 3', 'vector store 2', None])
def test_a_manifest_of_another_form_is_refused(tmp_path, form):
  write(tmp_path)
  path = str(tmp_path / 'manifest.json')
  files.write_json(path, {**files.read_json(path), 'form': form})
  message = f"{path}: of the form {form!r}, not 'vector store 3'; write the store anew"
  with pytest.raises(InputError, match=re.escape(message)):
    VectorStore(str(tmp_path))


@pytest.mark.parametrize('folder', [None, 3, '', 'a\0b', ['a']])
def test_what_is_no_folder_is_refused(folder):
  with pytest.raises(InputError, match='^folder=.*: the path of a file or a folder is needed$'):
    VectorStore(folder)


def changed(place, value):
  values = vectors(3)
  values[place] = value
  return values


@pytest.mark.parametrize(
  ('values', 'dtype', 'message'),
  [
    (changed((1, 0, 2), np.nan), 'float32', 'NaN or infinity among the vectors of row 1'),
    (changed((2, 1, 0), -np.inf), 'int8', 'NaN or infinity among the vectors of row 2'),
    (changed((0, 0, 0), 1e6), 'float16', 'in float16: NaN or infinity among the vectors of row 0'),
    (vectors(3).astype(np.float64) * 1e39, 'float32', 'NaN or infinity among the vectors of row 0'),
    (vectors(3).astype(str), 'float32', 'numbers are needed'),
    (vectors(2), 'float32', r'vectors of shape \(2, 2, 3\); \(3, 2, 3\) is needed'),
  ],
)
def test_vectors_that_are_none_are_not_written(tmp_path, values, dtype, message):
  writer = VectorWriter(str(tmp_path), SHAPE, dtype, 'f', 'right')
  with pytest.raises(InputError, match=message):
    writer.write(0, ['a', 'b', 'c'], ['a', 'b', 'c'], values)
  assert not (tmp_path / 'vectors-00000.arrow').exists()
