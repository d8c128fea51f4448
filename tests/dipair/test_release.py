"""A release: an archive of a finished run's student, and what opens it, or refuses to."""

import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time

import numpy as np
import pytest

from common import files, verify
from common.data import record_writer
from common.data.examples import Example
from common.distillation import embedders
from common.errors import InputError
from common.pipelines.models import ScorerHandler
from common.scoring import archive, exported
from common.scoring.first_stage import FirstStageWeight
from dipair import CrossEncoder, Scorer, release
from dipair.release import ReleaseConfig
from tests import limits
from tests.conftest import PRODUCTS, ROOT, TERMS

TERMS_OF_USE = {'license': 'apache-2.0', 'data': 'Toys | of ours', 'data_license': 'CC BY 4.0'}
INT8 = 'litert-int8'
BM25 = FirstStageWeight('bm25', 0.5, 3.0)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))


@pytest.fixture(name='run', scope='module')
def _run(exported, tmp_path_factory):
  """A finished run, as far as a release reads it."""
  folder = tmp_path_factory.mktemp('run')
  shutil.copytree(exported.folder, folder / 'export')
  BM25.write(str(folder / 'export'))
  rows = [Example('', pair, 0.5) for pair in zip(TERMS, PRODUCTS, strict=False)]
  record_writer.write_sets(str(folder / 'data'), {'test': record_writer.of_examples(rows)}, 2)
  quality = {'pearson': 0.54}
  results = {
    **{'title': 'toys', 'student': 'dipair', 'task': 'regression', 'primary_metric': 'pearson'},
    **{'commit': 'c0ffee', 'command': 'python -m dipair.run --title=toys', 'flags': {}},
    'models': [
      {'name': 'teacher', 'valid': quality, 'test': {'pearson': 0.56}},
      {'name': 'student', 'valid': quality, 'test': quality}
      | {'delta': {'test': -0.03}, 'interval': {'test': [-0.05, -0.01]}},
    ],
  }
  files.write_json(str(folder / 'results.json'), results)
  return folder


@pytest.fixture(name='released', scope='module')
def _released(run, tmp_path_factory):
  """Its release."""
  path = str(tmp_path_factory.mktemp('dist') / 'new' / 'toys-0.1.0.tar.gz')
  release.write(ReleaseConfig(str(run), path, **TERMS_OF_USE))
  assert os.listdir(os.path.dirname(path)) == ['toys-0.1.0.tar.gz']
  return path


def test_a_release_scores_as_the_export_that_it_is_of_wherever_an_export_is_taken(
  run, released, tmp_path
):
  expected = Scorer.load(str(run / 'export'), INT8, encoder_runtime=INT8)
  scores = expected.score(TERMS[:4], PRODUCTS)
  scorer = Scorer.load(released)  # the only runtime is taken where none is named
  np.testing.assert_allclose(scorer.score(TERMS[:4], PRODUCTS), scores, atol=1e-6)
  assert scorer.fingerprint == expected.fingerprint
  assert scorer.first_stage_weight == BM25
  handler = ScorerHandler(released, INT8, encoder_runtime=INT8).load_model()
  np.testing.assert_allclose(handler.score(TERMS[:4], PRODUCTS), scores, atol=1e-6)
  pairs = list(zip(TERMS, PRODUCTS, strict=False))
  np.testing.assert_allclose(CrossEncoder(released).predict(pairs), scores, atol=1e-6)
  assert embedders.load(released).fingerprint == scorer.fingerprint
  unpacked = os.listdir(tmp_path / 'cache' / 'dipair')
  assert unpacked == [files.sha256(released)]  # once for all of them
  message = (
    "^encoder_runtime='tensorflow': this export is a release, which has 'litert-int8' alone$"
  )
  with pytest.raises(InputError, match=message):
    Scorer.load(released, encoder_runtime='tensorflow')


def test_a_release_is_small_the_same_again_and_says_whose_it_is(run, released, tmp_path):
  with tarfile.open(released) as opened:
    assert opened.getnames() == [
      *(
        'README.md',
        'digests.json',
        'encoder_litert/int8.tflite',
        'encoder_litert/word_pieces.json',
      ),
      *('first_stage.json', 'head_litert/int8.tflite', 'scorer.json'),
    ]
    card = opened.extractfile('README.md').read().decode()
  assert card.startswith('---\nlicense: apache-2.0\n')
  said = 'The model: apache-2.0. The data that it learnt from: Toys \\| of ours; CC BY 4.0.'
  shown = ('Scorer.load("toys-0.1.0.tar.gz")', '-3.0% [-5.0, -1.0]', 'c0ffee', '--title=toys')
  assert all(text in card for text in (said, *shown))
  assert verify.verify(exported.local(released))[0] == 6
  again = tmp_path / os.path.basename(released)
  release.write(ReleaseConfig(str(run), str(again), **TERMS_OF_USE))
  assert files.sha256(str(again)) == files.sha256(released)


def test_the_command_says_size_and_digest_and_refuses_in_one_line(run, tmp_path, python, refusals):
  path = tmp_path / 'toys.tar.gz'
  stated = [f'--{name}={value}' for name, value in TERMS_OF_USE.items()]
  given = [f'--run_dir={run}', f'--output={path}', *stated]
  done = python('-m', 'dipair.release', *given)
  said = f'{path}: {path.stat().st_size:,} bytes, sha256 {files.sha256(str(path))}\n'
  assert (done.returncode, done.stdout) == (0, said), done.stderr[-2000:]
  other = [f'--run_dir={run}', f'--output={tmp_path}/other.tar.gz']
  cases = {
    '--license is needed: a release states its licence, its data and theirs': other,
    '--data_license is needed': [*other, *stated[:2]],
    '--license=see our site: one word is needed, such as apache-2.0': [
      *(*other, *stated, '--license=see our site')
    ],
    'toys.tar.gz: there already; name another': given,
    '--output=toys.zip: a name that ends in .tar.gz': [*given, '--output=toys.zip'],
    f'--run_dir={tmp_path}: no results.json': [*other, *stated, f'--run_dir={tmp_path}'],
  }
  for (status, err), message in zip(
    refusals('dipair.release', list(cases.values())), cases, strict=True
  ):
    (line,) = [line for line in err.splitlines() if line.startswith('error:')]
    assert status == 2 and message in line
  assert not (tmp_path / 'other.tar.gz').exists()


