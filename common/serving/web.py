"""HTTP on Werkzeug's development server: bounded bodies, refusals as JSON, a clean stop.

For a trusted network: the number of connections is not bounded, and there is no TLS.
"""

import json
import signal
import socket
import threading
import traceback
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from common import extras, files
from common.errors import InputError

with extras.needed('serving'):
  from werkzeug.exceptions import (
    BadRequest,
    HTTPException,
    InternalServerError,
    RequestEntityTooLarge,
  )
  from werkzeug.serving import WSGIRequestHandler, make_server
  from werkzeug.wrappers import Request, Response
  from werkzeug.wsgi import ClosingIterator

_WAITING = 128  # connections that the system holds until they are accepted
_LONGEST = 1000  # characters of an error: names in it are the sender's, of any length
_HEADERS = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"
  ),
}


class HttpServer:
  """An HTTP port, each request answered in a thread of its own.

  Args:
    host: Address that is listened to.
    port: Its port; 0: any that is free.
    answer: Answers a request. InputError becomes status 400; it may raise Werkzeug's errors too.
    max_bytes: Most bytes of a body.

  Raises:
    OSError: If the address cannot be listened to.

  Attributes:
    port: The port.
  """

  def __init__(self, host: str, port: int, answer: Callable[[Request], Response], max_bytes: int):
    self._answer, self._max_bytes = answer, max_bytes
    self._running, self._finished = 0, threading.Condition()
    # Werkzeug ends the process where it cannot listen; so the socket is made here.
    with socket.create_server((host, port), backlog=_WAITING) as listening:
      self._server = make_server(
        host, port, self._run, True, request_handler=_Handler, fd=listening.fileno()
      )
    self.port: int = self._server.port
    self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name='http')
    self._thread.start()

  def close(self, grace: float) -> None:
    """Accepts nothing more; waits for requests that have begun, `grace` seconds at the most."""
    self._server.shutdown()
    self._thread.join()
    with self._finished:
      self._finished.wait_for(lambda: not self._running, grace)

  def _run(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """The WSGI application."""
    with self._finished:
      self._running += 1
    response = self._response(Request(environ))
    response.headers.update(_HEADERS)
    return ClosingIterator(response(environ, start_response), self._end)

  def _end(self) -> None:
    with self._finished:
      self._running -= 1
      self._finished.notify_all()

  def _response(self, request: Request) -> Response:
    request.max_content_length = self._max_bytes
    try:
      return self._answer(request)
    except InputError as error:
      return _refusal(BadRequest(str(error)))
    except RequestEntityTooLarge:
      most = f'a request has {self._max_bytes:,} bytes at the most'
      return _refusal(RequestEntityTooLarge(most))
    except HTTPException as error:
      return _refusal(error)
    except Exception:
      traceback.print_exc()
      return _refusal(InternalServerError('a fault of the server; see its log'))


def json_object(request: Request) -> dict[str, Any]:
  """A request's body; raises InputError where it is no JSON object."""
  body = request.get_data()
  if request.content_length is None and len(body) == request.max_content_length:
    raise RequestEntityTooLarge  # Werkzeug cuts a chunked body off there
  try:
    found = json.loads(body, parse_constant=_no_number, object_pairs_hook=files.unique)
  except (ValueError, RecursionError) as error:
    raise InputError(f'the body is not JSON: {error}') from error
  if not isinstance(found, dict):
    raise InputError('the body must be a JSON object')
  return found


def json_response(value: Any) -> Response:
  """A value as JSON; an error where it holds NaN or infinity, which JSON has not."""
  try:
    return Response(json.dumps(value, allow_nan=False), content_type='application/json')
  except ValueError as error:
    message = 'the model gave NaN or infinity, which JSON has not'
    raise InternalServerError(message) from error


def stop_signal() -> threading.Event:
  """An event that SIGTERM or SIGINT sets."""
  stop = threading.Event()
  for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: stop.set())
  return stop


def _refusal(error: HTTPException) -> Response:
  """`{"error": …}`, with the error's status and headers."""
  response = Response.force_type(error.get_response())
  response.data = json.dumps({'error': (error.description or '')[:_LONGEST]})
  response.content_type = 'application/json'
  return response


def _no_number(name: str) -> NoReturn:
  raise ValueError(f'{name} is no number there')


class _Handler(WSGIRequestHandler):
  timeout = 60  # seconds without a byte from the client, after which its connection is closed

  def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002
    """Logs nothing: refusals are the sender's, faults are printed."""
