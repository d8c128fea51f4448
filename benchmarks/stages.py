"""Seconds of the stages of runs, side by side, from their logs: a run on one machine against the same on another.

  python -m benchmarks.stages --run_dirs=runs/p2t,runs/p2t_gpu --output=benchmarks/results/stages.json

A run that was stopped has the stages that it had made.
"""

import dataclasses
import os
import re
from typing import Any

from benchmarks import committed
from common import flags
from common.distillation import run_log
from common.errors import InputError

_MADE = re.compile(r'(\w+): made in ([\d,.]+) s;')
_ABOUT = re.compile(r'commit (\S+), .*cpu (.+), cores (\d+), .*accelerators (.+), peak')
_COMMAND = re.compile(r' == (python .+)')


@dataclasses.dataclass(frozen=True)
class StagesConfig:
  """The runs."""

  run_dirs: tuple[str, ...] = flags.option((), 'folders of runs, each of which ran in one go')
  output: str = flags.option('', 'JSON file of the figures')


def main(config: StagesConfig) -> None:
  """Reads the logs, prints, writes."""
  runs = [read(folder) for folder in config.run_dirs]
  for run in runs:
    print(run['accelerators'], run['cores'], run['seconds'])
  if config.output:
    committed.write(config.output, 'stages', config, runs=runs)


def read(folder: str) -> dict[str, Any]:
  """A run's command, commit and machine, and the seconds of its stages in their order.

  Raises:
    InputError: If there is no log, or one of several starts.
  """
  path = os.path.join(folder, run_log.NAME)
  if not os.path.exists(path):
    raise InputError(f'--run_dirs={folder}: no {run_log.NAME}; name the folder of a run')
  with open(path, encoding='utf-8') as file:
    text = file.read()
  commands, about = _COMMAND.findall(text), _ABOUT.findall(text)
  if len(commands) != 1 or len(about) != 1:
    raise InputError(f'{path}: of {len(commands)} starts; a run that ran in one go has one')
  commit, cpu, cores, accelerators = about[0]
  return {
    'command': commands[0],
    'commit': commit,
    'cpu': cpu,
    'cores': int(cores),
    'accelerators': accelerators,
    'seconds': {name: float(s.replace(',', '')) for name, s in _MADE.findall(text)},
  }


if __name__ == '__main__':
  flags.command(main, StagesConfig)
