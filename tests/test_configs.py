"""Every flagfile parses for its command; its job runs at toy size in the command's tests."""

import glob
import os

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_PARSE = """
import sys
from absl import flags as absl_flags
from common import flags
from {package}.run import RunConfig
flags.define(RunConfig)
for path in sys.argv[1:]:
  absl_flags.FLAGS.unparse_flags()
  absl_flags.FLAGS(['run', f'--flagfile={path}'])
  config = flags._build(RunConfig, '')
  print(path, config.experiment.run_dir)
"""


_DIPAIR = ('p2t', 'homedepot', 'q2p', 'smoke')


@pytest.mark.parametrize('package', ['dipair', 'dse'])
def test_every_flagfile_parses(package, python):
  paths = [
    path
    for path in sorted(glob.glob(os.path.join(ROOT, 'configs', '*.flags')))
    if (os.path.basename(path).removesuffix('.flags') in _DIPAIR) == (package == 'dipair')
  ]
  done = python('-c', _PARSE.replace('{package}', package), *paths)
  assert done.returncode == 0, done.stderr[-2000:]
  assert paths
  assert [line.split()[0] for line in done.stdout.splitlines()] == paths


@pytest.mark.parametrize('name', ['p2t', 'homedepot', 'q2p', 'mrpc', 'glue'])
def test_a_flagfile_names_what_a_user_must_set_first(name):
  with open(os.path.join(ROOT, 'configs', f'{name}.flags'), encoding='utf-8') as file:
    head = file.read().split('\n\n')[0]
  assert 'must set' in head
  assert '--run_dir=' in head
