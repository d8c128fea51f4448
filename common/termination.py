"""SIGTERM: a command saves what it can and ends with status 143, within half a minute."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

STATUS = 128 + signal.SIGTERM
_GRACE = 20.0  # seconds for saving, or a native call; all is written whole or not at all
_asked = threading.Event()
_holds: list[None] = []


def expect() -> None:
  """From now on SIGTERM raises SystemExit in the main thread, once it is not `held`.

  Python sees a signal after the native call that it is in, which may be a long one: so a thread, which
  the system itself tells, ends the process after the grace.
  """
  told, tell = os.pipe()
  os.set_blocking(tell, False)
  signal.signal(signal.SIGTERM, _terminate)
  signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
  os.register_at_fork(after_in_child=_forget)
  threading.Thread(target=_end, args=[told], daemon=True).start()


def asked() -> bool:
  """Whether SIGTERM has come."""
  return _asked.is_set()


@contextlib.contextmanager
def held() -> Iterator[None]:
  """Lets the block end before SIGTERM ends the process; the block may ask and save."""
  _holds.append(None)
  try:
    yield
  finally:
    _holds.pop()
  if asked() and not _holds:
    sys.exit(STATUS)


def _terminate(number: int, frame: FrameType | None) -> None:
  del number, frame
  _asked.set()
  if not _holds:
    sys.exit(STATUS)


def _end(told: int) -> None:
  while os.read(told, 1) != bytes([signal.SIGTERM]):
    pass  # another signal
  time.sleep(_GRACE)
  if signal.getsignal(signal.SIGTERM) is _terminate:  # a server has its own
    os._exit(STATUS)


def _forget() -> None:
  """Leaves the pipe to the parent, whose thread a child's signal would tell."""
  with contextlib.suppress(ValueError):  # a fork of another thread than the main one
    signal.set_wakeup_fd(-1)
