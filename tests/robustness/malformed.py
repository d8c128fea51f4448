"""The local server among malformed requests: faults, good requests that are lost, and memory.

  python -m tests.robustness.malformed --cases=20000 --output=benchmarks/results/malformed.json

Good requests are changed byte by byte, cut off, and written anew with wrong types, shapes and
numbers; beside them go good requests without a break.
"""

import contextlib
import dataclasses
import json
import os
import re
import socket
import tempfile
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import predict_pb2

from benchmarks import committed, random_exports
from benchmarks.servers import server
from common import flags
from common.serving.client import request_of

_PREDICT = '/tensorflow.serving.PredictionService/Predict'
_FAULTS = ('500', 'INTERNAL', 'UNKNOWN')
_VALUES = ['NaN', '-Infinity', '1e39', '1e999', 'null', 'true', '"a"', '{}', '[]', '9' * 5000]
_VALUES += ['[' * 900, '[' * 90_000, f'"{"x" * 99_999}"', '0,' * 99_999, '[],' * 99_999]
_SIZES = [-1, 0, 1, 2, 3, 1 << 20, 1 << 31, 1 << 62]


@dataclasses.dataclass(frozen=True)
class MalformedConfig:
  """Number of requests."""

  cases: int = flags.option(2000, 'malformed requests to send', bounds=(1, 10**9))
  seed: int = flags.option(0, 'seed of the cases', bounds=(0, 2**31 - 1))
  output: str = flags.option('', 'JSON file of the figures')


@dataclasses.dataclass(frozen=True)
class Served:
  """A server and a good request of one of its models.

  Attributes:
    target: 'host:port' of gRPC.
    rest: 'host:port' of REST.
    process: Number of its process.
    model: Model of the good request.
    signature: Signature of the model.
    inputs: Inputs by name.
  """

  target: str
  rest: str
  process: int
  model: str
  signature: str
  inputs: dict[str, np.ndarray]

  @property
  def message(self) -> bytes:
    """The good request as gRPC has it."""
    return request_of(self.model, self.signature, self.inputs).SerializeToString()

  @property
  def body(self) -> bytes:
    """The good request as JSON, its texts as they are."""
    text = json.dumps({n: v.tolist() for n, v in self.inputs.items()}, default=bytes.decode)
    return f'{{"signature_name": "{self.signature}", "inputs": {text}}}'.encode()

  def memory(self, name: str) -> int:
    """A figure of the process's memory, in kilobytes."""
    with open(f'/proc/{self.process}/status', encoding='utf-8') as file:
      return int(re.findall(rf'{name}:\s+(\d+) kB', file.read())[0])

  def by_grpc(self) -> np.ndarray:
    """Answer to the good request, from gRPC: the last of its outputs by name."""
    with grpc.insecure_channel(self.target) as channel:
      answer = channel.unary_unary(_PREDICT)(self.message, timeout=60)
    outputs = predict_pb2.PredictResponse.FromString(answer).outputs
    last = outputs[max(outputs)]
    return np.frombuffer(last.tensor_content, np.float32) if last.tensor_content else last.float_val

  def by_rest(self) -> np.ndarray:
    """Answer to the good request, from REST."""
    url = f'http://{self.rest}/v1/models/{self.model}:predict'
    with urllib.request.urlopen(url, self.body, timeout=60) as answer:
      outputs = json.load(answer)['outputs']
    return np.ravel(outputs[max(outputs)] if isinstance(outputs, dict) else outputs)


def main(config: MalformedConfig) -> None:
  """Starts a server, sends, prints, writes."""
  with tempfile.TemporaryDirectory() as folder:
    export = random_exports.dipair(os.path.join(folder, 'export'))
    args = ['--port=0', '--rest_api_port=0']
    args += [f'--models=encoder={export}/encoder,head={export}/head']
    pattern = r'gRPC on (\S+),.*REST on http://(\S+)'
    with server('common.local_server', pattern, *args) as (process, addresses):
      texts = {'text': np.array([b'red shoe', b'a blue dog'], object)}
      found = run(Served(*addresses.groups(), process.pid, 'encoder', 'left', texts), config)
  print(json.dumps(found, indent=2))
  if config.output:
    committed.write(config.output, 'tests.robustness.malformed', config, **found)


