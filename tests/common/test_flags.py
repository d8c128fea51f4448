"""Configs as flags: round trips, refusals; each in its own process (absl's flags are global).

Run as a script, this file is the command under test: it prints the config that it was given.
"""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import common
from common import files, flags, termination
from common.errors import InputError
from tests import limits

ROOT = str(Path(common.__file__).parents[1])


@dataclasses.dataclass(frozen=True)
class Phase:
  steps: int = flags.option(10, 'steps')
  rate: float = flags.option(0.1, 'learning rate', bounds=(0, 10**6))

  def __post_init__(self):
    if self.steps < 1:
      raise InputError(f'--steps={self.steps}:\n  must be above 0')


@dataclasses.dataclass(frozen=True)
class Phases:
  first: Phase = flags.group(Phase, 'first_', steps=5)
  second: Phase = flags.group(Phase, 'second_', 'the last phase')


@dataclasses.dataclass(frozen=True)
class Config:
  title: str = flags.option('', 'title')
  mode: str = flags.option('fast', 'mode', ('fast', 'slow'))
  keep: bool = flags.option(True, 'keep')
  sizes: tuple[int, ...] = flags.option((1, 2), 'sizes')
  span: tuple[float, ...] = flags.option((0.0, 1.0), 'span', bounds=(-2, 2))
  words: tuple[str, ...] = flags.option((), 'words', alias='word')
  phases: Phases = flags.group(Phases, 'train_')
  alone: Phase = flags.group(Phase)


DEFAULTS = {
  'title': '',
  'mode': 'fast',
  'keep': True,
  'sizes': (1, 2),
  'span': (0.0, 1.0),
  'words': (),
  'train_first_steps': 5,
  'train_first_rate': 0.1,
  'train_second_steps': 10,
  'train_second_rate': 0.1,
  'steps': 10,
  'rate': 0.1,
}
OTHER = Config(
  title='café = 1, two',
  mode='slow',
  keep=False,
  sizes=(3,),
  span=(-1.5, 1e-05),
  words=('a', 'b c', 'd, e', '"f"'),
  phases=Phases(Phase(steps=7), Phase(rate=1 / 3)),
  alone=Phase(9, 2.0),
)


def command(*arguments: str) -> subprocess.CompletedProcess:
  return subprocess.run(
    [sys.executable, __file__, *arguments],
    env={**os.environ, 'PYTHONPATH': ROOT},
    capture_output=True,
    text=True,
    timeout=limits.PROCESS,
  )


def parsed(*arguments: str) -> dict:
  """The flat config that the command was given, its tuples as lists."""
  done = command(*arguments)
  assert (done.returncode, done.stderr) == (0, '')
  return json.loads(done.stdout)


def test_flags_from_python_are_the_commands():
  given = {'sizes': [3, 4], 'keep': False, 'words': 'a,b', 'title': None}
  expected = as_json(flags.build(Config, {'sizes': (3, 4), 'keep': False, 'words': ('a', 'b')}))
  assert (
    as_json(flags.parse(Config, given))
    == expected
    == parsed('--sizes=3,4', '--nokeep', '--word=a,b')
  )
  for wrong, message in (
    ({'sizs': 3}, "Unknown command line flag 'sizs'"),
    ({'mode': 'slo'}, '--mode=slo: value should be one of <fast|slow>'),
    ({'steps': 0}, '--steps=0:'),
    ({'steps': 1.5}, '--steps=1.5: invalid literal'),
    (
      {'flagfile': 'nowhere'},
      "--flagfile=nowhere: No such file or directory; the project's own, by",
    ),
  ):
    with pytest.raises(InputError, match=re.escape(message)):
      flags.parse(Config, wrong)


