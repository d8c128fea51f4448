"""Milliseconds to rerank, through the server and in the process, beside cross-encoders.

  python -m benchmarks.latency --input=data/homedepot/train.tsv --python=PEERS/bin/python \\
    --output=benchmarks/results/latency.json

One client ranks 100, 300 and 1,000 of a table's texts for a query, texts that are new to the server
and texts that it has seen. A time is from sending the request to the last byte of the answer; the
client's own JSON is not in it. In the process, the head alone ranks the same texts' int8 vectors,
the query encoded within it; the encoder alone encodes new texts. Encoders have MiniLM-L6's shape
and words, all weights are random, all runtimes LiteRT int8.

Beside them, on the same texts and cores: sentence-transformers' CrossEncoder of MiniLM-L6's size
(benchmarks/peers/README.md says how their environment is made). Then of each head 16 clients at a
time, and of the first one the server's start, and its memory with 100,000 documents in its cache.
"""

import contextlib
import dataclasses
import http.client
import itertools
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks import committed, random_exports, tables
from benchmarks.peers.process import Peers, check
from benchmarks.servers import server
from common import flags
from common.data.tables import rows
from common.errors import InputError
from common.modeling import checkpoints
from common.vectors.values import Stored, narrowed
from dipair.scorer import Scorer

_HEADS: dict[str, dict[str, Any]] = {
  'transformer': {'output_tokens': (4, 12), 'projection_dim': 128},
  'LITE': {'output_tokens': (4, 8), 'projection_dim': 256, 'head': 'lite'},
  'MaxSim': {'output_tokens': (4, 8), 'projection_dim': 256, 'head': 'max_sim'},
}
_COUNTS = (100, 300, 1000)
_TOP = 10  # results of a request
_LENGTHS, _PAIR_LENGTH = (16, 48), 64  # tokens
_INT8 = 'litert-int8'
_STARTS = 5


@dataclasses.dataclass(frozen=True)
class LatencyConfig:
  """Texts, and the numbers of requests."""

  input: str = flags.option('', "table of the candidates' texts and of queries")
  text_column: str = flags.option('product_title', "column of the candidates' texts")
  query_column: str = flags.option('search_term', 'column of the queries')
  python: str = flags.option('', "the python of the peers' environment; empty: ours alone")
  requests: int = flags.option(200, 'requests of seen texts, by count', bounds=(1, 10**6))
  new_requests: int = flags.option(
    12, 'requests of new texts, and of a cross-encoder, by count', bounds=(1, 10**6)
  )
  clients: int = flags.option(16, 'clients at a time', bounds=(1, 1000))
  cached: int = flags.option(
    100_000, 'documents in the cache where memory is measured', bounds=(1000, 10**8)
  )
  output: str = flags.option('', 'JSON file of the figures')


def main(config: LatencyConfig) -> None:
  """Measures, prints, writes."""
  texts, queries = _texts(config)
  times = Times()
  servers: dict[str, dict[str, float]] = {}
  with tempfile.TemporaryDirectory() as folder, _peers(config, texts, queries, folder) as peers:
    exports = {
      name: random_exports.dipair(
        os.path.join(folder, name), pretrained='minilm', max_lengths=_LENGTHS, **shape
      )
      for name, shape in tqdm(_HEADS.items(), desc='exports')
    }
    for number, (name, export) in enumerate(exports.items()):
      _theirs(peers, times, len(range(number, config.new_requests, len(exports))))
      servers[name] = _ours(name, export, texts, itertools.cycle(queries), config, times)
    first, *_ = exports
    servers[first] |= _start_and_memory(exports[first], texts, queries, config, folder)
    versions = peers.versions if peers else {}
  made = {'rows': times.rows(), 'servers': servers, 'cached': config.cached}
  made |= {'clients': config.clients, 'versions': versions}
  for table in tables.latency(made):
    print(f'{table}\n')
  if config.output:
    committed.write(config.output, 'benchmarks.latency', config, runtime=_INT8, **made)


