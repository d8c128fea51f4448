"""SIGTERM and Ctrl-C: a command saves what it can and ends with status 143 or 130.

A second Ctrl-C ends it at once, which is as safe as a kill: all is written whole or not at all.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

_asked: list[int] = []  # the signals that came
_holds: list[None] = []
_resumable, _said = threading.Event(), threading.Event()


def expect() -> None:
  """From now on the first SIGTERM or SIGINT ends the main thread, once it is not `held`.

  SIGINT that is ignored, as in a shell's background, stays so.
  """
  signal.signal(signal.SIGTERM, _terminate)
  if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _terminate)


def asked() -> bool:
  """Whether a signal has come."""
  return bool(_asked)


def resumable() -> None:
  """Notes that the same command goes on with the process's work."""
  _resumable.set()


def leave() -> NoReturn:
  """Ends the process with the status of the signal that came, of Ctrl-C in one line."""
  _tell()
  sys.exit(_status())


@contextlib.contextmanager
def held() -> Iterator[None]:
  """Lets the block end before a signal ends the process; the block may ask and save."""
  _holds.append(None)
  try:
    yield
  finally:
    _holds.pop()
  if asked() and not _holds:
    leave()


def _terminate(number: int, frame: FrameType | None) -> None:
  del frame
  _asked.append(number)
  if len(_asked) > 1 and number == signal.SIGINT:
    _tell()
    os._exit(_status())
  if len(_asked) == 1 and not _holds:
    leave()


def _status() -> int:
  return 128 + _asked[0]


def _tell() -> None:
  if _asked[0] == signal.SIGINT and not _said.is_set():
    _said.set()
    goes_on = '; the same command goes on' if _resumable.is_set() else ''
    with contextlib.suppress(OSError):
      os.write(2, f'stopped by Ctrl-C{goes_on}\n'.encode())  # whoever holds Python's stream
