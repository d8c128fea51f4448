"""Load on a server of TF Serving's gRPC API: requests from files, so many at a time.

  python -m common.serving.load_test --target=localhost:8500 --model=p2t_head \\
    --payload='requests/*.npz' --concurrency=32 --requests=1000

A payload is one request: a `.npz` with an array an input. Requests are serialized
beforehand and sent in turn; each sender sends its next one when the last is answered.
"""

import collections
import dataclasses
import glob
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
from tqdm import tqdm

from common import flags
from common.errors import InputError, damaged
from common.files import write_json
from common.serving.client import UNLIMITED, request_of

_LATENCIES = ('p50', 'p95', 'p99')
_PREDICT = '/tensorflow.serving.PredictionService/Predict'


@dataclasses.dataclass(frozen=True)
class LoadConfig:
  """Requests to send, their server, and the load."""

  target: str = flags.option('localhost:8500', 'host:port of gRPC')
  model: str = flags.option('', 'name of the model')
  signature: str = flags.option('serving_default', 'signature of the model')
  payload: str = flags.option('', '.npz files of requests (patterns too)')
  concurrency: int = flags.option(32, 'requests at a time', bounds=(1, 1000))
  requests: int = flags.option(1000, 'requests in all', bounds=(1, 10**6))
  deadline: float = flags.option(60.0, 'seconds of a request', bounds=(0.001, 10**6))
  output: str = flags.option('', 'JSON file of the figures')


@dataclasses.dataclass(frozen=True)
class Payload:
  """A request as it is sent, and the rows of its longest input."""

  data: bytes
  rows: int


def main(config: LoadConfig) -> None:
  """Sends, prints, writes; a run with errors ends in one line that says so."""
  if not config.model or not config.payload:
    raise InputError('--model and --payload are needed')
  found = run(config, payloads(config))
  print(
    f'{found["requests"]:,} requests in {found["seconds"]:.1f} s: '
    f'{found["requests_per_second"]:,.1f} requests/s, {found["rows_per_second"]:,.0f} rows/s; '
    + ', '.join(f'{name} {found[name] * 1e3:,.1f} ms' for name in _LATENCIES if found['requests'])
  )
  if config.output:
    write_json(config.output, found)
  if found['errors']:
    errors = ', '.join(f'{count:,} {code}' for code, count in found['errors'].items())
    raise InputError(f'{config.target}: {errors}; the first: {found["first_error"]}')


def payloads(config: LoadConfig) -> list[Payload]:
  """The requests of the files, in order."""
  paths = sorted(glob.glob(config.payload))
  if not paths:
    raise InputError(f'--payload={config.payload}: no such file')
  found = []
  for path in paths:
    with damaged(path, 'a .npz file is needed'), np.load(path) as arrays:
      inputs = dict(arrays)
    if not inputs:
      raise InputError(f'{path}: a request without inputs')
    for name, array in inputs.items():  # NumPy's own floats are wider than a signature's
      inputs[name] = array.astype(np.float32) if array.dtype == np.float64 else array
    request = request_of(config.model, config.signature, inputs)
    rows = max(len(array) if array.ndim else 1 for array in inputs.values())
    found.append(Payload(request.SerializeToString(), rows))
  return found


def run(config: LoadConfig, requests: list[Payload]) -> dict[str, Any]:
  """Sends the payloads in turn.

  Returns:
    Requests answered, 'seconds', 'requests_per_second', 'rows_per_second', latencies 'p50', 'p95',
    'p99' in seconds, 'errors' by gRPC status, 'first_error'.
  """
  errors: list[grpc.RpcError] = []

  def send(number: int) -> tuple[float, int] | None:
    """Seconds and rows of a request that is answered."""
    payload, begun = requests[number % len(requests)], time.monotonic()
    try:
      call(payload.data, timeout=config.deadline)
    except grpc.RpcError as error:
      errors.append(error)
      return None
    return time.monotonic() - begun, payload.rows

  started = time.monotonic()
  with (
    grpc.insecure_channel(config.target, UNLIMITED) as channel,
    ThreadPoolExecutor(config.concurrency) as pool,
  ):
    call = channel.unary_unary(_PREDICT)
    sent = tqdm(pool.map(send, range(config.requests)), total=config.requests, unit=' requests')
    answered = [one for one in sent if one]
  seconds = time.monotonic() - started
  latencies = [latency for latency, _ in answered]
  shown = np.percentile(latencies, [50, 95, 99]).tolist() if latencies else [None] * 3
  return {
    'requests': len(answered),
    'concurrency': config.concurrency,
    'seconds': seconds,
    'requests_per_second': len(answered) / seconds,
    'rows_per_second': sum(rows for _, rows in answered) / seconds,
    **dict(zip(_LATENCIES, shown, strict=True)),
    'errors': dict(collections.Counter(error.code().name for error in errors)),
    'first_error': errors[0].details() if errors else '',
  }


if __name__ == '__main__':
  flags.command(main, LoadConfig)
