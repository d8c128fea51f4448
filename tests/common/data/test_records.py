"""Record sets: round trips, items once, the manifest's contents; any damage is refused."""

import hashlib
import json
import os
import re
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

from common import files
from common.data import record_writer
from common.data.examples import Example
from common.data.items import Items, ItemWriter
from common.data.records import RecordSet, Shard, Table
from common.data.texts import blake2b
from common.data.tokens import VectorTable
from common.data.tuples import Tuples, parse, serialize
from common.errors import InputError

ROWS = [
  Example('1', ('nike shoes', 'Süße Schuhe\x85\u2028\x00'), 0.0),
  Example('ключ 😀', ('a', 'nike shoes'), 0.25),
  Example('3', ('nike shoes', ''), 1.0),
  Example('4', ('a', 'nike shoes'), 0.5),
]


def write(folder, rows=ROWS, group=64, slots=2) -> RecordSet:
  record_writer.write_sets(str(folder), {'': record_writer.of_examples(rows, group)}, slots)
  return RecordSet(str(folder))


def copied(folder, url):
  for path in folder.rglob('*.*'):
    target = f'{url}/{path.relative_to(folder)}'
    tf.io.gfile.makedirs(os.path.dirname(target))
    tf.io.gfile.copy(str(path), target)
  return url


def numbered(count: int) -> list[Example]:
  return [Example('', (f'left {i // 2}', f'right {i}'), float(i)) for i in range(count)]


GROUPS = [
  Tuples(np.array([[0, 5, 1], [2, 2, 2]], np.int32)),
  Tuples(np.array([[1, 0]], np.int32), np.array([[0.25]], np.float32), ids=['ключ']),
  Tuples(
    np.array([[1, 0], [0, 7]], np.int32),
    teacher_logits=np.array([[0.5, 0.0, -3.0], [1, 2, 3]], np.float32),
    soft_labels=np.array([[0.5, 0.25, 0.25], [0, 0, 1]], np.float32),
  ),
]


@pytest.mark.parametrize('group', GROUPS, ids=['bare', 'a label and an id', 'classes'])
def test_a_group_comes_back(group):
  found = parse(serialize(group))
  for name in ('items', 'label', 'teacher_logits', 'soft_labels'):
    np.testing.assert_array_equal(getattr(found, name), getattr(group, name))
  assert list(found.ids) == list(group.ids)


def test_a_record_is_a_group_with_what_is_known_of_its_tuples():
  record = serialize(GROUPS[1])
  features = tf.train.Example.FromString(record).features.feature
  assert set(features) == {'items', 'tuples', 'label', 'id'}
  assert sorted(features, key=lambda name: record.index(name.encode())) == sorted(features)
  assert list(features['items'].int64_list.value) == [1, 0]


@pytest.mark.parametrize('group', [1, 3, 100])
def test_a_set_comes_back_in_order(group, tmp_path):
  found = write(tmp_path, group=group)
  assert found.texts() == [row.texts for row in ROWS]
  tuples = found.tuples()
  assert tuples.label[:, 0].tolist() == [0, 0.25, 1, 0.5]
  assert [key for group in found.groups() for key in group.ids] == [row.id for row in ROWS]
  assert not tuples.ids  # 78 bytes each, of all at once
  assert tuples.items.tolist() == [[0, 0], [1, 1], [0, 2], [1, 1]]
  assert np.diff(tuples.groups).tolist() == {1: [1] * 4, 3: [3, 1], 100: [4]}[group]


def test_arrays_may_be_memory_mapped(tmp_path):
  record_set = write(tmp_path / 'set', numbered(7), group=2)
  mapped, held = record_set.tuples(str(tmp_path / 'cache')), record_set.tuples()
  assert isinstance(mapped.items, np.memmap) and not isinstance(held.items, np.memmap)
  np.testing.assert_array_equal(mapped.items, held.items)
  np.testing.assert_array_equal(mapped.label, held.label)


