"""`hf://org/name` in place of a folder, and a folder pushed: a hub that is a local folder."""

import os
import shutil
import sys
import types

import numpy as np
import pytest

from common.distillation import embedders
from common.errors import InputError
from common.pipelines.models import ScorerHandler
from common.scoring import hub
from common.scoring.scorer import PairScorer
from tests.conftest import PRODUCTS, TERMS


@pytest.fixture(name='repositories')
def _repositories(tmp_path, monkeypatch):
  """The folder that stands for the hub, a repository a folder."""
  base = tmp_path / 'hub'

  class Api:
    def create_repo(self, name, exist_ok):
      os.makedirs(base / name, exist_ok=exist_ok)

    def upload_folder(self, repo_id, folder_path):
      shutil.copytree(folder_path, base / repo_id, dirs_exist_ok=True)

    def upload_file(self, path_or_fileobj, path_in_repo, repo_id):
      shutil.copy(path_or_fileobj, base / repo_id / path_in_repo)

  def snapshot_download(name, ignore_patterns):
    assert '*.bin' in ignore_patterns
    if not (base / name).is_dir():
      raise OSError(f'404 Client Error.\n\nRepository Not Found for {name}')
    return str(base / name)

  package = types.SimpleNamespace(HfApi=Api, snapshot_download=snapshot_download)
  monkeypatch.setitem(sys.modules, 'huggingface_hub', package)
  return base


def test_what_is_pushed_is_loaded_by_its_name_with_its_runs_card(exported, repositories, tmp_path):
  run, name = tmp_path / 'run', f'org/{exported.model.name}'
  shutil.copytree(exported[0], run / 'export')
  (run / 'README.md').write_text('the card')
  scorer = PairScorer.load(str(run / 'export'))
  assert scorer.push(name) == f'hf://{name}'
  assert not (repositories / name / 'README.md').exists()  # of no run: somebody else's
  (run / 'results.json').write_text('{}')
  scorer.push(name)
  assert (repositories / name / 'README.md').read_text() == 'the card'
  expected = scorer.score(TERMS[:4], PRODUCTS)
  jobs = ScorerHandler(f'hf://{name}', 'litert', encoder_runtime='litert').load_model()
  for loaded in (PairScorer.load(f'hf://{name}'), jobs):
    np.testing.assert_allclose(loaded.score(TERMS[:4], PRODUCTS), expected, atol=1e-5)
  assert embedders.load(f'hf://{name}').fingerprint == scorer.fingerprint


@pytest.mark.parametrize(
  ('name', 'message'),
  [
    (
      'hf://org/none',
      '^hf://org/none: the hub: 404 Client Error. Repository Not Found for org/none$',
    ),
    ('hf://org', "^'org' is no repository of the hub: org/name$"),
    ('hf://org/name/export', "^'org/name/export' is no repository of the hub: org/name$"),
  ],
)
def test_what_the_hub_does_not_have_is_one_line(repositories, name, message):
  with pytest.raises(InputError, match=message):
    PairScorer.load(name)


def test_without_the_hubs_package_the_extra_is_named(monkeypatch, tmp_path):
  monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
  missing = r"^hf://org/name: huggingface_hub is not installed: pip install 'dipair\[hub\]'$"
  for call in (lambda: hub.local('hf://org/name'), lambda: hub.push(str(tmp_path), 'org/name')):
    with pytest.raises(InputError, match=missing):
      call()
  assert hub.local('runs/p2t/export') == 'runs/p2t/export'