class Times:
  """Seconds of requests, by what was measured."""

  def __init__(self):
    self._seconds: dict[tuple[str, str, int], list[float]] = {}

  def add(self, name: str, where: str, count: int, seconds: float) -> None:
    """Adds a request of `count` candidates."""
    self._seconds.setdefault((name, where, count), []).append(seconds)

  def rows(self) -> list[dict[str, Any]]:
    """Milliseconds: p50 and p99 by name, place and count."""
    return [
      {
        **{'name': name, 'where': where, 'candidates': count, 'requests': len(seconds)},
        **{f'p{of}': 1e3 * float(np.percentile(seconds, of)) for of in (50, 99)},
      }
      for (name, where, count), seconds in self._seconds.items()
    ]


class Client:
  """A connection to the server that is kept open."""

  def __init__(self, address: str):
    self._connection = http.client.HTTPConnection(address, timeout=600)

  def rerank(self, query: str, documents: list[str], encoded: int | None = None) -> float:
    """Sends a request; returns its seconds. `encoded` is how many texts the server must encode."""
    body = json.dumps({'query': query, 'documents': documents, 'top_n': _TOP})
    headers = {'Content-Type': 'application/json'}
    started = time.perf_counter()
    self._connection.request('POST', '/v1/rerank', body.encode(), headers)
    answer = self._connection.getresponse().read()
    seconds = time.perf_counter() - started
    found = json.loads(answer)
    if 'results' not in found or encoded not in (None, found['usage']['encoded_documents']):
      raise InputError(f'the server answers {found}, with {encoded} texts to be encoded')
    return seconds

  def healthy(self) -> None:
    """Waits until the server says that it is."""
    while True:
      try:
        self._connection.request('GET', '/healthz')
        if self._connection.getresponse().read():
          return
      except OSError:
        self._connection.close()
        time.sleep(0.002)


def _ours(
  name: str,
  export: str,
  texts: list[str],
  queries: Iterator[str],
  config: LatencyConfig,
  times: Times,
) -> dict[str, float]:
  """Times of a head; returns what many clients do to them."""
  scorer = Scorer.load(export, _INT8, encoder_runtime=_INT8)
  scorer.rank('a', scorer.encode(['a'], 'right'))
  new = iter(texts)
  with _served(export) as (_, client, address):
    for count in _COUNTS:
      seen: list[tuple[list[str], Stored]] = []
      for _ in tqdm(range(config.new_requests), desc=f'{name}, {count} new', leave=False):
        query, given = next(queries), list(itertools.islice(new, count))
        times.add(name, 'new, server', count, client.rerank(query, given, encoded=count))
        encode, vectors = _timed(scorer.encode, given, 'right')
        rank, _ = _timed(scorer.rank, query, vectors, _TOP)
        times.add(name, 'new, in the process', count, encode + rank)
        times.add(name, 'new, encoder alone', count, encode)
        seen.append((given, Stored(*narrowed(vectors, 'int8'))))
      for number in tqdm(range(config.requests), desc=f'{name}, {count} seen', leave=False):
        query, (given, stored) = next(queries), seen[number % len(seen)]
        times.add(name, 'seen, server', count, client.rerank(query, given, encoded=0))
        rank, _ = _timed(scorer.rank, query, stored, _TOP)
        times.add(name, 'seen, head alone', count, rank)
    return _many(address, [given for given, _ in seen], queries, config)


