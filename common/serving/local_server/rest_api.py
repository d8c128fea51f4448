"""TF Serving's REST API: `:predict`, status, metadata; and metrics, health, whatever pages are added.

Rows (`instances`) or columns (`inputs`), texts as they are or `{"b64": …}` for bytes. Errors are
`{"error": …}` with the status of what was wrong.
"""

import contextlib
import json
import re
import socket
import time
import traceback
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from google.protobuf import json_format

from common.serving.local_server import grpc_api, json_tensors
from common.serving.local_server.errors import ServingError, invalid, not_found
from common.serving.local_server.predict import Predictor

_MODEL = re.compile(r'/v1/models/([^/:]+)(?:/versions/(\d+))?(/metadata|:\w+)?')
_STATUS = {
  grpc.StatusCode.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
  grpc.StatusCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
  grpc.StatusCode.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
  grpc.StatusCode.DEADLINE_EXCEEDED: HTTPStatus.GATEWAY_TIMEOUT,
}
_IDLE = 60  # seconds that a connection may be silent
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"
Page = Callable[[bytes], tuple[str, bytes]]  # a request's body to (content type, answer)


class RestFront:
  """The REST port.

  Args:
    predictor: Answers.
    address: (host, port); port 0: any that is free.
    max_bytes: Most bytes of a request.
    pages: More to be served: by (method, path).
  """

  def __init__(
    self,
    predictor: Predictor,
    address: tuple[str, int],
    max_bytes: int,
    pages: Mapping[tuple[str, str], Page],
  ):
    self._server = _Server(address, _Handler)
    self._server.predictor, self._server.max_bytes = predictor, max_bytes
    own = {
      ('GET', '/healthz'): lambda body: ('text/plain; charset=utf-8', b'ok\n'),
      ('GET', '/monitoring/prometheus/metrics'): lambda body: (
        'text/plain; version=0.0.4; charset=utf-8',
        predictor.metrics.text(),
      ),
    }
    self._server.pages = {**own, **pages}
    self.port = self._server.server_address[1]

  def serve(self) -> None:
    """Answers until `close`."""
    self._server.serve_forever(poll_interval=0.1)

  def close(self) -> None:
    """Accepts nothing more; waits for what was accepted."""
    self._server.shutdown()
    self._server.server_close()


class _Server(ThreadingHTTPServer):
  daemon_threads = False  # so that closing waits for them
  request_queue_size = 128
  predictor: Predictor
  max_bytes: int
  pages: Mapping[tuple[str, str], Page]

  def __init__(self, *args: Any):
    self.closing = False
    self.idle: set[socket.socket] = set()  # connections between two requests
    super().__init__(*args)

  def shutdown(self) -> None:
    self.closing = True
    super().shutdown()
    for connection in list(self.idle):
      with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RD)  # ends the wait for a request