def run(served: Served, config: MalformedConfig) -> dict:
  """Sends malformed requests beside good ones.

  Returns:
    {'cases', 'answers': {kind: {status: count}}, 'faults': those that are the server's own, 'good':
    requests answered, 'lost': those that were not or wrongly, 'memory_ratio': peak to start}.
  """
  ways = (served.by_grpc, served.by_rest)
  expected = [way() for way in ways for _ in range(20)][-1]
  start, stop = served.memory('VmRSS'), threading.Event()
  good: list[str] = []

  def ask(way: Callable[[], np.ndarray]) -> None:
    while not stop.is_set():
      try:
        np.testing.assert_allclose(way(), expected, rtol=1e-4, atol=1e-5)
        good.append('')
      except Exception as error:
        good.append(f'{way.__name__}: {str(error)[:200]}')

  kinds = {
    'changed messages': _changed_message,
    'declared tensors': _declared,
    'changed bodies': _changed_body,
    'changed HTTP': _raw,
  }
  names = list(kinds)
  threads = [threading.Thread(target=ask, args=(way,)) for way in ways]
  answers: dict[str, Counter[str]] = {name: Counter() for name in names}

  def case(number: int) -> tuple[str, str]:
    rng, name = np.random.default_rng([config.seed, number]), names[number % len(names)]
    return name, kinds[name](served, rng)

  with ThreadPoolExecutor(4) as pool:
    for thread in threads:
      thread.start()
    try:
      for name, answer in pool.map(case, range(config.cases)):
        answers[name][answer] += 1
    finally:
      stop.set()
    for thread in threads:
      thread.join()
  return {
    'cases': config.cases,
    'answers': {kind: dict(sorted(count.items())) for kind, count in answers.items()},
    'faults': sum(count[fault] for count in answers.values() for fault in _FAULTS),
    'good': good.count(''),
    'lost': dict(Counter(filter(None, good))),
    'memory_ratio': served.memory('VmHWM') / start,
  }


def _changed(data: bytes, rng: np.random.Generator) -> bytes:
  """Bytes set at random, taken out or put in, or the rest cut off."""
  at, kind = int(rng.integers(len(data))), rng.integers(4)
  if kind == 0:
    return data[:at]
  more = rng.bytes(int(rng.integers(1, 9)))
  return data[:at] + more + data[at + (0, len(more), 2 * len(more))[kind - 1] :]


def _changed_message(served: Served, rng: np.random.Generator) -> str:
  many = [b'\x12\x00', b'\x1a\x00', b'\x78\x01', rng.bytes(7)]
  if rng.integers(10) == 0:
    return _sent(served, many[rng.integers(4)] * 100_000)
  return _sent(served, _changed(served.message, rng))


def _declared(served: Served, rng: np.random.Generator) -> str:
  """A tensor of any type and shape with a value or two of some type."""
  request = predict_pb2.PredictRequest.FromString(served.message)
  dimensions = [{'size': int(size)} for size in rng.choice(_SIZES, rng.integers(4))]
  values = {
    'float_val': [np.nan],
    'int_val': [7, -7],
    'string_val': [b'x' * 99_999],
    'bool_val': [],
  }
  name = str(rng.choice(list(values)))
  tensor = tensor_pb2.TensorProto(
    dtype=int(rng.integers(26)), tensor_shape={'dim': dimensions}, **{name: values[name]}
  )
  if rng.integers(2):
    tensor.tensor_content = rng.bytes(int(rng.integers(64)))
  request.inputs[str(rng.choice([*served.inputs, 'other']))].CopyFrom(tensor)
  return _sent(served, request.SerializeToString())


def _changed_body(served: Served, rng: np.random.Generator) -> str:
  body = served.body
  if rng.integers(2):
    return _answered(served, _http(served, _changed(body, rng)))
  places = [found.span() for found in re.finditer(rb'"(\w| )+"(?!:)|\d[\d.]*', body)]
  start, end = places[rng.integers(len(places))]
  value = _VALUES[rng.integers(len(_VALUES))].encode()
  return _answered(served, _http(served, body[:start] + value + body[end:]))


def _raw(served: Served, rng: np.random.Generator) -> str:
  return _answered(served, _changed(_http(served, served.body), rng))


def _http(served: Served, body: bytes) -> bytes:
  line = f'POST /v1/models/{served.model}:predict HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n'
  return line.encode() + body


def _sent(served: Served, data: bytes) -> str:
  """The status of a message on gRPC."""
  with grpc.insecure_channel(served.target) as channel:
    try:
      channel.unary_unary(_PREDICT)(data, timeout=60)
    except grpc.RpcError as error:
      return error.code().name
  return 'OK'


def _answered(served: Served, data: bytes) -> str:
  """The status of bytes that are sent to the REST port as they are, and then ended."""
  host, port = served.rest.split(':')
  with socket.create_connection((host, int(port)), 60) as connection:
    with contextlib.suppress(OSError):
      connection.sendall(data)
      connection.shutdown(socket.SHUT_WR)
    answer = b''
    with contextlib.suppress(OSError):
      while more := connection.recv(1 << 16):
        answer += more
  found = re.match(rb'HTTP/1\.[01] (\d+)', answer)
  return found[1].decode() if found else 'closed'


if __name__ == '__main__':
  flags.command(main, MalformedConfig)