def _many(
  address: str, seen: list[list[str]], queries: Iterator[str], config: LatencyConfig
) -> dict[str, float]:
  """Requests of seen texts by one client, by many, and by one again."""

  def rate(clients: int) -> tuple[float, list[float]]:
    requests = max(1, config.requests // clients)
    asked = [
      [(next(queries), seen[n % len(seen)]) for n in range(requests)] for _ in range(clients)
    ]

    def send(own: list[tuple[str, list[str]]]) -> list[float]:
      client = Client(address)
      return [client.rerank(*request, encoded=0) for request in own]

    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
      found = list(itertools.chain(*pool.map(send, asked)))
    return len(found) / (time.perf_counter() - started), found

  before, (many, seconds), after = rate(1)[0], rate(config.clients), rate(1)[0]
  return {
    'one': (before + after) / 2,
    'many': many,
    'longest_to_mean': max(seconds) / statistics.fmean(seconds),
  }


def _start_and_memory(
  export: str, texts: list[str], queries: list[str], config: LatencyConfig, folder: str
) -> dict[str, float]:
  """Seconds of the server's start, and its bytes with that many documents in `--cache_dir`."""
  starts = []
  for _ in range(_STARTS):
    started = time.perf_counter()
    with _served(export):
      starts.append(time.perf_counter() - started)
  size = max(_COUNTS)
  named = (f'{text} {number}' for number in itertools.count() for text in texts)
  blocks = [list(itertools.islice(named, size)) for _ in range(config.cached // size)]
  cache = f'--cache_dir={os.path.join(folder, "cache")}'
  with _served(export, cache) as (_, client, _):
    for block in tqdm(blocks, desc='cached', unit=' requests'):
      client.rerank(queries[0], block, encoded=size)
  with _served(export, cache) as (process, client, _):
    for block, query in zip(blocks, itertools.cycle(queries), strict=False):
      client.rerank(query, block, encoded=0)
    with open(f'/proc/{process.pid}/status', encoding='utf-8') as file:
      status = dict(line.split(':', 1) for line in file)
  rss, private = (1024 * int(status[key].split()[0]) for key in ('VmRSS', 'RssAnon'))
  return {'start': statistics.median(starts), 'rss': rss, 'rss_private': private}


@contextlib.contextmanager
def _served(export: str, *args: str) -> Iterator[tuple[subprocess.Popen[str], Client, str]]:
  """A server of an export that answers: its process, a connection, and its address."""
  args = ('--port=0', f'--export={export}', *args)
  with server('common.rerank_server', r'http://(\S+)', *args) as (process, found):
    client = Client(found[1])
    client.healthy()
    yield process, client, found[1]


def _peers(
  config: LatencyConfig, texts: list[str], queries: list[str], folder: str
) -> contextlib.AbstractContextManager[Peers | None]:
  """The cross-encoders' process, where there is an environment for it."""
  if not config.python:
    return contextlib.nullcontext()
  check(config.python)
  given = {
    'weights': checkpoints.read(checkpoints.MINILM).path,
    'threads': len(os.sched_getaffinity(0)),
    'batch_sizes': (16, 32, 64, 128),
    'top_k': _TOP,
    'pair_length': _PAIR_LENGTH,
    'texts': texts[: max(_COUNTS)],
    'queries': queries[:1000],
    'reranked': _COUNTS,
    'train': None,
  }
  return Peers(config.python, given, folder)


def _theirs(peers: Peers | None, times: Times, requests: int) -> None:
  """Times of the cross-encoders, in turns."""
  described = peers.described if peers else []
  for _ in tqdm(range(requests), desc='cross-encoders', leave=False):
    for number, row in enumerate(described):
      assert peers
      seconds, _ = _timed(peers.contender(number).call)
      times.add(row['name'], 'new', row['rows'], seconds)


def _texts(config: LatencyConfig) -> tuple[list[str], list[str]]:
  """Distinct texts of the table: candidates, enough of them to be new each time, and queries."""
  columns = (config.text_column, config.query_column)
  given = [row for _, row in rows(config.input, columns=columns)]
  texts, queries = (list(dict.fromkeys(row[column] for row in given)) for column in columns)
  needed = config.new_requests * sum(_COUNTS)
  if len(texts) < needed:
    raise InputError(
      f'--input={config.input}: {len(texts):,} distinct texts; --new_requests='
      f'{config.new_requests} needs {needed:,}'
    )
  return texts, queries


def _timed(call: Callable[..., Any], *args: Any) -> tuple[float, Any]:
  """Seconds of a call, and what it returns."""
  started = time.perf_counter()
  found = call(*args)
  return time.perf_counter() - started, found


if __name__ == '__main__':
  flags.command(main, LatencyConfig)