class _Handler(BaseHTTPRequestHandler):
  """A connection."""

  protocol_version = 'HTTP/1.1'
  timeout = _IDLE
  server: _Server

  def setup(self) -> None:
    super().setup()
    self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    self.server.idle.add(self.connection)

  def finish(self) -> None:
    self.server.idle.discard(self.connection)
    super().finish()

  def do_GET(self) -> None:  # noqa: N802
    self._answer('GET')

  def do_POST(self) -> None:  # noqa: N802
    self._answer('POST')

  def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
    """Requests are counted, not logged."""

  def _answer(self, method: str) -> None:
    self.server.idle.discard(self.connection)
    started, model = time.monotonic(), ''
    kind, code = 'application/json', HTTPStatus.OK
    try:
      body = self._body()
      path = self.path.split('?')[0]
      if page := self.server.pages.get((method, path)):
        kind, answer = page(body)
      else:
        found = _MODEL.fullmatch(path)
        if not found:
          raise not_found(f'{method} {path}: no such path; models are at /v1/models/NAME')
        model = found[1]
        version = int(found[2]) if found[2] else None
        answer = self._of_model(method, found[1], version, found[3], body)
    except _HttpError as error:
      code, answer = error.status, _error(str(error))
      self.close_connection = True  # the body was not read
    except ServingError as error:
      code = _STATUS.get(error.code, HTTPStatus.INTERNAL_SERVER_ERROR)
      answer = _error(str(error))
    except Exception:
      traceback.print_exc()
      code, answer = HTTPStatus.INTERNAL_SERVER_ERROR, _error('a fault of the server; see its log')
    self.server.predictor.answered(model, 'rest', str(code.value), started)
    self._send(code, kind if code == HTTPStatus.OK else 'application/json', answer)

  def _of_model(
    self, method: str, name: str, version: int | None, what: str | None, body: bytes
  ) -> bytes:
    predictor = self.server.predictor
    if (method, what) == ('POST', ':predict'):
      return _predict(predictor, name, version, body)
    if method == 'GET' and what in (None, '/metadata'):
      get = grpc_api.metadata if what else grpc_api.status
      message = get(predictor, name, version)
      return json_format.MessageToJson(message, preserving_proto_field_name=True).encode()
    raise _HttpError(
      HTTPStatus.METHOD_NOT_ALLOWED, f'{method} {self.path}: GET a model, or POST :predict'
    )

  def _body(self) -> bytes:
    length = self.headers.get('Content-Length')
    if length is None:
      if self.command == 'POST':
        raise _HttpError(HTTPStatus.LENGTH_REQUIRED, 'Content-Length is needed')
      return b''
    if not length.isdecimal():
      raise _HttpError(HTTPStatus.BAD_REQUEST, f'Content-Length: {length!r} is no number')
    if int(length) > self.server.max_bytes:
      text = f'{int(length):,} bytes; a request has {self.server.max_bytes:,} at the most'
      raise _HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
    try:
      body = self.rfile.read(int(length))
    except OSError as error:
      raise _HttpError(HTTPStatus.REQUEST_TIMEOUT, f'the body did not come: {error}') from error
    if len(body) < int(length):
      raise _HttpError(HTTPStatus.BAD_REQUEST, f'{len(body):,} bytes of {int(length):,} came')
    return body

  def _send(self, code: HTTPStatus, kind: str, answer: bytes) -> None:
    try:
      self.send_response(code)
      self.send_header('Content-Type', kind)
      self.send_header('Content-Length', str(len(answer)))
      self.send_header('X-Content-Type-Options', 'nosniff')
      self.send_header('Content-Security-Policy', _POLICY)
      if self.close_connection or self.server.closing:
        self.send_header('Connection', 'close')
        self.close_connection = True
      self.end_headers()
      self.wfile.write(answer)
      self.server.idle.add(self.connection)
    except OSError:
      self.close_connection = True  # nobody is there any more


class _HttpError(Exception):
  def __init__(self, status: HTTPStatus, message: str):
    super().__init__(message)
    self.status = status


def _predict(predictor: Predictor, name: str, version: int | None, body: bytes) -> bytes:
  found = predictor.models.find(name, version)
  fields = 'either "instances" (rows) or "inputs" (columns)'
  request = json_tensors.parsed(body, fields)
  if len({'instances', 'inputs'} & request.keys()) != 1:
    raise invalid(f'the body is an object with {fields}')
  key = request.get('signature_name', '')
  if not isinstance(key, str):
    raise invalid('signature_name is a text')
  signature = found.signature(key)
  rows = 'instances' in request
  where = f'model {name!r}, signature {signature.name!r}'
  columns = (
    json_tensors.columns(request['instances'], signature, where) if rows else request['inputs']
  )
  if not isinstance(columns, dict):
    columns = {json_tensors.only(signature, where): columns}
  inputs = {
    key: json_tensors.array(value, signature.inputs.get(key), f'{where}: input {key!r}')
    for key, value in columns.items()
  }
  _, _, outputs = predictor.predict(name, version, key, inputs)
  return json.dumps(
    json_tensors.by_row(outputs) if rows else json_tensors.by_column(outputs)
  ).encode()


def _error(message: str) -> bytes:
  return json.dumps({'error': message}).encode()
