"""HTTP on Werkzeug's development server: bounded bodies, refusals as JSON.

For a trusted network: the number of connections is not bounded, and there is no TLS.
"""

import contextlib
import json
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
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

Answer = Callable[[Request], Response]
_WAITING = 128  # connections that the system holds until they are accepted
_LONGEST = 1000  # characters of an error: names in it are the sender's, of any length


@contextlib.contextmanager
def serving(host: str, port: int, answer: Answer, max_bytes: int) -> Iterator[int]:
  """Serves HTTP while the block runs, each request in a thread of its own; gives the port.

  Args:
    host: Address that is listened to.
    port: Its port; 0: any that is free.
    answer: Answers a request. InputError becomes status 400; it may raise Werkzeug's errors too.
    max_bytes: Most bytes of a body.

  Raises:
    InputError: If the address cannot be listened to.
  """

  @Request.application
  def application(request: Request) -> Response:
    request.max_content_length = max_bytes
    response = _answered(answer, request)
    response.headers['X-Content-Type-Options'] = 'nosniff'
    return response

  try:  # here, as Werkzeug ends the process where it cannot listen
    listening = socket.create_server((host, port), backlog=_WAITING)
  except (OSError, OverflowError) as error:
    raise InputError(f'--host={host}, port {port}: cannot be listened to: {error}') from error
  with listening:
    server = make_server(
      host, port, application, True, request_handler=_Handler, fd=listening.fileno()
    )
  thread = threading.Thread(target=server.serve_forever, args=(0.1,), name='http')
  thread.start()
  try:
    yield server.port
  finally:
    server.shutdown()
    thread.join()


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
  """A value as JSON, bytes in it as texts; an error where it holds NaN or infinity."""
  try:
    text = json.dumps(value, allow_nan=False, default=bytes.decode)
  except ValueError as error:
    message = 'the model gave NaN or infinity, which JSON has not'
    raise InternalServerError(message) from error
  return Response(text, content_type='application/json')


def _answered(answer: Answer, request: Request) -> Response:
  """The answer, or a refusal `{"error": …}` with the error's status and headers."""
  refused: HTTPException
  try:
    return answer(request)
  except InputError as error:
    refused = BadRequest(str(error))
  except RequestEntityTooLarge:
    most = f'a request has {request.max_content_length:,} bytes at the most'
    refused = RequestEntityTooLarge(most)
  except HTTPException as error:
    refused = error
  except Exception:
    traceback.print_exc()
    refused = InternalServerError('a fault of the server; see its log')
  response = Response.force_type(refused.get_response())
  response.data = json.dumps({'error': (refused.description or '')[:_LONGEST]})
  response.content_type = 'application/json'
  return response


def _no_number(name: str) -> NoReturn:
  raise ValueError(f'{name} is no number there')


class _Handler(WSGIRequestHandler):
  timeout = 60  # seconds without a byte from the client, after which its connection is closed

  def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002
    """Logs nothing: refusals are the sender's, faults are printed."""
