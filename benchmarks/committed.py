"""The committed results of benchmarks, and Markdown of tables."""

import os
from typing import Any

from common.files import read_json

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read(name: str) -> dict[str, Any] | None:
  """The results of that name; None where there are none."""
  path = os.path.join(ROOT, 'benchmarks', 'results', f'{name}.json')
  return read_json(path) if os.path.exists(path) else None


def markdown(headers: list[str], rows: list[list[str]]) -> str:
  """A Markdown table."""
  lines = [headers, ['---'] * len(headers), *rows]
  return '\n'.join(f'| {" | ".join(line)} |' for line in lines)
