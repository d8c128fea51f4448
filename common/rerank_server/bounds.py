"""Refusals before a request is looked at: no key, a body too large or too slow, a crowd."""

import asyncio
import contextlib
import hmac
from collections.abc import Sequence
from typing import Any

from starlette.responses import JSONResponse

from common import files
from common.errors import InputError

MOST_BYTES = 16 << 20  # of a body
_AT_ONCE = 256  # requests
_ALL_BYTES = 64 << 20  # of all bodies that are held; others wait
_SECONDS = 30  # for a body to come
_OPEN = ('/', '/docs', '/openapi.json', '/healthz', '/page.css', '/page.js')  # without a key


class Refused(Exception):
  """A request that is refused.

  Args:
    status: Status of the answer.
    message: What is wrong.
  """

  def __init__(self, status: int, message: str):
    super().__init__(message)
    self.status = status


class Bounded:
  """An ASGI application behind bounds; it gets each body whole.

  Args:
    app: The application.
    keys: Keys, one of which a request must carry; none: all may ask.
  """

  def __init__(self, app: Any, keys: Sequence[str] = ()):
    self._app, self._keys = app, [key.encode() for key in keys]
    self._requests = self._bytes = 0
    self._room = asyncio.Condition()

  async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
    """Answers a request."""
    if scope['type'] != 'http':
      await self._app(scope, receive, send)
      return
    try:
      size = self._checked(scope)
    except Refused as refused:
      with contextlib.suppress(Refused):
        await _body(receive, kept=False)  # else the client, which writes still, sees no answer
      await _refusal(refused)(scope, receive, send)
      return
    self._requests += 1
    try:
      async with self._room:
        await self._room.wait_for(lambda: self._bytes + size <= _ALL_BYTES)
        self._bytes += size
      try:
        body = await _body(receive)
        if body is not None:
          await self._app(scope, _replayed(body, receive), send)
      except Refused as refused:
        await _refusal(refused)(scope, receive, send)
      finally:
        async with self._room:
          self._bytes -= size
          self._room.notify_all()
    finally:
      self._requests -= 1

  def _checked(self, scope: Any) -> int:
    """Bytes of a request's body, by its headers; refuses what they tell already."""
    headers = dict(scope['headers'])
    if self._keys and scope['path'] not in _OPEN:
      given = headers.get(b'authorization', b'').removeprefix(b'Bearer ')
      if not any([hmac.compare_digest(given, key) for key in self._keys]):
        raise Refused(401, 'a key is needed: Authorization: Bearer KEY')
    if self._requests >= _AT_ONCE:
      raise Refused(503, f'{_AT_ONCE} requests are in work already; try again')
    if b'transfer-encoding' in headers:
      raise Refused(411, 'Content-Length is needed')
    size = int(headers.get(b'content-length', b'0'))
    if size > MOST_BYTES:
      raise Refused(413, f'a body of {size:,} bytes; {MOST_BYTES:,} at the most')
    return size


def keys_of(path: str) -> list[str]:
  """The keys of a file, one a line.

  Raises:
    InputError: If there is none in it.
  """
  with files.opened(path) as file:
    keys = [line.strip() for line in file if line.strip()]
  if not keys:
    raise InputError(f'--api_key_file={path}: no key in it; write one a line')
  return keys


async def _body(receive: Any, kept: bool = True) -> bytes | None:
  """A request's body, or nothing of it; None: the client has gone."""
  body = bytearray()
  try:
    async with asyncio.timeout(_SECONDS):
      while True:
        message = await receive()
        if message['type'] == 'http.disconnect':
          return None
        body += message.get('body', b'') if kept else b''
        if not message.get('more_body'):
          return bytes(body)
  except TimeoutError as error:
    raise Refused(408, f'the body did not come in {_SECONDS} s') from error


def _replayed(body: bytes, receive: Any) -> Any:
  """A `receive` that gives the body, and then what comes after it."""
  messages = [{'type': 'http.request', 'body': body, 'more_body': False}]

  async def received() -> Any:
    return messages.pop() if messages else await receive()

  return received


def _refusal(refused: Refused) -> JSONResponse:
  """The answer, after which the connection is closed."""
  headers = {'connection': 'close'}
  if refused.status == 401:
    headers['www-authenticate'] = 'Bearer'
  return JSONResponse({'message': str(refused)}, refused.status, headers)