def test_a_text_stands_in_a_set_once_and_sets_share_their_tables(tmp_path):
  sets = {'train': ROWS, 'test': [Example('9', ('nike shoes', 'a new one'))]}
  made = record_writer.write_sets(
    str(tmp_path), {name: record_writer.of_examples(rows) for name, rows in sets.items()}, 2
  )
  train, test = (RecordSet(str(tmp_path / name)) for name in sets)
  assert list(train.items(0).texts()) == ['nike shoes', 'a']
  assert list(test.items(1).texts()) == [ROWS[0].texts[1], 'nike shoes', '', 'a new one']
  assert test.tuples().items.tolist() == [[0, 3]] and test.tuples().label is None
  assert made['train'].tables == made['test'].tables
  content = (tmp_path / 'items/0.tfrecord').read_bytes()
  digest = hashlib.sha256(content).hexdigest()
  table = Table(name='../items/0.tfrecord', count=2, bytes=len(content), sha256=digest)
  assert made['test'].tables[0] == (table,)


def test_items_alike_in_several_tables_have_one_number(tmp_path):
  tables, shards = [], []
  for number, texts in enumerate((['a', 'b', 'c'], ['c', 'd', 'a'])):
    path = str(tmp_path / f'{number}-items.tfrecord')
    with ItemWriter(path) as items:
      rows = [[items.number(text)] for text in texts]
    tables.append(record_writer.table(str(tmp_path), path, 3))
    groups = [Tuples(np.array(rows, np.int32))]
    shards.append(record_writer.write_shard(str(tmp_path), number, groups, (number,)))
  record_writer.finish(str(tmp_path), shards, [tables], {})
  found = RecordSet(str(tmp_path))
  assert list(found.items(0).texts()) == ['a', 'b', 'c', 'd']
  assert found.tuples().items[:, 0].tolist() == [0, 1, 2, 2, 3, 0]
  assert found.texts() == [(text,) for text in 'abccda']
  assert list(found.items(0).texts(np.array([3, 0]))) == ['d', 'a']


@pytest.mark.parametrize(('key', 'named'), [('a\xa01', True), ('a 1', False), ('', False)])
def test_an_item_is_named_by_its_id_where_a_trec_file_can_hold_it(key, named, tmp_path):
  with ItemWriter(path := str(tmp_path / 'items.tfrecord')) as items:
    items.number('x', key)
  name = key if named else blake2b('x', 16).hex()[:16]
  assert Items.open([path], [1], ['']).keys() == [name]


def test_several_tables_are_opened_in_less_memory_than_their_hashes_as_objects(monkeypatch):
  count = 20_000
  monkeypatch.setattr(
    Items, '_column', lambda *_: (blake2b(f'{i % 15_000}', 16) for i in range(count))
  )
  tracemalloc.start()
  items = Items.open(['a', 'b'], [count - 5000, 5000], ['', ''])
  _, peak = tracemalloc.get_traced_memory()
  tracemalloc.stop()
  assert len(items) == 15_000 and items.number(np.array([0, 4999]), 1).tolist() == [0, 4999]
  assert peak / count < 120  # of objects 154


def test_items_may_be_vectors(tmp_path):
  rows = [np.array([1, 2.5], np.float32), np.array([0, -1], np.float32)]
  path = str(tmp_path / '0.tfrecord')
  with ItemWriter(path) as items:
    assert [items.number(row, key='ab'[i % 2]) for i, row in enumerate([*rows, rows[0]])] == [
      0,
      1,
      0,
    ]
    with pytest.raises(InputError, match='c: a vector of 3 numbers; others of its column have 2'):
      items.number(np.ones(3, np.float32), 'c')
  entry = record_writer.table(str(tmp_path), path, 2, items.width)
  record_writer.finish(str(tmp_path), [], [[entry]], {})
  found = RecordSet(str(tmp_path)).items(0)
  np.testing.assert_array_equal(list(found.contents()), rows)
  np.testing.assert_array_equal(list(found.contents(np.array([1]))), rows[1:])
  padded = VectorTable.of_items(found).padded(np.array([1, 0]), 8, 8)
  np.testing.assert_array_equal(padded, rows[::-1])
  assert list(found.ids()) == ['a', 'b']


def test_the_manifest_by_hand(tmp_path, monkeypatch):
  monkeypatch.setattr(record_writer, 'SHARD_TUPLES', 3)  # filled up with whole groups
  groups = {'': record_writer.of_examples(numbered(9), group=2)}
  record_writer.write_sets(str(tmp_path), groups, 2, info={'teacher': 'T'})
  fields = json.loads((tmp_path / 'manifest.json').read_text())
  assert [s['name'] for s in fields['shards']] == [f'0000{i}.tfrecord' for i in range(3)]
  assert [s['count'] for s in fields['shards']] == [4, 4, 1]
  for shard in fields['shards']:
    content = (tmp_path / shard['name']).read_bytes()
    assert shard['bytes'] == len(content)
    assert shard['sha256'] == hashlib.sha256(content).hexdigest()
    assert shard['tables'] == [0, 0]
  assert [[t['count'] for t in slot] for slot in fields['tables']] == [[5], [9]]
  assert (fields['info'], fields['form']) == ({'teacher': 'T'}, 'record set 3')


