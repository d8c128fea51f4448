"""Every flagfile parses for its command; its job runs at toy size in the command's tests."""

import glob
import os

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_PARSE = """
import sys
from absl import flags as absl_flags
from common import flags
from {module} import {name}
flags.define({name})
for path in sys.argv[1:]:
  absl_flags.FLAGS.unparse_flags()
  absl_flags.FLAGS(['run', f'--flagfile={path}'])
  print(path, flags.flat(flags._build({name}, ''))['run_dir'])
"""


_DIPAIR = ('p2t', 'homedepot', 'homedepot_wide', 'q2p', 'smoke')
_DIPAIR += ('paper_p2t', 'paper_q2p')
_COMMANDS = {**dict.fromkeys(_DIPAIR, 'dipair.run RunConfig')}
_COMMANDS['study'] = 'experiments.study.__main__ StudyConfig'
_COMMANDS['glue'] = 'experiments.suite SuiteConfig'
_COMMANDS['pretrain'] = 'common.pretrain.config PretrainConfig'


@pytest.mark.parametrize('command', [*dict.fromkeys(_COMMANDS.values()), 'dse.run RunConfig'])
def test_every_flagfile_parses(command, python):
  paths = [
    path
    for path in sorted(glob.glob(os.path.join(ROOT, 'configs', '*.flags')))
    if _COMMANDS.get(os.path.basename(path).removesuffix('.flags'), 'dse.run RunConfig') == command
  ]
  module, name = command.split()
  done = python('-c', _PARSE.replace('{module}', module).replace('{name}', name), *paths)
  assert done.returncode == 0, done.stderr[-2000:]
  assert paths
  lines = [line.split()[0] for line in done.stdout.splitlines()]
  assert [line for line in lines if line != '--precision=auto:'] == paths


@pytest.mark.parametrize('name', [*sorted(_COMMANDS.keys() - {'smoke'}), 'mrpc'])
def test_a_flagfile_names_what_a_user_must_set_first(name):
  with open(os.path.join(ROOT, 'configs', f'{name}.flags'), encoding='utf-8') as file:
    text = file.read()
  assert '\n--flagfile=' not in text  # it is looked for where the command runs: not there by a name
  head = text.split('\n\n')[0]
  assert 'must set' in head
  assert '--run_dir=' in head
