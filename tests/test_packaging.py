"""The source distribution, the wheel made of it, and the wheel from another folder."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ('common', 'dipair', 'dse')
CODE = """
from common import flags
from common.console import dipair
print(*flags.flagfiles(), flags.flagfile('p2t'))
"""


def run(command, folder):
  done = subprocess.run(
    command, cwd=folder, capture_output=True, text=True, env={'TF_CPP_MIN_LOG_LEVEL': '2'}
  )
  assert done.returncode == 0, done.stderr[-2000:]
  return done.stdout


def files(folder):
  """The packages' files, below a folder."""
  return {
    path.relative_to(folder)
    for package in PACKAGES
    for path in (folder / package).rglob('*')
    if path.is_file() and '__pycache__' not in path.parts
  }


def test_a_wheel_of_the_source_distribution_is_whole(tmp_path):
  setup = [sys.executable, 'setup.py', '-q', 'egg_info', f'--egg-base={tmp_path}', 'sdist']
  run([*setup, f'--dist-dir={tmp_path}'], ROOT)
  (source,) = tmp_path.glob('*.tar.gz')
  with tarfile.open(source) as archive:
    names = {name.split('/', 1)[-1] for name in archive.getnames()}
  assert {'constraints.txt', 'light.txt', 'docs/training.md', 'tests/conftest.py'} <= names

  pip = [sys.executable, '-m', 'pip', 'wheel', '-q', '--no-deps', '--no-build-isolation']
  run([*pip, f'--wheel-dir={tmp_path}', str(source)], tmp_path)
  (wheel,) = tmp_path.glob('*.whl')
  installed = tmp_path / 'installed'
  with zipfile.ZipFile(wheel) as archive:
    archive.extractall(installed)
  configs = {Path('common', path.relative_to(ROOT)) for path in ROOT.glob('configs/*.flags')}
  assert files(installed) == files(ROOT) | configs
  assert not {'benchmarks', 'experiments'} & {path.name for path in installed.iterdir()}

  found = run([sys.executable, '-c', f'import sys; sys.path.insert(0, "."){CODE}'], installed)
  assert found.split()[-1] == str(installed / 'common' / 'configs' / 'p2t.flags')
