"""Committed results of benchmarks: written, read, and the command that made them."""

import os
from typing import Any

from common import flags
from common.distillation import provenance
from common.errors import InputError
from common.files import read_json, write_json

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(ROOT, 'benchmarks', 'results')
_TRIALS = ('damages', 'kills', 'knocks', 'malformed')
_NOW = {  # folders of the machine that measured, and commands by their names today
  '../shared/data/': 'data/',
  '=/work/shared/data/': '=data/',
  '--output=/tmp/s/bi.json': '--output=benchmarks/results/bi_encoder.json',
  '=/work/wt/venv-peers/': '=PEERS/',
  '--output=/tmp/': '--output=benchmarks/results/',
  **{f'=/work/{folder}': '=' for folder in ('exp2/', 'exp60/', 'fresh60/', '')},
  'dse.run --suite': 'experiments.suite --suite',
  **{f'benchmarks.{name}': f'tests.robustness.{name}' for name in _TRIALS},
}


def write(path: str, module: str, config: Any, **made: Any) -> None:
  """Writes what a command measured, with its command, commit and environment."""
  command = flags.command_line(module, flags.changed(config))
  about = {
    'command': command,
    'commit': provenance.commit(),
    'environment': provenance.environment(),
  }
  write_json(path, {**about, **made})


def exists(name: str) -> bool:
  """Whether there are results of that name."""
  return os.path.exists(_path(name))


def read(name: str) -> dict[str, Any]:
  """Results by their name.

  Raises:
    InputError: If the file is missing.
  """
  if not exists(name):
    raise InputError(f'{_path(name)} is missing: measure it first, by the benchmark of that name')
  return read_json(_path(name))


def command(made: dict[str, Any]) -> str:
  """The command of results, with today's names."""
  command = made['command']
  for then, now in _NOW.items():
    command = command.replace(then, now)
  return command


def _path(name: str) -> str:
  return os.path.join(RESULTS, f'{name}.json')
