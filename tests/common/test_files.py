"""Files and folders that are written whole or not at all."""

import os

import pytest
import tensorflow as tf

from common import errors, files
from common.data import tables
from common.distillation.sources.tables import TablesConfig
from common.pipelines import shards


def test_a_folder_gets_its_name_when_it_is_whole(tmp_path):
  target, part = tmp_path / 'export', tmp_path / 'export.part'
  with pytest.raises(ValueError, match='killed'), files.whole_folder(str(target)) as folder:
    part.mkdir()
    (part / 'half').write_text('one')
    raise ValueError('killed')
  assert folder == str(part) and not target.exists()
  with files.whole_folder(str(target)):
    part.mkdir()  # what was left is gone
    (part / 'all').write_text('two')
  assert [path.name for path in target.iterdir()] == ['all'] and not part.exists()


def test_bytes_are_on_the_disk_before_the_name_that_says_so(tmp_path, monkeypatch):
  order = []

  def noted(name, function, path_of):
    def call(*arguments):
      order.append((name, os.path.basename(path_of(arguments[0]))))
      return function(*arguments)

    return call

  opened = lambda number: os.readlink(f'/proc/self/fd/{number}')  # noqa: E731
  monkeypatch.setattr(os, 'fsync', noted('sync', os.fsync, opened))
  monkeypatch.setattr(os, 'replace', noted('name', os.replace, str))
  with files.whole_folder(str(tmp_path / 'a')) as part:
    os.mkdir(part)
    (tmp_path / 'a.part' / 'one').write_text('1')
  assert order == [('sync', 'one'), ('sync', 'a.part'), ('name', 'a.part'), ('sync', tmp_path.name)]


def test_what_a_store_of_files_answers_is_one_line():
  text = (
    "Error executing an HTTP request: libcurl code 6 meaning 'Could not resolve hostname', error "
    'details: Could not resolve host: www.googleapis.com\n\t when reading metadata of gs://b/a.txt'
  )
  assert errors.of_system(Exception(text)) == (
    "gs://b/a.txt: libcurl code 6 meaning 'Could not resolve hostname', error details: "
    'Could not resolve host: www.googleapis.com'
  )


def test_a_url_that_nothing_here_opens_is_refused_in_one_line():
  url = 'https://host/a.tsv'
  says = f'{url}: no file system for https://; download it, or gs://'
  for use in (
    files.sha256,
    lambda path: next(tables.rows(path)),
    lambda path: TablesConfig(distillation_file=path).annotated,
  ):
    with pytest.raises(errors.InputError, match='^https://host/a.tsv.*: no file system for https'):
      use(url)
  with pytest.raises(tf.errors.UnimplementedError) as caught:
    tf.io.gfile.makedirs(url)
  assert errors.of_system(caught.value) == says


@pytest.mark.parametrize('work', [files.alone, shards.alone])
def test_what_others_have_in_a_folder_at_work_is_left(work, tmp_path):
  names = ['a.tempstate1', f'a.{"0" * 32}.tmp']
  for folder in ('ckpt-3_temp', 'sub/weights_temp', 'sub/variables_temp'):
    (tmp_path / folder).mkdir(parents=True)
    names.append(f'{folder}/a')
  for name in names:
    (tmp_path / name).touch()
  with work(str(tmp_path)):
    assert all((tmp_path / name).exists() for name in names)
