"""Runs a client's check in the client's environment: `python run.py check_cohere given.json`."""

import importlib
import json
import sys
from importlib import metadata
from typing import Any


def assert_scores(given: dict[str, Any], scores: dict[int, float]) -> None:
  """Scores by a document's index are the export's own, best first."""
  assert [*scores.values()] == sorted(scores.values())[::-1], scores
  assert len(scores) == len(given['scores'])
  for index, score in scores.items():
    assert abs(score - given['scores'][index]) < given['tolerance'], (index, score, given['scores'])


if __name__ == '__main__':
  name, path = sys.argv[1:]
  module = importlib.import_module(name)
  with open(path, encoding='utf-8') as file:
    checked = module.check(json.load(file))
  versions = {package: metadata.version(package) for package in module.PACKAGES}
  print(json.dumps({'versions': versions, 'checked': checked}))
