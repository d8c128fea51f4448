"""Load on a server of TF Serving's gRPC API: requests from files, so many at a time.

  python -m common.serving.load_test --target=localhost:8500 --model=p2t_head \\
    --payload='requests/*.npz' --concurrency=32 --requests=1000

A payload is one request: a `.npz` with an array an input, or lines of a `.jsonl`, each the body of
TF Serving's REST API in columns (`{"signature_name": …, "inputs": {…}}`). Requests are serialized
beforehand and sent in turn; each connection sends its next one when the last is answered.
"""

import base64
import collections
import dataclasses
import glob
import json
import threading
import time
from typing import Any

import grpc
import numpy as np
from tqdm import tqdm

from common import flags
from common.errors import InputError
from common.files import write_json
from common.scoring.exported import ONE_TO_MANY_INT8
from common.serving.client import UNLIMITED, request_of

_LATENCIES = ('p50', 'p95', 'p99')
_PREDICT = '/tensorflow.serving.PredictionService/Predict'
_CHANNELS = 4  # connections that the requests share


@dataclasses.dataclass(frozen=True)
class LoadConfig:
  """Requests to send, their server, and the load."""

  target: str = flags.option('localhost:8500', 'host:port of gRPC')
  model: str = flags.option('', 'name of the model')
  signature: str = flags.option(
    'serving_default', 'signature that an .npz is for; a .jsonl names its own'
  )
  payload: str = flags.option('', 'files of requests: .npz or .jsonl (patterns too)')
  concurrency: int = flags.option(32, 'requests at a time', bounds=(1, 10_000))
  requests: int = flags.option(
    1000, 'requests in all; 0: as many as --duration takes', bounds=(0, 10**12)
  )
  duration: float = flags.option(0.0, 'seconds; 0: as long as --requests takes', bounds=(0, 10**6))
  deadline: float = flags.option(60.0, 'seconds of a request', bounds=(0.001, 10**6))
  rows: str = flags.option('', 'input whose rows are counted as pairs; empty: the longest')
  output: str = flags.option('', 'JSON file of the figures')

  def __post_init__(self):
    if self.requests <= 0 and self.duration <= 0:
      raise InputError('--requests or --duration: one of them above 0')


@dataclasses.dataclass(frozen=True)
class Payload:
  """A request as it is sent, and the pairs in it."""

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
  found = [
    _payload(config, path, *request) for path in paths for request in _read(path, config.signature)
  ]
  if not found:
    raise InputError(f'--payload={config.payload}: no request in {", ".join(paths)}')
  return found


def run(config: LoadConfig, requests: list[Payload]) -> dict[str, Any]:
  """Sends the payloads in turn until all requests, or the time, are through.

  Returns:
    Requests answered, 'seconds', 'requests_per_second', 'rows_per_second', latencies 'p50', 'p95',
    'p99' in seconds, 'errors' by gRPC status, 'first_error'.
  """
  options = (*UNLIMITED, ('grpc.use_local_subchannel_pool', 1))
  channels = [grpc.insecure_channel(config.target, options) for _ in range(_CHANNELS)]
  calls = [channel.unary_unary(_PREDICT) for channel in channels]
  lock, numbers = threading.Lock(), iter(range(config.requests or 1 << 60))
  latencies: list[float] = []
  errors: collections.Counter[str] = collections.Counter()
  first, rows = [''], [0]
  started = time.monotonic()
  until = started + config.duration if config.duration else float('inf')
  bar = tqdm(total=config.requests or None, unit=' requests')

  def send(call: Any) -> None:
    while time.monotonic() < until:
      with lock:
        number = next(numbers, None)
      if number is None:
        return
      payload, begun = requests[number % len(requests)], time.monotonic()
      try:
        call(payload.data, timeout=config.deadline)
      except grpc.RpcError as error:
        with lock:
          errors[error.code().name] += 1
          first[0] = first[0] or error.details()
      else:
        with lock:
          latencies.append(time.monotonic() - begun)
          rows[0] += payload.rows
      with lock:
        bar.update()

  threads = [
    threading.Thread(target=send, args=(calls[i % _CHANNELS],)) for i in range(config.concurrency)
  ]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  bar.close()
  seconds = time.monotonic() - started
  for channel in channels:
    channel.close()
  shown = np.percentile(latencies, [50, 95, 99]).tolist() if latencies else [None] * 3
  return {
    'requests': len(latencies),
    'concurrency': config.concurrency,
    'seconds': seconds,
    'requests_per_second': len(latencies) / seconds,
    'rows_per_second': rows[0] / seconds,
    **dict(zip(_LATENCIES, shown, strict=True)),
    'errors': dict(errors),
    'first_error': first[0],
  }


def _read(path: str, signature: str) -> list[tuple[str, dict[str, Any]]]:
  """(signature, inputs) of a file's requests."""
  try:
    if path.endswith('.npz'):
      with np.load(path) as arrays:
        return [(signature, dict(arrays))]
    if path.endswith('.jsonl'):
      with open(path, encoding='utf-8') as file:
        return [_request(json.loads(line), signature) for line in file]
  except Exception as error:  # of damaged bytes, numpy raises nearly anything
    raise InputError(f'{path}: no requests: {error!r}') from error
  raise InputError(f'{path}: .npz or .jsonl')


def _payload(config: LoadConfig, path: str, signature: str, inputs: dict[str, Any]) -> Payload:
  if not inputs:
    raise InputError(f'{path}: a request without inputs')
  arrays = {name: np.asarray(value) for name, value in inputs.items()}
  for name, array in arrays.items():
    arrays[name] = array.astype(np.float32) if array.dtype == np.float64 else array
  rows = {name: len(array) if array.ndim else 1 for name, array in arrays.items()}
  if config.rows and config.rows not in rows:
    raise InputError(f'--rows={config.rows}: a request has {", ".join(rows)}')
  data = request_of(config.model, signature, arrays).SerializeToString()
  return Payload(data, rows[config.rows] if config.rows else max(rows.values()))


def _request(body: dict[str, Any], signature: str) -> tuple[str, dict[str, Any]]:
  """(signature, inputs) of a body of REST's; whole numbers become what the signature takes, which JSON does not tell."""
  signature = body.get('signature_name', signature)
  number = np.int8 if signature == ONE_TO_MANY_INT8 else np.float32
  inputs = {name: _array(_bytes(value)) for name, value in body['inputs'].items()}
  for name, array in inputs.items():
    if array.dtype.kind == 'i':
      inputs[name] = array.astype(np.int32 if name == 'ids' else number)
  return signature, inputs


def _array(value: Any) -> np.ndarray:
  array = np.asarray(value)
  return np.array(value, object) if array.dtype.kind == 'S' else array  # which cuts zeros off


def _bytes(value: Any) -> Any:
  """JSON with texts, and REST's `{'b64': …}`, as bytes."""
  if isinstance(value, list):
    return [_bytes(item) for item in value]
  if isinstance(value, dict):
    return base64.b64decode(value['b64'])
  return value.encode() if isinstance(value, str) else value


if __name__ == '__main__':
  flags.command(main, LoadConfig)