def test_a_run_of_vectors_is_not_released(run, tmp_path):
  shutil.copytree(run, tmp_path / 'run')
  row = Example('', ('red', np.ones(3, np.float32)), 0.5)
  record_writer.write_sets(
    str(tmp_path / 'run' / 'data'), {'test': record_writer.of_examples([row])}, 2
  )
  config = ReleaseConfig(str(tmp_path / 'run'), str(tmp_path / 'toys.tar.gz'), **TERMS_OF_USE)
  with pytest.raises(InputError, match='holds vectors; only a run of texts can be released$'):
    release.write(config)


def test_what_differs_from_the_export_is_not_released(run, tmp_path, monkeypatch):
  copied = release._copy

  def reversed_words(source, target):
    copied(source, target)
    if target.endswith('word_pieces.json'):
      found = files.read_json(target)
      files.write_json(target, {**found, 'vocabulary': found['vocabulary'][::-1]})

  monkeypatch.setattr(release, '_copy', reversed_words)
  path = tmp_path / 'toys.tar.gz'
  with pytest.raises(RuntimeError, match="toys.tar.gz: scores differ from the export's by 0"):
    release.write(ReleaseConfig(str(run), str(path), **TERMS_OF_USE))
  assert os.listdir(tmp_path) == []


def test_a_damaged_archive_is_refused_by_its_name(released, tmp_path):
  with open(released, 'rb') as file:
    content = file.read()
  path = tmp_path / 'damaged.tar.gz'
  middle = len(content) // 2
  flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
  for damaged in (b'', b'PK\3\4', content[:middle], content[:-1], flipped):
    path.write_bytes(damaged)
    with pytest.raises(InputError, match=rf'^{path}: damaged .*; fetch it anew$'):
      Scorer.load(str(path))
  with pytest.raises(InputError, match='^/nowhere.tar.gz: no such file$'):
    Scorer.load('/nowhere.tar.gz')
  assert os.listdir(tmp_path / 'cache' / 'dipair') == []


@pytest.mark.parametrize('lost', ['scorer.json', 'digests.json', 'head_litert/int8.tflite', ''])
def test_a_cache_that_has_lost_files_is_filled_anew(released, lost):
  folder = exported.local(released)
  paths = [os.path.join(base, name) for base, _, names in os.walk(folder) for name in names]
  assert all(time.time() - os.path.getmtime(path) < 3600 for path in paths)
  for path in paths if not lost else [os.path.join(folder, lost)]:
    os.remove(path)
  assert exported.local(released) == folder and all(map(os.path.exists, paths))
  assert os.listdir(os.path.dirname(folder)) == [os.path.basename(folder)]


def archive_of(path, *members):
  """An archive of (name, type, content); a link leads to its content."""
  with gzip.open(path, 'wb') as stream, tarfile.open(fileobj=stream, mode='w') as made:
    for name, kind, content in members:
      member = tarfile.TarInfo(name)
      member.type, member.size = kind, len(content) if kind == tarfile.REGTYPE else 0
      member.linkname = '' if kind == tarfile.REGTYPE else content.decode()
      made.addfile(member, io.BytesIO(content))


DIGESTS = ('digests.json', tarfile.REGTYPE, b'{"files": {}}')


@pytest.mark.parametrize(
  ('members', 'message'),
  [
    (
      [DIGESTS, ('../x', tarfile.REGTYPE, b'1')],
      "'../x' would be extracted to .*, which is outside",
    ),
    ([('x', tarfile.SYMTYPE, b'/etc'), DIGESTS], "'x' is no plain file, and an archive"),
    ([('x', tarfile.LNKTYPE, b'scorer.json'), DIGESTS], "'x' is no plain file"),
    ([('x', tarfile.CHRTYPE, b''), DIGESTS], "'x' is no plain file"),
    ([('x', tarfile.REGTYPE, b'1')], 'digests.json is not in it: no archive that dipair.release'),
  ],
  ids=['leaves', 'link', 'hard link', 'device', 'other'],
)
def test_an_archive_of_something_else_writes_nothing_outside_its_folder(members, message, tmp_path):
  path = tmp_path / 'given.tar.gz'
  archive_of(path, *members)
  with pytest.raises(InputError, match=f'^{re.escape(str(path))}: {message}') as refused:
    archive.unpacked(str(path))
  assert '\n' not in str(refused.value)
  assert sorted(os.listdir(tmp_path)) == ['cache', 'given.tar.gz']
  assert os.listdir(tmp_path / 'cache' / 'dipair') == []


def test_a_pipelines_command_refuses_an_archive_that_leaves_its_folder_in_one_line(tmp_path):
  path = tmp_path / 'given.tar.gz'
  archive_of(path, DIGESTS, ('../x', tarfile.REGTYPE, b'1'))
  arguments = [f'--export_dir={path}', '--input=x.tsv', '--output=store', '--side=left']
  command = [sys.executable, '-m', 'common.pipelines.encode', *arguments]
  done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limits.PROCESS)
  (line,) = [line for line in done.stderr.splitlines() if line.startswith('error:')]
  assert done.returncode == 2 and f"error: {path}: '../x' would be extracted" in line
