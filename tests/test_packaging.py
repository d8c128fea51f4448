"""The source distribution, the wheel made of it, the wheel from another folder; the Dockerfile."""

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from common import console, flags
from common.rerank_server.__main__ import ServeConfig

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
  assert {'constraints.txt', 'docs/results.md', 'tests/conftest.py'} <= names

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


def test_the_dockerfile_names_what_there_is():
  """Docker is not at hand, so each instruction is compared with the sources."""
  lines = (ROOT / 'Dockerfile').read_text('utf-8').replace('\\\n', '').splitlines()
  steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith('#')]
  copied = {path for name, rest in steps if name == 'COPY' for path in rest.split()[:-1]}
  assert {*PACKAGES, 'setup.py', 'configs', 'pretrained'} < copied
  assert [path for path in copied if not (ROOT / path).exists()] == []
  (extras,) = re.findall(r'\.whl\)\[([a-z,]+)\]', str(steps))
  setup = (ROOT / 'setup.py').read_text('utf-8')
  assert [name for name in extras.split(',') if f"    '{name}': " not in setup] == []

  last = dict(steps)
  program, name, *given = json.loads(last['ENTRYPOINT']) + json.loads(last['CMD'])
  assert console.COMMANDS[program][name] == 'common.rerank_server'
  config = flags.parse(ServeConfig, dict(flag.removeprefix('--').split('=') for flag in given))
  assert config.host == '0.0.0.0' and last['USER'] != 'root'
  assert last['EXPOSE'] == str(config.port)
  assert f'http://127.0.0.1:{config.port}/healthz' in last['HEALTHCHECK']
