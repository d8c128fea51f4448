"""Good and bad clients at once against a rerank server, which is then killed: is anything lost?

python -m tests.robustness.storm --export=medquad --output=benchmarks/results/storm.json

Of ten requests five are good, and one each is malformed, too large, slow (a body in two parts), of
a client that goes before it has sent all, and of one that goes before its answer. A good one must
get an answer, in which a pair has the score that it has in every other. At the end `kill -9` meets
the server among good requests; a new one must have every document that an answer has counted.
"""

import contextlib
import dataclasses
import json
import os
import random
import socket
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.request import Request, urlopen

import psutil
from tqdm import tqdm

from benchmarks import committed
from benchmarks.servers import server
from common import flags
from common.rerank_server.bounds import MOST_BYTES
from common.rerank_server.schema import MOST_DOCUMENTS

KINDS = {
  **{'good': 5, 'malformed': 1, 'large': 1, 'slow': 1, 'goes while it sends': 1},
  'goes before its answer': 1,
}
EXPECTED = {'good': 200, 'slow': 200, 'malformed': 422, 'large': 413}  # statuses
_PAUSE = 0.2  # seconds between the parts of a slow body
_MALFORMED = (b'{"query": ', b'[]', b'{"query": 3, "documents": ["a"]}', b'\xff\xfe', b'')
_CLIENTS = 16
_ADDRESS = r'http://\S+:(\d+)'  # of the server's first line


@dataclasses.dataclass(frozen=True)
class StormConfig:
  """The export, and how many requests."""

  export: str = flags.option('medquad', "a run's export")
  requests: int = flags.option(10_000, 'requests', bounds=(10, 10**7))
  output: str = flags.option('', 'JSON file of the figures')


class Clients:
  """Requests over documents of a few words, each by its number; what comes back is looked at.

  Args:
    port: The server's.

  Attributes:
    statuses: How often each, by kind; the name of an error where there was no answer.
    counted: Documents of answers.
    faults: Good requests without their answer, and bad ones without their refusal.
  """

  def __init__(self, port: str):
    self._port = port
    self._lock = threading.Lock()
    self._scores: dict[tuple[str, str], float] = {}
    self.statuses: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    self.counted: set[str] = set()
    self.faults: list[str] = []

  def ask(self, number: int, kind: str = '') -> None:
    """Sends a request; its number says its kind, if none is named, and its documents."""
    rng = random.Random(number)
    kind = kind or rng.choices(list(KINDS), list(KINDS.values()))[0]
    query = f'query {number % 7}'
    documents = [f'document {rng.randrange(20_000)}' for _ in range(rng.randrange(1, 60))]
    body = json.dumps({'query': query, 'documents': documents}).encode()
    body = rng.choice(_MALFORMED) if kind == 'malformed' else body
    body = b' ' * (MOST_BYTES + 1) if kind == 'large' else body
    try:
      status, answer = self._sent(kind, body)
    except OSError as error:
      status, answer = type(error).__name__, {}
    with self._lock:
      self.statuses[kind][str(status)] += 1
      if kind in EXPECTED and status != EXPECTED[kind]:
        self.faults.append(f'{number}, {kind}: {status} {answer}')
      elif kind in ('good', 'slow'):
        self._look(number, query, documents, answer['results'])

  def _look(self, number: int, query: str, documents: list[str], results: list[Any]) -> None:
    """Compares scores with those that the same pairs had before."""
    self.counted.update(documents)
    if sorted(one['index'] for one in results) != list(range(len(documents))):
      self.faults.append(f'{number}: not all documents are in the answer')
    for one in results:
      pair, score = (query, documents[one['index']]), one['relevance_score']
      if abs(self._scores.setdefault(pair, score) - score) > 1e-5:
        self.faults.append(f'{number}: {pair} had {self._scores[pair]} before, and has {score}')

  def _sent(self, kind: str, body: bytes) -> tuple[Any, dict[str, Any]]:
    """Status and JSON of an answer; nothing of one that is not waited for."""
    head = (
      'POST /v1/rerank HTTP/1.1\r\nHost: storm\r\nContent-Type: application/json\r\n'
      f'Content-Length: {len(body)}\r\nConnection: close\r\n\r\n'
    ).encode()
    half = len(body) // 2
    with socket.create_connection(('127.0.0.1', self._port), timeout=600) as client:
      client.sendall(head + body[:half])
      time.sleep(_PAUSE if kind == 'slow' else 0)
      if kind != 'goes while it sends':
        client.sendall(body[half:])
      if kind.startswith('goes'):
        return 'gone', {}
      with client.makefile('rb') as file:
        told, _, content = file.read().partition(b'\r\n\r\n')
    if not told:
      raise ConnectionError
    return int(told.split()[1]), json.loads(content)