def test_a_flagfile_is_the_projects_own_where_no_file_has_its_name(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  own = os.path.join(ROOT, 'configs', 'p2t.flags')
  assert [flags.flagfile(name) for name in ('p2t', 'p2t.flags', 'configs/p2t.flags')] == [own] * 3
  assert [flags.flagfile(name) for name in ('p3t', 'my/p2t')] == ['p3t', 'my/p2t']
  found = flags._with_flagfiles(['--flagfile=p2t', '--title=p2t', '-flagfile', 'p2t'])
  assert found == [f'--flagfile={own}', '--title=p2t', '-flagfile', own]
  (tmp_path / 'p2t').write_text('--steps=3\n')
  assert flags.flagfile('p2t') == 'p2t'


def as_json(config: Config) -> dict:
  return json.loads(json.dumps(flags.flat(config)))


def test_flat_names_groups_by_their_prefixes():
  assert flags.flat(Config()) == DEFAULTS
  assert list(flags.flat(Config())) == list(DEFAULTS)
  assert list(flags.flat(Phase(), 'teacher_')) == ['teacher_steps', 'teacher_rate']


def test_a_flat_config_is_built_again_also_from_json():
  assert flags.build(Config, flags.flat(OTHER)) == OTHER
  assert flags.build(Config, as_json(OTHER)) == OTHER
  assert flags.build(Config, {'train_second_steps': 3}).phases == Phases(second=Phase(steps=3))
  with pytest.raises(InputError, match='Config has no stepz'):
    flags.build(Config, {'stepz': 3, 'steps': 1})


def test_without_flags_the_defaults():
  assert parsed() == as_json(Config())


def test_flags_by_hand(tmp_path):
  (tmp_path / 'job.flags').write_text(
    '# a comment\n--train_first_steps=7\n--steps=8\n--sizes=4, 5\n'
  )
  found = parsed(f'--flagfile={tmp_path}/job.flags', '--steps=9', '--nokeep', '--word=x,y')
  changes = {'train_first_steps': 7, 'steps': 9, 'sizes': [4, 5], 'keep': False}
  changes['words'] = ['x', 'y']  # by its second name
  assert found == as_json(Config()) | changes


@pytest.mark.parametrize('config', [Config(), OTHER], ids=['defaults', 'others'])
def test_a_saved_config_comes_back(config, tmp_path):
  flags.save(config, str(tmp_path / 'flags.txt'), header='# the command\n')
  assert (tmp_path / 'flags.txt').read_text('utf-8').startswith('# the command\n--title=')
  assert os.listdir(tmp_path) == ['flags.txt']
  assert parsed(f'--flagfile={tmp_path}/flags.txt') == as_json(config)


@dataclasses.dataclass(frozen=True)
class Start:
  old: int = flags.option(1, 'kept')
  once: bool = flags.option(False, 'of one start', kept=False)


def test_a_flag_of_one_start_is_not_kept():
  assert flags.flat(Start(), 'a_') == {'a_old': 1, 'a_once': False}
  assert flags.kept(Start()) == {'old': 1}


def test_changed_names_what_differs_and_parses():
  changes = ['--keep=false', '--sizes=3,4', '--train_second_steps=1']
  phases = Phases(second=Phase(steps=1))
  config = Config(keep=False, sizes=(3, 4), phases=phases)
  assert flags.changed(Config()) == []
  assert flags.changed(config) == changes
  assert parsed(*flags.changed(OTHER)) == as_json(OTHER)
  line = flags.command_line('my.run', ['--title=Home Depot', '--sizes=3,4'])
  assert line == "python -m my.run --title='Home Depot' --sizes=3,4"


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (['--flagfile=misspelt.flags'], "Unknown command line flag 'sizs'"),
    (['--flagfile=/no/such.flags'], '--flagfile=/no/such.flags: No such file or directory'),
    (['--flagfile=.'], '--flagfile=.: Is a directory'),
    (['--flagfile=latin.flags'], '--flagfile=latin.flags: byte 0xe9 is not utf-8'),
    (['--mode=medium'], '--mode=medium: value should be one of <fast|slow>'),
    (['--rate=high'], '--rate=high'),
    (['--keep=maybe'], '--keep=maybe'),
    (['--sizes=1,x'], "--sizes=1,x: invalid literal for int() with base 10: 'x'"),
    (['--span=0,one'], "--span=0,one: could not convert string to float: 'one'"),
    (
      ['--train_second_rate=nan'],
      '--train_second_rate=nan: a number from 0 to 1,000,000 is needed',
    ),
    (['--rate=1e7'], '--rate=10000000.0: a number from 0 to 1,000,000 is needed'),
    (['--span=0,-inf'], '--span=0.0,-inf: a number from -2 to 2 is needed'),
    (['--sizes='], '--sizes: empty; one or more are needed'),
    (
      ['--words=a,https://me:secret@host/x'],
      '--words: leave the password out of the URL: flags are',
    ),
    (['--title=a\n--steps=9'], '--title: a line break; flags are kept one a line'),
  ],
)
def test_a_value_that_does_not_fit_is_refused(arguments, message, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  Path('latin.flags').write_bytes('--title=café\n'.encode('latin-1'))
  Path('misspelt.flags').write_text('--steps=3\n--sizs=1\n')
  with pytest.raises(InputError, match=re.escape(message)):
    flags._named(Config, arguments)


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (['--stepz=3'], "Unknown command line flag 'stepz'. Did you mean: steps ?"),
    (['--flagfile=nested.flags'], '--flagfile=/no/such.flags: No such file or directory'),
    (['--steps=0'], '--steps=0: must be above 0'),
    (['steps=3'], "'steps=3' is not a flag; flags look like --name=value (see --help)"),
    (['--title=stop'], 'from the main function'),
  ],
)
def test_a_command_refuses_in_one_line_with_status_2(arguments, message, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  Path('nested.flags').write_text('--flagfile=/no/such.flags\n')
  done = command(*arguments)
  assert (done.returncode, done.stdout) == (2, '')
  assert done.stderr.startswith(f'error: {message}') and done.stderr.count('\n') == 1


@pytest.mark.parametrize(
  ('title', 'says'),
  [('once', ''), ('in a folder', '; the same command goes on'), ('twice', '')],
)
def test_ctrl_c_ends_it_in_one_line(title, says, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  done = command(f'--title={title}')
  assert (done.returncode, done.stdout, done.stderr) == (130, '', f'stopped by Ctrl-C{says}\n')


HELP = """\
Configs as flags: round trips, refusals; each in its own process (absl's flags are global).

Run as a script, this file is the command under test: it prints the config that it was given.

flags:
  --[no]keep: keep
    (default: 'true')
  --mode: <fast|slow>: mode
    (default: 'fast')
  --sizes: sizes
    (default: '1,2')
    (a comma separated list)
  --span: span (-2 to 2)
    (default: '0.0,1.0')
    (a comma separated list)
  --title: title
    (default: '')
  --word: Alias for --words.
    (default: '')
    (a comma separated list)
  --words: words
    (default: '')
    (a comma separated list)

first:
  --train_first_rate: learning rate (0 to 1,000,000)
    (default: '0.1')
    (a number)
  --train_first_steps: steps
    (default: '5')
    (an integer)

the last phase:
"""


@pytest.mark.parametrize('flag', ['--help', '--helpshort', '-?'])
def test_help_lists_the_flags_of_each_group_below_its_heading(flag):
  done = command(flag)
  assert (done.returncode, done.stderr) == (0, '')
  assert done.stdout.startswith(HELP)
  assert all(f'\n  --{name}:' in done.stdout.replace('--[no]', '--') for name in DEFAULTS)


def test_help_shows_the_flags_to_begin_with_first():
  shown = flags.help_text(Config, 'About.', first=['title', 'train_first_steps'])
  assert shown.startswith('About.\n\nto begin with:\n  --title: ')
  assert shown.count('--train_first_steps:') == 1
  assert shown.index('--train_first_steps:') < shown.index('\nflags:') < shown.index('--mode:')


def main(config: Config) -> None:
  if config.title == 'stop':
    raise InputError('from the main function')
  if config.title == 'once':
    signal.raise_signal(signal.SIGINT)
  if config.title == 'in a folder':
    with files.alone('.'):
      signal.raise_signal(signal.SIGINT)
  if config.title == 'twice':
    with termination.held():
      signal.raise_signal(signal.SIGINT)
      signal.raise_signal(signal.SIGINT)
      time.sleep(limits.PROCESS)
  print(json.dumps(flags.flat(config)))


if __name__ == '__main__':
  signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background ignores
  flags.command(main, Config)
