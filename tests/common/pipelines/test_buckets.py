"""Jobs on an object store: `gs://` and `s3://` have objects of whole names, and no folders."""

import io
import json
import os
import pathlib
import threading

import pyarrow.parquet as pq
import pytest
from apache_beam.io.filesystem import FileMetadata, FileSystem

from common.data.tokenization import Tokenizer
from common.distillation.teacher import Teacher
from common.errors import InputError
from common.modeling import checkpoints
from common.pipelines import annotate, encode, files, jobs, score, shards, units
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.pipelines.shards import Shard
from common.pipelines.units import Unit

OBJECTS: dict[str, bytes] = {}


class _Object(io.BytesIO):
  """An object that is there once it is closed."""

  def __init__(self, path):
    super().__init__()
    self.path = path

  def close(self):
    if not self.closed:
      OBJECTS[self.path] = self.getvalue()
    super().close()


class Bucket(FileSystem):
  """`flat://`, in memory: as Beam's of Google's and Amazon's, it makes and finds no folders."""

  @classmethod
  def scheme(cls):
    return 'flat'

  def join(self, basepath, *paths):
    return '/'.join([basepath.rstrip('/'), *(path.strip('/') for path in paths)])

  def split(self, path):
    return tuple(path.rsplit('/', 1))

  def mkdirs(self, path):
    pass

  def has_dirs(self):
    return False

  def _list(self, dir_or_prefix):
    return [self.metadata(path) for path in sorted(OBJECTS) if path.startswith(dir_or_prefix)]

  def create(self, path, mime_type='', compression_type=None):
    return _Object(path)

  def open(self, path, mime_type='', compression_type=None):
    return io.BytesIO(OBJECTS[path])

  def copy(self, source_file_names, destination_file_names):
    raise NotImplementedError

  def rename(self, source_file_names, destination_file_names):
    for source, target in zip(source_file_names, destination_file_names, strict=True):
      OBJECTS[target] = OBJECTS.pop(source)

  def exists(self, path):
    assert path.count('/') > 2, 'a bucket alone is no object'
    return path in OBJECTS

  def size(self, path):
    return len(OBJECTS[path])

  def checksum(self, path):
    raise NotImplementedError

  def last_updated(self, path):
    return 1.0

  def metadata(self, path):
    return FileMetadata(path, len(OBJECTS[path]), 1.0)

  def delete(self, paths):
    raise NotImplementedError


@pytest.fixture(autouse=True)
def _empty():
  OBJECTS.clear()


def put(name, *lines):
  """The flags of an input file, which it puts there."""
  OBJECTS[path := f'flat://b/in/{name}'] = ''.join(f'{line}\n' for line in lines).encode()
  return FilesConfig(input=(path,), unit_bytes=40)


def upload(folder, name):
  for base, _, names in os.walk(folder):
    for of in names:
      path = pathlib.Path(base, of)
      OBJECTS[f'flat://b/{name}/{path.relative_to(folder)}'] = path.read_bytes()


def test_what_a_shard_wrote_is_listed_marked_and_copied():
  for number in (0, 1):
    shard = Shard('flat://b', Unit(number, 'x'))
    with shard.file(f'part/{number}.txt') as file, open(file.path, 'w') as opened:
      opened.write('x' * (3 + number))
    shard.finish(rows=number, seconds=0.5)
  OBJECTS['flat://b/'] = OBJECTS['flat://b/part/'] = b''  # folders that a console made
  assert files.sizes('flat://b/part') == {
    'flat://b/part/0.txt': 3,
    'flat://b/part/1.txt': 4,
  }
  assert [mark.rows for mark in shards.marks('flat://b').values()] == [0, 1]
  assert files.sizes('flat://none') == shards.marks('flat://none') == {}
  found = units.of_files(['flat://b/part/*'], 100)
  assert [unit.path for unit in found] == ['flat://b/part/0.txt', 'flat://b/part/1.txt']
  assert os.listdir(files.local('flat://b')) == ['part']  # no marks
  OBJECTS['flat://b/part/1.txt'] = b''
  with pytest.raises(
    InputError, match='part/1.txt: 0 bytes; 4 were written; delete flat://b/done/'
  ):
    shards.marks('flat://b')


def test_marks_are_read_many_at_a_time(monkeypatch):
  for number in range(8):
    Shard('flat://b/out', Unit(number, 'x')).finish(rows=1, seconds=0.5)
  read, four = files.read, threading.Barrier(4, timeout=60)
  monkeypatch.setattr(files, 'read', lambda path: [four.wait(), read(path)][1])
  assert [*shards.marks('flat://b/out')] == [*range(8)]


def test_jobs_make_stores_and_scores_there_and_go_on(exported, monkeypatch):
  upload(exported.folder, 'export')
  texts = {
    'left': put('t.tsv', 'id\ttext', 't0\tred', 't1\tboots'),
    'right': put('p.tsv', 'id\ttext', *(f'p{n}\tred throw {n}' for n in range(4))),
  }
  stores = {side: f'flat://b/{side}' for side in texts}

  def run():
    for side, rows in texts.items():
      out = OutputConfig(output=stores[side])
      encode.main(encode.EncodeConfig('flat://b/export', side, rows, threads=1, out=out), [])
    pairs = put('pairs.tsv', 'left\tright', 't0\tp0', 't1\tp3', 't0\tp2')
    for join in (False, True):
      out = OutputConfig(output=f'flat://b/scores-{join}')
      given = {'threads': 1, 'files': pairs, 'stores': tuple(stores.values()), 'join': join}
      score.main(score.ScoreConfig('flat://b/export', out=out, **given), [])

  run()
  before = dict(OBJECTS)
  for join in (False, True):
    folder = f'flat://b/scores-{join}/scores-'
    tables = [v for k, v in sorted(before.items()) if k.startswith(folder)]
    found = [row for of in tables for row in pq.read_table(io.BytesIO(of)).to_pylist()]
    assert [(of['left'], of['right']) for of in found] == [('t0', 'p0'), ('t1', 'p3'), ('t0', 'p2')]
  monkeypatch.setattr(jobs, '_run', None)  # nothing is left to do
  run()
  assert before == OBJECTS


def test_a_teacher_there_annotates(tmp_path):
  pretrained = checkpoints.read('random-tiny')
  tokenizer = Tokenizer(pretrained.vocabulary, pretrained.lower_case)
  Teacher(pretrained.config, tokenizer, 32, 1).save(str(tmp_path))
  upload(tmp_path, 'teacher')
  pairs = put('pairs.tsv', 'id\tleft\tright', *(f'{i}\tred\tboots {i}' for i in range(6)))
  out = OutputConfig(output='flat://b/distill')
  config = annotate.AnnotateConfig(('flat://b/teacher',), pairs, id_column='id', out=out)
  annotate.main(config, [])
  manifest = json.loads(OBJECTS['flat://b/distill/manifest.json'])
  assert sum(shard['count'] for shard in manifest['shards']) == 6
  OBJECTS['flat://b/teacher/digests.json'] += b' '
  with pytest.raises(InputError, match='begun with other contents of the teachers'):
    annotate.main(config, [])
