"""The local server under load, in a real process.

  python -m benchmarks.serving --output=benchmarks/results/serving.json

The server runs a head's SavedModel with random weights, which do not change the time. A request has
the query's part and 1,000 vectors of candidates (`one_to_many`), then the same as an int8 store has
them (`one_to_many_int8`). Before and after, the head alone is measured on the same cores.
"""

import contextlib
import dataclasses
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import committed, random_exports, tables
from common import flags
from common.evaluation import benchmark
from common.evaluation.benchmark import Contender
from common.scoring.exported import ONE_TO_MANY_INT8
from common.serving import load_test
from common.serving.load_test import LoadConfig
from common.vectors.values import narrowed
from dipair.scorer import Scorer


@dataclasses.dataclass(frozen=True)
class ServingConfig:
  """Size of the load."""

  candidates: int = flags.option(1000, 'candidates of a request', bounds=(1, 10**6))
  requests: int = flags.option(1000, 'requests to send', bounds=(1, 10**6))
  concurrency: int = flags.option(32, 'requests at a time', bounds=(1, 1000))
  output: str = flags.option('', 'JSON file of the figures')


def main(config: ServingConfig) -> None:
  """Measures, prints, writes."""
  with tempfile.TemporaryDirectory() as folder:
    found = _loads(config, random_exports.dipair(os.path.join(folder, 'export')), folder)
  print(tables.serving(found))
  if config.output:
    committed.write(config.output, 'benchmarks.serving', config, **found)


def _loads(config: ServingConfig, export: str, folder: str) -> dict[str, dict[str, Any]]:
  """Load of float32 and of int8 vectors, and the head alone before and after each."""
  scorer = Scorer.load(export)
  rng = np.random.default_rng(0)
  left, right = (scorer.vector_shapes[slot] for slot in scorer.slots)
  query = rng.normal(size=(1, *left)).astype(np.float32)
  request = {
    'left_part': scorer.parts(query, 'left'),
    'right': rng.normal(size=(config.candidates, *right)).astype(np.float32),
  }
  values, scale = narrowed(request['right'], 'int8')
  stored = {**request, 'right': values, 'right_scale': scale}
  head = Contender('head', lambda: scorer._head.run('one_to_many', request), config.candidates)

  def alone() -> float:
    return benchmark.rates([head])[0]['pairs_per_second']

  found = {}
  args = ['--port=0', '--rest_api_port=0', f'--models=head={export}/head']
  with server('common.local_server', r'gRPC on (\S+),', *args) as (_, address):
    payloads: dict[str, Any] = {'one_to_many': request, ONE_TO_MANY_INT8: stored}
    for name, (signature, arrays) in zip(('load', 'load_int8'), payloads.items(), strict=True):
      path = os.path.join(folder, f'{signature}.npz')
      np.savez(path, **arrays)
      load = LoadConfig(address[1], 'head', signature, path, requests=1)
      load_test.run(load, load_test.payloads(load))  # warms up
      load = dataclasses.replace(load, requests=config.requests, concurrency=config.concurrency)
      before, sent = alone(), load_test.run(load, load_test.payloads(load))
      rate = (before + alone()) / 2
      ratio = sent['rows_per_second'] / rate
      found[name] = {**sent, 'head_pairs_per_second': rate, 'ratio': ratio}
  return found


@contextlib.contextmanager
def server(
  module: str, pattern: str, *args: str, python: str = ''
) -> Iterator[tuple[subprocess.Popen[str], re.Match[str]]]:
  """A server's process, and the pattern as its first line has it, which names the address.

  With `python` it runs what is installed in that environment.
  """
  environment = {**os.environ, 'PYTHONPATH': committed.ROOT, 'TF_CPP_MIN_LOG_LEVEL': '3'}
  if python:
    del environment['PYTHONPATH']
  command = [python or sys.executable, '-m', module, *args]
  process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
  assert process.stdout
  try:
    line = process.stdout.readline()
    found = re.search(pattern, line)
    if not found:
      raise RuntimeError(f'{module} has not started: {line}')
    yield process, found
  finally:
    process.terminate()
    process.wait()


if __name__ == '__main__':
  flags.command(main, ServingConfig)
