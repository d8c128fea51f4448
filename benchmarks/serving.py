"""The local server under load: throughput and refusals, in real processes.

  python -m benchmarks.serving --export=runs/p2t/export --output=benchmarks/results/serving.json

The head in LiteRT int8 with random weights (they do not change the time), 1,000 candidates a
request: the query's part and vectors of candidates (`one_to_many`), then the same as an int8 store
has them (`one_to_many_int8`). Before and after, the head alone is measured on the same cores. Then
malformed requests are sent while good ones go on. Last, a real run's export behind the page's API:
a query's way to its best ten of 10,000 stored products, from the request to the answer, and by
stage.
"""

import dataclasses
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import grpc
import numpy as np
import psutil
from tqdm import tqdm

from benchmarks import committed, random_exports
from common import flags
from common.data import catalog
from common.evaluation import benchmark
from common.evaluation.benchmark import Contender
from common.scoring.exported import ONE_TO_MANY_INT8
from common.serving import load_test
from common.serving.client import UNLIMITED, Client, ServingError
from common.serving.load_test import LoadConfig
from common.vectors.values import narrowed
from dipair.scorer import Scorer

_RUNTIME = 'litert-int8'
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_CALLS = 20  # of the head alone, whose processor time is taken
PREDICT = '/tensorflow.serving.PredictionService/Predict'


@dataclasses.dataclass(frozen=True)
class ServingConfig:
  """Size of the load."""

  candidates: int = flags.option(1000, 'candidates of a request', bounds=(1, 10**6))
  requests: int = flags.option(1000, 'requests to send', bounds=(1, 10**9))
  concurrency: int = flags.option(32, 'requests at a time', bounds=(1, 10_000))
  malformed: int = flags.option(200, 'requests that are none', bounds=(0, 10**9))
  export: str = flags.option('', "a run's export, for queries; empty: random weights, tiny encoder")
  products: int = flags.option(
    10_000, 'products of the synthetic catalogue, stored, for queries', bounds=(1, 10**9)
  )
  queries: int = flags.option(200, 'queries ranked one by one', bounds=(1, 10**9))
  output: str = flags.option('', 'JSON file of the figures')


def main(config: ServingConfig) -> None:
  """Measures, prints, writes."""
  with tempfile.TemporaryDirectory() as folder:
    bench = Bench(config, folder)
    try:
      found = {
        'load': bench.load('one_to_many'),
        'load_int8': bench.load(ONE_TO_MANY_INT8),
        'malformed': bench.malformed(),
        'query': bench.query(),
      }
    finally:
      bench.server.terminate()
      bench.server.wait()
  for name, values in found.items():
    print(f'{name}: ' + ', '.join(f'{key} {_shown(value)}' for key, value in values.items()))
  if config.output:
    committed.write(config.output, 'serving', config, runtime=_RUNTIME, **found)


