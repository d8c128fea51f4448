"""Version folders whose files come and go: what is loaded, and when."""

import os

import pytest

from common.errors import InputError
from common.local_server import models


@pytest.fixture(name='store')
def _store(tmp_path, monkeypatch):
  """A function to a store of a model, whose versions are the text of their `vocab.txt`."""

  class Version:
    def __init__(self, model, folder, number, *runtimes):
      self.model, self.number = model, number
      with open(f'{folder}/{number}/vocab.txt', encoding='utf-8') as file:
        self.text = file.read()
      if self.text == 'changes':
        write(tmp_path, number, 'changes again')

  monkeypatch.setattr(models, 'Version', Version)
  return lambda: models.ModelStore({'toy': str(tmp_path)}, 'tensorflow', 'tensorflow')


def write(folder, number, text):
  (folder / str(number)).mkdir(exist_ok=True)
  (folder / str(number) / 'saved_model.pb').write_bytes(b'model')
  if text:
    (folder / str(number) / 'vocab.txt').write_text(text)


def served(store):
  return store.find('toy').number, store.find('toy').text


def test_a_version_is_loaded_once_its_files_rest(store, tmp_path):
  write(tmp_path, 1, 'one')
  store = store()
  write(tmp_path, 2, 'tw')
  store.poll()
  assert served(store) == (1, 'one')
  write(tmp_path, 2, 'two')  # it was only half there
  store.poll()
  assert served(store) == (1, 'one')
  store.poll()
  assert served(store) == (2, 'two')
  write(tmp_path, 2, 'two and more')  # the copy had paused
  store.poll()
  store.poll()
  assert served(store) == (2, 'two and more')


def test_a_version_that_changes_while_it_is_read_is_read_again(store, tmp_path):
  write(tmp_path, 1, 'one')
  store = store()
  write(tmp_path, 2, 'changes')
  store.poll()
  store.poll()
  assert served(store) == (1, 'one')
  store.poll()
  store.poll()
  assert served(store) == (2, 'changes again')


def test_files_and_folders_may_go(store, tmp_path):
  write(tmp_path, 1, 'one')
  store = store()
  write(tmp_path, 2, '')
  store.poll()
  store.poll()
  assert served(store) == (1, 'one') and store.status('toy')[0][0] == 2
  os.symlink('nowhere', tmp_path / '2' / 'gone')
  store.poll()
  os.rename(tmp_path / '2', tmp_path / 'old')
  store.poll()
  assert served(store) == (1, 'one') and store.status('toy') == [(1, '')]
  os.rename(tmp_path, f'{tmp_path}-gone')
  store.poll()
  assert served(store) == (1, 'one')


@pytest.mark.parametrize('name', ['01', '٣', '9' * 30, '1.tmp'])
def test_a_folder_of_another_name_is_no_version(store, tmp_path, name):
  (tmp_path / name).mkdir()
  (tmp_path / name / 'saved_model.pb').write_bytes(b'model')
  with pytest.raises(InputError, match='no version folder such as 1/'):
    store()
