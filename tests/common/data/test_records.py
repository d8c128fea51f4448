"""Record sets: round trips, what the manifest holds, and damage of every kind refused."""

import hashlib
import json
import os

import pytest
import tensorflow as tf

from common.data import records
from common.data.examples import Example
from common.errors import InputError

EXAMPLES = [
  Example('1', ('nike shoes', 'Süße Schuhe\x85\u2028\x00')),
  Example('ключ 😀', ('a', 'b', 'c'), 0.25),
  Example('3', ('', 'b'), 1.0, (-1.5,), (0.125,)),
  Example('4', ('a', 'b'), 2.0, (0.5, 0.0, -3.0), (0.5, 0.25, 0.25)),
]


def numbered(count: int) -> list[Example]:
  return [Example(f'{i}', (f'left {i}', f'right {i}')) for i in range(count)]


def set_of(tmp_path, count: int, **options) -> str:
  folder = str(tmp_path / 'set')
  records.write(folder, numbered(count), **options)
  return folder


@pytest.mark.parametrize('example', EXAMPLES, ids=['bare', 'three texts', 'one logit', 'classes'])
def test_a_record_comes_back(example):
  assert records.parse(records.serialize(example)) == example


def test_absent_fields_are_absent_and_texts_are_utf8():
  features = tf.train.Example.FromString(records.serialize(EXAMPLES[1])).features.feature
  assert set(features) == {'id', 'text_0', 'text_1', 'text_2', 'label'}
  assert features['id'].bytes_list.value[0] == 'ключ 😀'.encode()


@pytest.mark.parametrize('shard_size', [1, 3, 100])
def test_a_set_comes_back_in_order(shard_size, tmp_path):
  written = records.write(str(tmp_path), iter(numbered(7)), shard_size=shard_size)
  assert list(records.read(str(tmp_path))) == numbered(7)
  assert records.read_manifest(str(tmp_path)) == written


def test_the_manifest_by_hand(tmp_path):
  folder = set_of(tmp_path, 5, shard_size=2, info={'teacher': 'T', 'temperature': 2.0})
  fields = json.loads((tmp_path / 'set/manifest.json').read_text())
  shards = fields.pop('shards')
  info = {'teacher': 'T', 'temperature': 2.0}
  assert fields == {'texts': 2, 'count': 5, 'block': 1, 'info': info, 'schema_version': 1}
  assert [s['name'] for s in shards] == ['00000.tfrecord', '00001.tfrecord', '00002.tfrecord']
  assert [s['count'] for s in shards] == [2, 2, 1]
  for shard in shards:
    content = (tmp_path / 'set' / shard['name']).read_bytes()
    assert shard['bytes'] == len(content)
    assert shard['sha256'] == hashlib.sha256(content).hexdigest()
  assert sorted(os.listdir(folder)) == [*(s['name'] for s in shards), 'manifest.json']


def test_shards_hold_whole_blocks(tmp_path):
  folder = set_of(tmp_path, 18, shard_size=4, block=3)  # 4 rounded up to two blocks
  manifest = records.read_manifest(folder)
  assert (manifest.block, [shard.count for shard in manifest.shards]) == (3, [6, 6, 6])
  assert list(records.read(folder)) == numbered(18)


def test_find_shard_gives_the_entry_that_was_written(tmp_path):
  written = records.write_shard(str(tmp_path), 3, numbered(2))
  assert records.find_shard(str(tmp_path), 3, 2) == written
  assert records.find_shard(str(tmp_path), 2, 2) is None


def test_a_set_is_replaced(tmp_path):
  set_of(tmp_path, 5, shard_size=2)
  assert list(records.read(set_of(tmp_path, 3, shard_size=2))) == numbered(3)


def test_an_interrupted_shard_is_not_there(tmp_path):
  def interrupted():
    yield from numbered(2)
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    records.write_shard(str(tmp_path), 0, interrupted())
  assert records.find_shard(str(tmp_path), 0, 2) is None


def test_without_its_manifest_a_set_is_not_whole(tmp_path):
  folder = set_of(tmp_path, 2)
  os.remove(os.path.join(folder, 'manifest.json'))
  with pytest.raises(InputError, match='set: no manifest.json; not a whole record set'):
    list(records.read(folder))


def test_another_schema_version_is_refused(tmp_path):
  folder = set_of(tmp_path, 2)
  path = tmp_path / 'set/manifest.json'
  path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 2'))
  with pytest.raises(InputError, match='manifest.json: schema version 2; this program reads 1'):
    records.read_manifest(folder)


def test_every_flipped_byte_is_found(tmp_path):
  folder = set_of(tmp_path, 1)
  path = tmp_path / 'set/00000.tfrecord'
  content = path.read_bytes()
  for place in range(len(content)):
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(InputError, match='00000.tfrecord: damaged records; delete its folder'):
      list(records.read(folder))


@pytest.mark.parametrize('damage', ['missing', 'a record short', 'empty'])
def test_lost_records_are_found_before_any_is_read(damage, tmp_path):
  folder = set_of(tmp_path, 4, shard_size=2)
  path = tmp_path / 'set/00001.tfrecord'
  if damage == 'missing':
    path.unlink()
  else:  # cut where a record ends: TFRecord itself has nothing to object
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 * (damage != 'empty')])
  with pytest.raises(InputError, match='00001.tfrecord: (missing|[0-9]+ bytes); the manifest'):
    next(records.read(folder))