class Bench:
  """An export, a server of its head, and what is sent to it."""

  def __init__(self, config: ServingConfig, folder: str):
    self.config, self.folder = config, folder
    self.export = random_exports.dipair(os.path.join(folder, 'export'))
    self.scorer = Scorer.load(self.export, _RUNTIME)
    rng = np.random.default_rng(0)
    left, right = (self.scorer.vector_shapes[slot] for slot in self.scorer.slots)
    query = rng.normal(size=(1, *left)).astype(np.float32)
    self.request = {
      'left_part': self.scorer.parts(query, 'left'),
      'right': rng.normal(size=(config.candidates, *right)).astype(np.float32),
    }
    values, scale = narrowed(self.request['right'], 'int8')
    stored = {**self.request, 'right': values, 'right_scale': scale}
    payloads: dict[str, Any] = {'one_to_many': self.request, ONE_TO_MANY_INT8: stored}
    for signature, arrays in payloads.items():
      np.savez(os.path.join(folder, f'{signature}.npz'), **arrays)
    args = ['--port=0', '--rest_api_port=0', f'--runtime={_RUNTIME}']
    args.append(f'--models=head={os.path.join(self.export, "head")}')
    self.server, line = start('common.local_server', *args)
    self.target = address(r'gRPC on (\S+),', line)
    self.rest = address(r'REST on http://(\S+)', line)

  def load(self, signature: str) -> dict[str, Any]:
    """The load, and the head alone before and after it.

    Requests are sent on the same cores. So 'head_share' stands beside 'ratio', of pairs a second:
    the head's own part of the processor time that the server has taken.
    """
    server = psutil.Process(self.server.pid)
    self._send(1, signature)
    before, used = self._head(), sum(server.cpu_times()[:2])
    found = self._send(self.config.requests, signature)
    used = (sum(server.cpu_times()[:2]) - used) / found['requests']
    head, started = (before + self._head()) / 2, time.process_time()
    for _ in range(_CALLS):
      self._one_to_many()
    share = (time.process_time() - started) / _CALLS / used
    ratio = found['rows_per_second'] / head
    return {**found, 'head_pairs_per_second': head, 'ratio': ratio, 'head_share': share}

  def malformed(self) -> dict[str, Any]:
    """Requests that are none, while good ones go on: the answers by status."""
    answers: dict[str, int] = {}
    kinds = [self._wrong_shape, self._wrong_type, self._wrong_signature, self._truncated]
    kinds.append(self._too_large)
    good: dict[str, Any] = {}
    thread = threading.Thread(target=lambda: good.update(self._send(self.config.malformed)))
    thread.start()
    for number in range(self.config.malformed):
      kind = kinds[number % len(kinds)]
      answer = f'{kind.__name__.strip("_").replace("_", " ")}: {kind()}'
      answers[answer] = answers.get(answer, 0) + 1
    thread.join()
    return {**answers, 'good requests': good['requests'], 'good lost': sum(good['errors'].values())}

  def query(self) -> dict[str, Any]:
    """A query's best ten of the stored products: median seconds by stage, and in all."""
    config = self.config
    pairs = catalog.splits(7, train=4 * config.products)['train']
    products = list(dict.fromkeys(pair.product for pair in pairs))[: config.products]
    terms = list(dict.fromkeys(pair.term for pair in pairs))[: config.queries]
    path = os.path.join(self.folder, 'products.jsonl')
    with open(path, 'w', encoding='utf-8') as file:
      file.writelines(json.dumps({'id': str(i), 'text': t}) + '\n' for i, t in enumerate(products))
    args = ['--port=0', f'--export_dir={config.export or self.export}', f'--input={path}']
    args += [f'--store={os.path.join(self.folder, "vectors")}', f'--runtime={_RUNTIME}']
    server, line = start('common.page', *args)
    page = address(r'http://(\S+)', line)
    times: dict[str, list[float]] = {name: [] for name in ('whole', 'encode', 'head', 'sort')}
    try:
      connection = http.client.HTTPConnection(page, timeout=60)
      for term in tqdm(terms, unit=' queries'):
        started = time.perf_counter()
        connection.request('POST', '/demo/rank', json.dumps({'query': term}))
        answer = json.loads(connection.getresponse().read())
        times['whole'].append(time.perf_counter() - started)
        for name, milliseconds in answer['ms'].items():
          times[name].append(milliseconds / 1e3)
    finally:
      server.terminate()
      server.wait()
    p99 = float(np.percentile(times['whole'], 99))
    medians = {name: float(np.median(seconds)) for name, seconds in times.items()}
    return {'products': len(products), 'queries': len(terms), 'p99': p99, **medians}

  def _head(self) -> float:
    head = Contender('head', self._one_to_many, self.config.candidates)
    return benchmark.rates([head])[0]['pairs_per_second']

  def _one_to_many(self) -> np.ndarray:
    return self.scorer._head.run('one_to_many', self.request)

  def _config(self, requests: int, signature: str = 'one_to_many') -> LoadConfig:
    payload = os.path.join(self.folder, f'{signature}.npz')
    return LoadConfig(
      self.target,
      'head',
      signature,
      payload,
      concurrency=self.config.concurrency,
      requests=requests,
    )

  def _send(self, requests: int, signature: str = 'one_to_many') -> dict[str, Any]:
    load = self._config(requests, signature)
    return load_test.run(load, load_test.payloads(load))

  def _refused(self, signature: str, inputs: dict[str, np.ndarray]) -> str:
    try:
      Client(self.target, '', deadline=60).call('head', signature, inputs)
    except ServingError as error:
      return error.code.name
    return 'OK'

  def _wrong_shape(self) -> str:
    return self._refused('one_to_many', {**self.request, 'right': self.request['right'][:, :1]})

  def _wrong_type(self) -> str:
    return self._refused('one_to_many', {**self.request, 'right': np.zeros([2, 2], np.int32)})

  def _wrong_signature(self) -> str:
    return self._refused('none', {'x': np.zeros([1], np.float32)})

  def _truncated(self) -> str:
    data = load_test.payloads(self._config(1))[0].data[:-100]
    with grpc.insecure_channel(self.target, UNLIMITED) as channel:
      try:
        channel.unary_unary(PREDICT)(data, timeout=60)
      except grpc.RpcError as error:
        return error.code().name
    return 'OK'

  def _too_large(self) -> str:
    connection = http.client.HTTPConnection(self.rest, timeout=60)
    connection.putrequest('POST', '/v1/models/head:predict')
    connection.putheader('Content-Length', str(100 << 20))
    connection.endheaders()
    return str(connection.getresponse().status)


def start(module: str, *args: str) -> tuple[subprocess.Popen, str]:
  """A server's process, and the first line that it prints: where it is."""
  command = [sys.executable, '-m', module, *args]
  environment = {**os.environ, 'PYTHONPATH': _ROOT, 'TF_CPP_MIN_LOG_LEVEL': '3'}
  server = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
  assert server.stdout
  return server, server.stdout.readline()


def address(pattern: str, line: str) -> str:
  found = re.search(pattern, line)
  if not found:
    raise RuntimeError(f'the server has not started: {line}')
  return found[1]


def _shown(value: Any) -> str:
  return f'{value:,.4g}' if isinstance(value, float) else str(value)


if __name__ == '__main__':
  flags.command(main, ServingConfig)
