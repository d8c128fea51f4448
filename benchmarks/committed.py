"""Committed results of benchmarks: written and read."""

import os
from typing import Any

from common import flags
from common.distillation import provenance
from common.errors import InputError
from common.files import read_json, write_json

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(ROOT, 'benchmarks', 'results')


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


def _path(name: str) -> str:
  return os.path.join(RESULTS, f'{name}.json')
