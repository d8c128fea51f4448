"""The committed results of benchmarks: written, read, and as Markdown of tables."""

import os
from typing import Any

from common import flags
from common.distillation import results
from common.files import read_json, write_json

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def write(path: str, module: str, config: Any, **made: Any) -> None:
  """Writes what a benchmark made, with its command, commit and environment."""
  command = ' '.join([f'python -m benchmarks.{module}', *flags.changed(config)])
  about = {'command': command, 'commit': results.commit(), 'environment': results.environment()}
  write_json(path, {**about, **made})


def read(name: str) -> dict[str, Any] | None:
  """The results of that name; None where there are none."""
  path = os.path.join(ROOT, 'benchmarks', 'results', f'{name}.json')
  return read_json(path) if os.path.exists(path) else None


def markdown(headers: list[str], rows: list[list[str]]) -> str:
  """A Markdown table."""
  lines = [headers, ['---'] * len(headers), *rows]
  return '\n'.join(f'| {" | ".join(line)} |' for line in lines)