def storm(export: str, requests: int, folder: str, progress: bool = False) -> dict[str, Any]:
  """Sends requests, kills the server, and starts another one with the same cache.

  Returns:
    Statuses by kind; the server's megabytes after a tenth, and the most after it; documents that
    the killed server had counted; and `faults`, of which there should be none.
  """
  options = ['--port=0', f'--export={export}', f'--cache_dir={folder}', '--cache_mb=1']
  with server('common.rerank_server', _ADDRESS, *options) as (process, address):
    clients, last, megabytes = Clients(address[1]), Clients(address[1]), []
    memory = psutil.Process(process.pid).memory_info
    with ThreadPoolExecutor(_CLIENTS) as pool:
      asked = pool.map(clients.ask, range(requests))
      for _ in tqdm(asked, 'requests', requests, disable=not progress):
        megabytes.append(memory().rss / 2**20)
      for number in range(requests, requests + 4 * _CLIENTS):
        pool.submit(last.ask, number, 'good')
      while sum(last.statuses['good'].values()) < _CLIENTS:
        time.sleep(0.001)
      process.kill()
  counted = sorted(clients.counted | last.counted)
  faults = clients.faults + [fault for fault in last.faults if 'Error' not in fault]
  for name in os.listdir(folder):
    if name.endswith('.sqlite'):
      with contextlib.closing(sqlite3.connect(os.path.join(folder, name))) as file:
        faults += [row[0] for row in file.execute('PRAGMA integrity_check') if row[0] != 'ok']
  with server('common.rerank_server', _ADDRESS, *options) as (_, address):
    url = f'http://127.0.0.1:{address[1]}/v1/rerank'
    for start in range(0, len(counted), MOST_DOCUMENTS):
      body = {'query': 'query', 'documents': counted[start : start + MOST_DOCUMENTS], 'top_n': 1}
      request = Request(url, json.dumps(body).encode(), {'Content-Type': 'application/json'})
      with urlopen(request, timeout=600) as answer:
        lost = json.load(answer)['usage']['encoded_documents']
      faults += [f'{lost} documents were lost'] if lost else []
  tenth = len(megabytes) // 10
  return {
    'statuses': clients.statuses,
    'megabytes': [round(megabytes[tenth]), round(max(megabytes[tenth:]))],
    'counted': len(counted),
    'faults': faults,
  }


def main(config: StormConfig) -> None:
  """Storms, prints, writes."""
  with tempfile.TemporaryDirectory() as folder:
    found = storm(config.export, config.requests, folder, progress=True)
  for kind, statuses in found['statuses'].items():
    print(f'{kind}: {dict(statuses)}')
  first, most = found['megabytes']
  print(f'the server had {first} MB after a tenth of them, {most} MB at the most later')
  print(f'{found["counted"]:,} documents counted before the kill; {len(found["faults"])} faults')
  print(*found['faults'][:20], sep='\n')
  if config.output:
    committed.write(config.output, 'tests.robustness.storm', config, **found)


if __name__ == '__main__':
  flags.command(main, StormConfig)
