"""The source distribution, the wheel made of it, and the wheel from another folder."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ('common', 'dipair', 'dse')
CODE = """
import sys
sys.path.insert(0, '.')
from common import flags
import dipair
scorer = dipair.Scorer.load('medquad')
assert 'tensorflow' not in sys.modules
print(scorer.rank('what causes gout', ['the sky is blue', 'gout is caused by uric acid'])[0][0])
print(*flags.flagfiles(), flags.flagfile('p2t'))
"""


def run(command, folder):
  done = subprocess.run(
    command, cwd=folder, capture_output=True, text=True, env={'XDG_CACHE_HOME': str(folder)}
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
  assert {'constraints.txt', 'docs/training.md', 'tests/conftest.py'} <= names

  pip = [sys.executable, '-m', 'pip', 'wheel', '-q', '--no-deps', '--no-build-isolation']
  run([*pip, f'--wheel-dir={tmp_path}', str(source)], tmp_path)
  (wheel,) = tmp_path.glob('*.whl')
  installed = tmp_path / 'installed'
  with zipfile.ZipFile(wheel) as archive:
    archive.extractall(installed)
  brought = [*ROOT.glob('configs/*.flags'), *ROOT.glob('pretrained/*.tar.gz')]
  assert files(installed) == files(ROOT) | {Path('common', p.relative_to(ROOT)) for p in brought}
  assert not {'benchmarks', 'experiments'} & {path.name for path in installed.iterdir()}

  found = run([sys.executable, '-c', CODE], installed).split()
  assert found[0] == '1'  # the trained student that comes with it
  assert found[-1] == str(installed / 'common' / 'configs' / 'p2t.flags')
