"""The HTTP port of a server: bounded bodies, kept connections, errors as JSON, a close that loses nothing.

What is answered is not known here: a function of (method, path, body) is given.
"""

import contextlib
import json
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc

from common.local_server.errors import ServingError
from common.local_server.places import Places

_STATUS = {
  grpc.StatusCode.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
  grpc.StatusCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
  grpc.StatusCode.UNIMPLEMENTED: HTTPStatus.METHOD_NOT_ALLOWED,
  grpc.StatusCode.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
  grpc.StatusCode.DEADLINE_EXCEEDED: HTTPStatus.GATEWAY_TIMEOUT,
}
_CONNECTIONS = 256  # at a time
_IDLE = 60  # seconds from an answer to the next request's headers; for its body; for its answer
_SAFE = 5.0  # seconds in which a body may come before another request is given its room
_WAIT = 10.0  # seconds that a request waits for room
_SMALL = 1 << 18  # bytes of a body that has room in any case
_BODIES = 2  # largest bodies for which there is room
_FULL = (
  b'HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n'
  b'{"error": "all connections are taken; send it again later"}'
)
_LINGER = 2.0  # seconds for which the rest of a refused request is read, so that its answer arrives
_LONGEST = 300  # characters of an error about what was sent
_POLICY = (
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"
)

Answer = tuple[str, bytes]  # content type, body


class HttpFront:
  """An HTTP port that is served by threads of its own.

  Args:
    address: (host, port); port 0: any that is free.
    max_bytes: Most bytes of a request's body.
    answer: Answers (method, path, body), or raises ServingError; called by many threads.
    answered: Told the path, the status and the start (`time.monotonic`) of each answer.

  Raises:
    OSError: If the address cannot be listened to.
  """

  def __init__(
    self,
    address: tuple[str, int],
    max_bytes: int,
    answer: Callable[[str, str, bytes], Answer],
    answered: Callable[[str, HTTPStatus, float], None] = lambda path, code, started: None,
  ):
    self._server = _Server(address, _Handler)
    self._server.max_bytes = max_bytes
    self._server.places = Places(_CONNECTIONS, _BODIES * max_bytes)
    self._server.answer, self._server.answered = answer, answered
    self.port: int = self._server.server_address[1]
    self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name='http')
    self._thread.start()

  def close(self, grace: float) -> None:
    """Accepts nothing more; waits for what was accepted, `grace` seconds at the most."""
    self._server.closing = True
    self._server.shutdown()
    self._server.server_close()
    self._thread.join()
    self._server.places.empty(grace)


def json_answer(value: Any) -> Answer:
  """A value as JSON; raises ServingError where it holds NaN or infinity, which JSON has not."""
  try:
    return 'application/json', json.dumps(value, allow_nan=False).encode()
  except ValueError as error:
    message = 'the model gave NaN or infinity, which JSON has not'
    raise ServingError(message, grpc.StatusCode.INTERNAL) from error


def stop_signal() -> threading.Event:
  """An event that SIGTERM or SIGINT sets."""
  stop = threading.Event()
  for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: stop.set())
  return stop


