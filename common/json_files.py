"""JSON files, whole or not there."""

import json
import os
from typing import Any


def read_json(path: str) -> dict[str, Any]:
  """Reads a JSON object."""
  with open(path, encoding='utf-8') as file:
    return json.load(file)


def write_json(path: str, value: Any) -> None:
  """Writes JSON, whole or not at all."""
  with open(path + '.tmp', 'w', encoding='utf-8') as file:
    json.dump(value, file, indent=1)
  os.replace(path + '.tmp', path)