def test_an_interrupted_set_is_not_there_and_is_written_anew(tmp_path):
  def interrupted():
    yield from numbered(100)
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    write(tmp_path, interrupted())
  with pytest.raises(InputError, match='no manifest.json; not a whole record set'):
    RecordSet(str(tmp_path))
  assert write(tmp_path, numbered(3)).texts() == [row.texts for row in numbered(3)]


def test_another_form_is_refused(tmp_path):
  write(tmp_path)
  path = tmp_path / 'manifest.json'
  fields = {**files.read_json(str(path)), 'form': 'record set 2'}
  files.write_json(str(path), fields, sealed=True)
  message = "manifest.json: of the form 'record set 2', not 'record set 3'; delete its folder"
  with pytest.raises(InputError, match=message):
    RecordSet(str(tmp_path))


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (lambda set: set.update(shards={}), 'manifest.shards is {}, not a list'),
    (lambda set: set.update(info=None), 'manifest.info is None, not an object'),
    (lambda set: set['shards'][0].update(name=None), 'manifest.shards[0].name is None, not a text'),
    (
      lambda set: set['shards'][0].update(tables=[0, 1]),
      '00000.tfrecord names tables that are not',
    ),
    (
      lambda set: set['tables'][0][0].update(count=10**18),
      'items/0.tfrecord: 1000000000000000000 rows in',
    ),
    (
      lambda set: set['tables'][1][0].update(width='x'),
      "manifest.tables[1][0].width is 'x', not a whole number from 0",
    ),
  ],
)
def test_a_manifest_of_other_types_is_refused(change, message, tmp_path):
  write(tmp_path)
  path = str(tmp_path / 'manifest.json')
  fields = files.read_json(path)
  change(fields)
  files.write_json(path, fields)
  with pytest.raises(InputError, match=re.escape(f'{path}: damaged ({message}')):
    RecordSet(str(tmp_path))


@pytest.mark.parametrize('name', ['00000.tfrecord', 'items/0.tfrecord'])
def test_every_flipped_byte_is_found(name, tmp_path):
  write(tmp_path, numbered(1))
  content = (tmp_path / name).read_bytes()
  for place in range(len(content)):
    flipped = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    (tmp_path / name).write_bytes(flipped)
    with pytest.raises(
      InputError, match=f'{name}: damaged: its bytes are not .*; delete its folder'
    ):
      RecordSet(str(tmp_path)).texts()


@pytest.mark.parametrize('name', ['00000.tfrecord', 'items/1.tfrecord'])
@pytest.mark.parametrize('damage', ['missing', 'short'])
def test_lost_records_are_found_before_any_is_read(name, damage, tmp_path):
  write(tmp_path, numbered(4), group=1)
  path = tmp_path / name
  content = path.read_bytes()
  path.unlink()
  if damage == 'short':  # cut where a record ends: TFRecord itself has nothing to object
    path.write_bytes(content[: len(content) // 2])
  with pytest.raises(
    InputError, match=f'{name}: (missing|damaged: [0-9]+ bytes; .* were written); delete'
  ):
    RecordSet(str(tmp_path))


def test_an_entry_is_that_of_what_was_written(tmp_path):
  group = Tuples(np.array([[0], [1]], np.int32))
  written = record_writer.write_shard(str(tmp_path), 3, [group], (0,))
  assert record_writer.shard_entry(str(tmp_path), 3, 2, (0,)) == written
  of_file = {'bytes': written.bytes, 'sha256': written.sha256}
  assert written == Shard(name='00003.tfrecord', count=2, **of_file, tables=(0,))
  assert os.listdir(tmp_path) == ['00003.tfrecord']


def test_a_remote_set_is_read_as_a_local_one(tmp_path):
  here = write(tmp_path)
  there = RecordSet(copied(tmp_path, 'ram://bucket/set'))
  assert there.texts() == here.texts()
  np.testing.assert_array_equal(there.tuples().items, here.tuples().items)
