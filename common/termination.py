"""SIGTERM and Ctrl-C: a command saves what it can and ends with status 143 or 130, within half a minute.

A second Ctrl-C ends it at once.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

_GRACE = 20.0  # seconds for saving, or a native call; all is written whole or not at all
_asked: list[int] = []  # the signals that came
_holds: list[None] = []
_resumable, _said = threading.Event(), threading.Event()


def expect() -> None:
  """From now on SIGTERM and SIGINT raise SystemExit in the main thread, once it is not `held`; the first alone.

  SIGINT that is ignored, as in a shell's background, stays so. Python sees a signal after the native call
  that it is in, which may be a long one: so a thread, which the system itself tells, ends the process after
  the grace.
  """
  told, tell = os.pipe()
  os.set_blocking(tell, False)
  signal.signal(signal.SIGTERM, _terminate)
  if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _terminate)
  signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
  os.register_at_fork(after_in_child=_forget)
  threading.Thread(target=_end, args=[told], daemon=True).start()


def keep() -> None:
  """Sets the process's handler of SIGTERM anew, where a library has put its own in front of Python's."""
  with contextlib.suppress(ValueError):  # another thread than the main one
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


def asked() -> bool:
  """Whether a signal has come."""
  return bool(_asked)


def resumable() -> None:
  """Notes that the same command goes on with the process's work."""
  _resumable.set()


def leave() -> NoReturn:
  """Ends the process with the status of the signal that came, of Ctrl-C in one line; without one with SIGTERM's."""
  _asked[:] = _asked or [signal.SIGTERM]
  _tell()
  sys.exit(_status())


def end() -> NoReturn:
  """Ends the process as `leave`, without what libraries do at its end."""
  for stream in (sys.stdout, sys.stderr):
    with contextlib.suppress(OSError, ValueError):
      stream.flush()
  os._exit(_status())


def _status() -> int:
  return 128 + _asked[0]


def _tell() -> None:
  if _asked[0] == signal.SIGINT and not _said.is_set():
    _said.set()
    goes_on = '; the same command goes on' if _resumable.is_set() else ''
    with contextlib.suppress(OSError):
      os.write(2, f'stopped by Ctrl-C{goes_on}\n'.encode())  # whoever holds Python's stream


@contextlib.contextmanager
def held() -> Iterator[None]:
  """Lets the block end before a signal ends the process; the block may ask and save."""
  _holds.append(None)
  try:
    yield
  finally:
    _holds.pop()
  if asked() and not _holds:
    sys.exit(_status())


def _terminate(number: int, frame: FrameType | None) -> None:
  del frame
  first = not _asked
  _asked.append(number)
  if first and not _holds:
    sys.exit(_status())


def _end(told: int) -> None:
  came: list[int] = []
  end = 0.0
  while not came or select.select([told], [], [], max(0, end - time.monotonic()))[0]:
    number = os.read(told, 1)[0]
    if number not in (signal.SIGTERM, signal.SIGINT):
      continue
    if came and number == signal.SIGINT:
      break
    end = end or time.monotonic() + _GRACE
    came.append(number)
  if signal.getsignal(came[0]) is _terminate:  # a server has its own
    _asked[:] = came[:1]
    _tell()
    os._exit(_status())


def _forget() -> None:
  """Leaves the pipe to the parent, whose thread a child's signal would tell."""
  with contextlib.suppress(ValueError):  # a fork of another thread than the main one
    signal.set_wakeup_fd(-1)
