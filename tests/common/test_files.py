"""Files and folders that are written whole or not at all."""

import pytest
import tensorflow as tf

from common import errors, files
from common.data import tables
from common.distillation.sources.tables import TablesConfig


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


def test_what_another_process_is_writing_is_left_alone(tmp_path):
  study = tmp_path / 'study'
  for folder in (study, tmp_path / 'student.part'):
    (folder / 'ckpt-3_temp').mkdir(parents=True)
  with files.alone(str(tmp_path)), files.alone(str(study)):
    (study / 'ckpt-4_temp').mkdir()
    with files.alone(str(tmp_path / 'student.part')):
      pass
    files._clear(str(tmp_path))  # as another process's `alone` does
  left = [path.name for path in tmp_path.rglob('*_temp')]
  assert left == ['ckpt-4_temp']
