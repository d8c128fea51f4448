"""Every flagfile parses for its command; its job runs at toy size in the command's tests."""

from pathlib import Path

import pytest

from common import flags
from common.pretrain.config import PretrainConfig
from dipair.run import RunConfig as DiPairRun
from dse.run import RunConfig as DSERun
from experiments.study.__main__ import StudyConfig
from experiments.suite import SuiteConfig

PATHS = sorted((Path(__file__).parents[1] / 'configs').glob('*.flags'))
DIPAIR = ('p2t', 'homedepot', 'homedepot_wide', 'q2p', 'smoke', 'paper_p2t', 'paper_q2p')
OTHERS = {'study': StudyConfig, 'glue': SuiteConfig, 'pretrain': PretrainConfig}
CONFIGS = {**dict.fromkeys(DIPAIR, DiPairRun), **OTHERS}  # any other is DSE's


@pytest.mark.parametrize('path', PATHS, ids=lambda path: path.stem)
def test_every_flagfile_parses(path):
  config = flags.parse(CONFIGS.get(path.stem, DSERun), {'flagfile': str(path)})
  assert isinstance(config, CONFIGS.get(path.stem, DSERun))
  if path.stem.startswith('paper_') and isinstance(config, DiPairRun):
    assert config.train.head_start == 'random'


@pytest.mark.parametrize('name', [*sorted(CONFIGS.keys() - {'smoke'}), 'mrpc'])
def test_a_flagfile_names_what_a_user_must_set_first(name):
  (text,) = [path.read_text('utf-8') for path in PATHS if path.stem == name]
  assert '\n--flagfile=' not in text  # it is looked for where the command runs: not there by a name
  head = text.split('\n\n')[0]
  assert 'must set' in head
  assert '--run_dir=' in head