class _Server(ThreadingHTTPServer):
  daemon_threads, block_on_close = True, False  # `places` knows who is still there
  request_queue_size = 128
  closing = False
  max_bytes: int
  places: Places
  answer: Callable[[str, str, bytes], Answer]
  answered: Callable[[str, HTTPStatus, float], None]

  def get_request(self) -> tuple[socket.socket, Any]:
    try:
      return super().get_request()
    except OSError:
      time.sleep(0.1)  # the process has no file left for it: it would be told so again at once
      raise

  def process_request(self, request: Any, client_address: Any) -> None:
    if self.places.take(request, 1.0):
      super().process_request(request, client_address)
      return
    with contextlib.suppress(OSError):
      request.sendall(_FULL)
    self.shutdown_request(request)

  def shutdown_request(self, request: Any) -> None:
    super().shutdown_request(request)
    self.places.leave(request)

  def service_actions(self) -> None:
    self.places.cut_late()

  def handle_error(self, request: Any, client_address: Any) -> None:
    if not isinstance(sys.exception(), OSError):  # nobody is there any more
      super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
  """A connection."""

  protocol_version = default_request_version = 'HTTP/1.1'
  timeout = _IDLE
  server: _Server
  unread = False  # whether the rest of a request may still be on its way

  def setup(self) -> None:
    super().setup()
    self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    self._wait(socket.SHUT_RD)

  def finish(self) -> None:
    if self.unread and not self.server.places.leaving(self.connection):
      self._linger()
    super().finish()

  def do_GET(self) -> None:  # noqa: N802
    self._answer()

  def do_POST(self) -> None:  # noqa: N802
    self._answer()

  def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
    """Requests are counted, not logged."""

  def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
    """Answers what `http.server` itself refuses: no HTTP, another method, too long a line."""
    del explain
    self.server.places.serve(self.connection)
    status, text = HTTPStatus(code), message or HTTPStatus(code).phrase
    if status == HTTPStatus.NOT_IMPLEMENTED:
      status, text = HTTPStatus.METHOD_NOT_ALLOWED, f'{self.command}: GET and POST are answered'
    self._refuse('', _HttpError(status, text), time.monotonic())

  def _answer(self) -> None:
    self.server.places.serve(self.connection)
    started, path = time.monotonic(), self.path.split('?')[0]
    code, error = HTTPStatus.OK, ''
    try:
      content_type, answer = self.server.answer(self.command, path, self._body())
    except _HttpError as refused:
      self._refuse(path, refused, started)
      return
    except ServingError as failed:
      code, error = _STATUS.get(failed.code, HTTPStatus.INTERNAL_SERVER_ERROR), str(failed)
    except Exception:
      traceback.print_exc()
      code, error = HTTPStatus.INTERNAL_SERVER_ERROR, 'a fault of the server; see its log'
    if code != HTTPStatus.OK:
      content_type, answer = json_answer({'error': error})
    self.server.places.release(self.connection)
    self.server.answered(path, code, started)
    self._send(code, content_type, answer)

  def _refuse(self, path: str, error: '_HttpError', started: float) -> None:
    """Answers a request that was not read to its end, and closes its connection."""
    self.close_connection = self.unread = True
    self.server.answered(path, error.status, started)
    self._send(error.status, *json_answer({'error': str(error)[:_LONGEST]}))

  def _wait(self, how: int, safe: float = 0.0) -> None:
    """Has the client waited for, until the connection is shut: for reading, or for both ways."""

    def cut() -> None:
      with contextlib.suppress(OSError):
        self.connection.shutdown(how)  # what has come is answered

    self.server.places.wait_for(self.connection, cut, safe, _IDLE)

  def _body(self) -> bytes:
    lengths = self.headers.get_all('Content-Length', [])
    if 'Transfer-Encoding' in self.headers or (self.command == 'POST' and not lengths):
      raise _HttpError(HTTPStatus.LENGTH_REQUIRED, 'Content-Length is needed')
    if not lengths:
      return b''
    if len(lengths) > 1 or not lengths[0].isdecimal() or len(lengths[0]) > 18:
      text = f'Content-Length: {", ".join(lengths)!r} is no number of bytes'
      raise _HttpError(HTTPStatus.BAD_REQUEST, text)
    length = int(lengths[0])
    if length > self.server.max_bytes:
      text = f'{length:,} bytes; a request has {self.server.max_bytes:,} at the most'
      raise _HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
    if length > _SMALL and not self.server.places.hold(self.connection, length, _WAIT):
      text = 'too many bytes of other requests are here; send it again later'
      raise _HttpError(HTTPStatus.SERVICE_UNAVAILABLE, text)
    self._wait(socket.SHUT_RD, _SAFE)
    try:
      body = self.rfile.read(length)
    except OSError as error:
      raise _HttpError(HTTPStatus.REQUEST_TIMEOUT, f'the body did not come: {error}') from error
    if len(body) < length:
      late = self.server.places.leaving(self.connection)
      status = HTTPStatus.REQUEST_TIMEOUT if late else HTTPStatus.BAD_REQUEST
      raise _HttpError(status, f'{len(body):,} bytes of {length:,} came')
    self.server.places.serve(self.connection)
    return body

  def _send(self, code: HTTPStatus, content_type: str, answer: bytes) -> None:
    self._wait(socket.SHUT_RDWR, _SAFE)
    try:
      self.send_response(code)
      self.send_header('Content-Type', content_type)
      self.send_header('Content-Length', str(len(answer)))
      self.send_header('X-Content-Type-Options', 'nosniff')
      self.send_header('Content-Security-Policy', _POLICY)
      if code == HTTPStatus.METHOD_NOT_ALLOWED:
        self.send_header('Allow', 'GET, POST')
      if self.close_connection or self.server.closing:
        self.send_header('Connection', 'close')
        self.close_connection = True
      self.end_headers()
      if self.command != 'HEAD':
        self.wfile.write(answer)
    except OSError:
      self.close_connection = True  # nobody is there any more
    self._wait(socket.SHUT_RD)

  def _linger(self) -> None:
    """Reads what still comes: closed with unread bytes, a socket takes its last answer along."""
    until = time.monotonic() + _LINGER
    with contextlib.suppress(OSError):
      self.connection.shutdown(socket.SHUT_WR)
      while (left := until - time.monotonic()) > 0:
        self.connection.settimeout(left)
        if not self.connection.recv(1 << 16):
          return


class _HttpError(Exception):
  """A request that is refused before it is read to its end."""

  def __init__(self, status: HTTPStatus, message: str):
    super().__init__(message)
    self.status = status
