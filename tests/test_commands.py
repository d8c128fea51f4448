"""Every command of the project: `--help`, and an extra that is not installed."""

import ast
import dataclasses
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import common
from common import console, extras, flags
from common.errors import InputError
from tests import limits
from tests.robustness import knocks

ROOT = Path(__file__).parents[1]
NO_FLAGS = {
  'benchmarks.clients.run',
  'benchmarks.peers.bi_encoder',
  'benchmarks.peers.measure',
  'benchmarks.tables',
  'common.export.saved_models',
}  # nothing to set, or a process that another one starts
UNLISTED = ('benchmarks.', 'tests.')  # for those who develop


def guarded(tree: ast.Module) -> list[ast.stmt]:
  """What stands below `if __name__ == '__main__':`."""
  ifs = [node for node in tree.body if isinstance(node, ast.If)]
  return [
    line for node in ifs if ast.unparse(node.test) == "__name__ == '__main__'" for line in node.body
  ]


def commands() -> dict[str, str]:
  """{module: name of its config class}; '' where the module does not end in a `command(…)`."""
  found = {}
  for folder in ('benchmarks', 'common', 'dipair', 'dse', 'experiments', 'tests/robustness'):
    for path in sorted((ROOT / folder).rglob('*.py')):
      module = '.'.join(path.relative_to(ROOT).with_suffix('').parts)
      if (lines := guarded(ast.parse(path.read_text('utf-8')))) and module not in NO_FLAGS:
        called, _, arguments = ast.unparse(lines[-1]).partition('(')
        is_command = called in ('flags.command', 'jobs.command')
        config = arguments.rstrip(')').split(', ')[1].split('.')[-1] if is_command else ''
        found[module] = config
  return found


COMMANDS = commands()


def run(module: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
  return subprocess.run(
    [sys.executable, '-m', module, *arguments],
    cwd=ROOT,
    env={**os.environ, **environment},
    capture_output=True,
    text=True,
    timeout=limits.PROCESS,
  )


def test_the_commands_are_found():
  known = {'dipair.run', 'experiments.senteval', 'common.pipelines.encode', 'benchmarks.cost'}
  assert known | {'common.local_server.__main__'} < COMMANDS.keys()


def test_the_programs_know_the_commands():
  known = {module for commands in console.COMMANDS.values() for module in commands.values()}
  own = {module.removesuffix('.__main__') for module in COMMANDS}
  outside = (*UNLISTED, 'experiments.')  # not installed
  assert known == {module for module in own if not module.startswith(outside)}


def program(*arguments: str) -> subprocess.CompletedProcess:
  """The console script `dipair`, from a folder without the repository."""
  code = 'from common import console; console.dipair()'
  command = [sys.executable, '-c', code, *arguments]
  environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
  return subprocess.run(
    command, cwd='/', env=environment, capture_output=True, text=True, timeout=limits.PROCESS
  )


def test_the_program_runs_a_command_with_a_flagfile_by_name():
  done = program(
    'run', '--flagfile=smoke', '--run_dir=', '--max_lengths=9,9', '--output_tokens=9,9,9'
  )
  assert done.returncode == 2
  assert done.stderr.splitlines()[-1].startswith('error: --max_lengths=(9, 9) and --output_tokens')
  assert 'dipair release' in program().stdout
  assert program('--version').stdout == f'dipair {common.__version__}\n'
  line = 'error: dipair train: no such command; one of run, mine, release, '
  assert program('train').stderr.startswith(line)


@pytest.mark.parametrize('module', COMMANDS)
def test_help_names_each_flag_of_every_command(module):
  assert COMMANDS[module], f'{module} does not end in flags.command(main, Config)'
  imported = importlib.import_module(module)
  cls = getattr(imported, COMMANDS[module])
  text = flags.help_text(cls, imported.__doc__)
  assert imported.__doc__ and text.startswith(imported.__doc__.strip())
  shown = text.replace('--[no]', '--')
  assert [name for name in flags.flat(cls()) if f'\n  --{name}:' not in shown] == []


@pytest.mark.parametrize('module', COMMANDS)
def test_flags_are_refused_by_name_or_take_what_they_declare(module):
  found = list(knocks.knocks(getattr(importlib.import_module(module), COMMANDS[module])))
  assert [knock for knock in found if knock.outcome not in knocks.OUTCOMES] == []


def test_a_number_without_bounds_is_found():
  @dataclasses.dataclass(frozen=True)
  class Config:
    size: int = flags.option(1, 'size')
    kept: bool = flags.option(True, 'kept')

    def __post_init__(self):
      if self.size < 0:
        raise InputError('size')

  assert {(name, value): outcome for name, value, outcome in knocks.knocks(Config)} == {
    **{('size', value): 'refused' for value in ('', 'word', 'nan', 'inf', '-inf')},
    ('size', '0'): '0 is not within None',
    ('size', '-1'): 'refused without the flag in one line: size',
    ('size', '1000000000000000000'): '1000000000000000000 is not within None',
    **{('kept', value): 'refused' for value in knocks.VALUES},
    ('kept', '0'): 'taken',
  }


@pytest.mark.parametrize(
  ('module', 'headings'),
  [
    ('dipair.mine', ('flags', 'mining')),
    ('common.local_server', ('flags',)),
    ('common.pipelines.encode', ('flags', 'input', 'output')),
  ],
)
def test_help_of_a_command(python, module, headings):
  done = python('-m', module, '--help')
  assert (done.returncode, done.stderr) == (0, '')
  lines = done.stdout.splitlines()
  assert tuple(line[:-1] for line in lines if line.endswith(':') and line[0] != ' ') == headings


@pytest.mark.parametrize(
  ('module', 'package', 'extra'),
  [
    ('common.pipelines.encode', 'apache_beam', 'beam'),
    ('common.local_server', 'tensorflow_serving', 'serving'),
    ('common.rerank_server', 'fastapi', 'serve'),
    ('dipair.run', 'tensorflow', 'train'),
  ],
)
def test_a_command_without_its_extra_names_it_in_one_line(module, package, extra, tmp_path):
  (tmp_path / 'sitecustomize.py').write_text(f'import sys\nsys.modules[{package!r}] = None\n')
  done = run(module, '--help', PYTHONPATH=f'{tmp_path}{os.pathsep}{ROOT}')
  line = f"error: {package} is not installed: pip install 'dipair[{extra}]'\n"
  assert (done.returncode, done.stdout, done.stderr) == (2, '', line)


def test_outside_of_a_command_a_missing_extra_is_raised():
  with (
    pytest.raises(
      InputError, match=r"^why: nowhere is not installed: pip install 'dipair\[beam\]'"
    ),
    extras.needed('beam', 'why: '),
  ):
    importlib.import_module('nowhere.at.all')
  with pytest.raises(ModuleNotFoundError), extras.needed('beam'):
    importlib.import_module('common.nowhere')  # a mistake of ours is no missing extra
