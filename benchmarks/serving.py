"""The local server under load, and a query's way through the page, in real processes.

  python -m benchmarks.serving --export=runs/p2t/export --output=benchmarks/results/serving.json

The server runs a head's SavedModel with random weights, which do not change the time. A request has
the query's part and 1,000 vectors of candidates (`one_to_many`), then the same as an int8 store has
them (`one_to_many_int8`). Before and after, the head alone is measured on the same cores. Then a
real run's export stands behind the page's API, in LiteRT int8: a query's way to its best ten of
10,000 stored products, from the request to the answer, and by stage.
"""

import contextlib
import dataclasses
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks import committed, random_exports, tables
from common import flags
from common.data import catalog
from common.evaluation import benchmark
from common.evaluation.benchmark import Contender
from common.scoring.exported import ONE_TO_MANY_INT8
from common.serving import load_test
from common.serving.load_test import LoadConfig
from common.vectors.values import narrowed
from dipair.scorer import Scorer

_RUNTIME = 'litert-int8'


@dataclasses.dataclass(frozen=True)
class ServingConfig:
  """Size of the load."""

  candidates: int = flags.option(1000, 'candidates of a request', bounds=(1, 10**6))
  requests: int = flags.option(1000, 'requests to send', bounds=(1, 10**6))
  concurrency: int = flags.option(32, 'requests at a time', bounds=(1, 1000))
  export: str = flags.option('', "a run's export, for queries; empty: random weights, tiny encoder")
  products: int = flags.option(
    10_000, 'products of the synthetic catalogue, stored, for queries', bounds=(1, 10**9)
  )
  queries: int = flags.option(200, 'queries ranked one by one', bounds=(1, 10**9))
  output: str = flags.option('', 'JSON file of the figures')


def main(config: ServingConfig) -> None:
  """Measures, prints, writes."""
  with tempfile.TemporaryDirectory() as folder:
    export = random_exports.dipair(os.path.join(folder, 'export'))
    found = {
      **_loads(config, export, folder),
      'query': _query(config, config.export or export, folder),
    }
  print(tables.serving(found))
  if config.output:
    committed.write(config.output, 'benchmarks.serving', config, runtime=_RUNTIME, **found)


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


def _query(config: ServingConfig, export: str, folder: str) -> dict[str, Any]:
  """A query's best ten of the stored products: median seconds by stage, and in all."""
  pairs = catalog.splits(7, train=4 * config.products)['train']
  products = list(dict.fromkeys(pair.product for pair in pairs))[: config.products]
  terms = list(dict.fromkeys(pair.term for pair in pairs))[: config.queries]
  path = os.path.join(folder, 'products.jsonl')
  with open(path, 'w', encoding='utf-8') as file:
    file.writelines(json.dumps({'id': str(i), 'text': t}) + '\n' for i, t in enumerate(products))
  args = ['--port=0', f'--export_dir={export}', f'--input={path}']
  args += [f'--store={os.path.join(folder, "vectors")}', f'--runtime={_RUNTIME}']
  times: dict[str, list[float]] = {name: [] for name in ('whole', 'encode', 'rank')}
  with server('common.page', r'http://(\S+)', *args) as (_, address):
    connection = http.client.HTTPConnection(address[1], timeout=60)
    for term in tqdm(terms, unit=' queries'):
      started = time.perf_counter()
      connection.request('POST', '/demo/rank', json.dumps({'query': term}))
      answer = json.loads(connection.getresponse().read())
      times['whole'].append(time.perf_counter() - started)
      for name, milliseconds in answer['ms'].items():
        times[name].append(milliseconds / 1e3)
  p99 = float(np.percentile(times['whole'], 99))
  medians = {name: float(np.median(seconds)) for name, seconds in times.items()}
  return {'products': len(products), 'queries': len(terms), 'p99': p99, **medians}


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
