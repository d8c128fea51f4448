"""`hf://org/name` in place of a folder, and a folder pushed: a hub that is a local folder."""

import os
import re
import shutil
import sys
import types

import huggingface_hub
import numpy as np
import pytest

from common import verify
from common.distillation import embedders
from common.errors import InputError
from common.evaluation import report
from common.evaluation.results import Results
from common.pipelines.models import ScorerHandler
from common.scoring import hub
from common.scoring.first_stage import FirstStageWeight
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
      (base / repo_id / path_in_repo).write_bytes(path_or_fileobj)

  def snapshot_download(name, ignore_patterns, revision=None, local_files_only=False):
    assert '*.bin' in ignore_patterns
    copy = tmp_path / 'cache' / f'{name}@{revision}'
    if not local_files_only:
      package.asked.append(revision)
      if not (base / name).is_dir():
        raise OSError(f'404 Client Error.\n\nRepository Not Found for {name}')
      shutil.copytree(base / name, copy, dirs_exist_ok=True)
    elif not copy.is_dir():
      raise FileNotFoundError('Cannot find an appropriate cached snapshot folder')
    return str(copy)

  package = types.SimpleNamespace(
    HfApi=Api,
    snapshot_download=snapshot_download,
    ModelCard=huggingface_hub.ModelCard,
    asked=[],
  )
  monkeypatch.setitem(sys.modules, 'huggingface_hub', package)
  return base


def finished(exported, run, task='regression', **flags):
  """A run's export and card, as far as `push` reads them."""
  shutil.copytree(exported.folder, run / 'export')
  student, models = exported.model.name.lower(), [{'name': 'teacher'}, {'name': 'student'}]
  results = Results('a run', student, task, 'pearson', models, flags=flags)
  report.write_model_card(results, str(run / 'README.md'))


def of_card(repository):
  """Metadata of a repository's card, and all that the card's own code makes."""
  card = huggingface_hub.ModelCard.load(repository / 'README.md')
  exec(re.search('```python\n(.*?)```', card.text, re.S)[1], made := {})
  return card.data, made


def test_what_is_pushed_is_loaded_by_its_name_with_its_runs_card(exported, repositories, tmp_path):
  run, name = tmp_path / 'run', f'org/{exported.model.name}'
  finished(exported, run)
  FirstStageWeight('bm25', 0.5, 3.0).write(str(run / 'export'))
  assert verify.verify(str(run / 'export'))[0]
  scorer = PairScorer.load(str(run / 'export'))
  assert scorer.push(name) == f'hf://{name}'
  assert not (repositories / name / 'README.md').exists()  # of no run: somebody else's
  (run / 'results.json').write_text('{}')
  scorer.push(name)
  metadata, made = of_card(repositories / name)
  assert metadata.pipeline_tag == 'text-ranking' and metadata.license is None
  (by_card,) = [one for one in made.values() if isinstance(one, PairScorer)]
  expected = scorer.score(TERMS[:4], PRODUCTS)
  jobs = ScorerHandler(f'hf://{name}', 'litert', encoder_runtime='litert').load_model()
  for one in (PairScorer.load(f'hf://{name}'), jobs, by_card):
    np.testing.assert_allclose(one.score(TERMS[:4], PRODUCTS), expected, atol=1e-5)
    assert one.first_stage_weight == scorer.first_stage_weight is not None
  assert embedders.load(f'hf://{name}').fingerprint == scorer.fingerprint


def test_classes_are_pushed_with_what_the_run_does_not_know(classes, load, repositories, tmp_path):
  run, name = tmp_path / 'run', f'org/{classes.model.name}-classes'
  scorer = load(classes.folder)
  with pytest.raises(InputError, match='README.md: no model card there, which license would go'):
    scorer.push(name, license='mit')
  assert not (repositories / name).exists()
  finished(classes, run, 'multiclass', shared_encoder=False)
  (run / 'results.json').write_text('{}')
  PairScorer.load(str(run / 'export')).push(
    name, license='mit', language=['no', 'en'], datasets='org/pairs'
  )
  metadata, made = of_card(repositories / name)
  assert metadata.pipeline_tag == 'text-classification'
  assert (metadata.license, metadata.language) == ('mit', ['no', 'en'])
  assert metadata.datasets == 'org/pairs' and metadata.library_name == classes.model.name.lower()
  (by_card,) = [one for one in made.values() if isinstance(one, PairScorer)]
  assert by_card.outputs == 3


@pytest.mark.parametrize(
  ('name', 'message'),
  [
    (
      'hf://org/none',
      '^hf://org/none: the hub: 404 Client Error. Repository Not Found for org/none$',
    ),
    ('hf://org/name@', '^hf://org/name@: a tag, a branch or a commit is needed after @$'),
    ('hf://org', "^'org' is no repository of the hub: org/name$"),
    ('hf://org/name/export', "^'org/name/export' is no repository of the hub: org/name$"),
  ],
)
def test_what_the_hub_does_not_have_is_one_line(repositories, name, message):
  with pytest.raises(InputError, match=message):
    PairScorer.load(name)


def test_a_revision_is_asked_for_once_and_main_each_time(repositories):
  (repositories / 'org/name').mkdir(parents=True)
  folders = [hub.local(f'hf://org/name{of}') for of in ('@v1', '@v1', '', '')]
  assert [os.path.basename(folder) for folder in folders] == ['name@v1'] * 2 + ['name@None'] * 2
  assert sys.modules['huggingface_hub'].asked == ['v1', None, None]


def test_without_a_network_a_push_is_refused_in_one_line(repositories, monkeypatch, tmp_path):
  class ConnectError(Exception):  # as httpx's, which is no OSError
    pass

  def unreachable(*_, **__):
    raise ConnectError('[Errno -2] Name or service not known')

  monkeypatch.setattr(sys.modules['huggingface_hub'].HfApi, 'create_repo', unreachable)
  with pytest.raises(InputError, match='^hf://org/name: the hub: .Errno -2. Name or service not'):
    hub.push(str(tmp_path), 'org/name')


def test_without_the_hubs_package_it_is_named(monkeypatch, tmp_path):
  monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
  missing = r"^hf://org/name: huggingface_hub is not installed: pip install 'dipair\[hub\]'$"
  for call in (lambda: hub.local('hf://org/name'), lambda: hub.push(str(tmp_path), 'org/name')):
    with pytest.raises(InputError, match=missing):
      call()
  assert hub.local('runs/p2t/export') == 'runs/p2t/export'
