"""A run's log: all that its command prints, with the time of each line, appended at each start.

A progress bar, which overwrites its line many times a second, is noted once a minute and at its
end. Native code that writes past Python's streams is not logged, except for the stack of a crash.
"""

import contextlib
import faulthandler
import logging
import os
import re
import resource
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, TextIO

from common.errors import InputError

NAME = 'run.log'
_BAR_SECONDS = 60.0
_ENDS = re.compile('([\r\n])')
_MOVES = re.compile(r'\x1b\[[0-9;]*[A-Za-z]')  # a terminal's; after them a lower bar goes on


@contextlib.contextmanager
def kept(folder: str, about: Iterable[str]) -> Iterator[None]:
  """Keeps a folder's log while the block runs, its error included.

  Args:
    folder: Made if need be.
    about: Lines that a start begins with.
  """
  os.makedirs(folder, exist_ok=True)
  with open(os.path.join(folder, NAME), 'ab', buffering=0) as file:
    for line in about:
      _note(file, line)
    handler = logging.StreamHandler(_Lines(file))  # loggers' own hold the stream of before
    logging.getLogger().addHandler(handler)
    crashes = not faulthandler.is_enabled()
    if crashes:
      faulthandler.enable(file)
    out, err = (_Both(stream, file) for stream in (sys.stdout, sys.stderr))
    try:
      with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield
    except InputError as error:
      _note(file, f'error: {" ".join(str(error).split())}')
      raise
    except SystemExit as left:
      _note(file, f'ended with status {left.code}')
      raise
    except BaseException:
      for line in traceback.format_exc().splitlines():
        _note(file, line)
      raise
    finally:
      logging.getLogger().removeHandler(handler)
      if crashes:
        faulthandler.disable()


def peak_memory() -> int:
  """The most bytes of memory that this process has held."""
  held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  return held if sys.platform == 'darwin' else held * 1024  # macOS counts bytes, Linux kilobytes


class _Lines:
  """A stream into the log, by whole lines."""

  def __init__(self, file: BinaryIO):
    self._file, self._line, self._noted = file, '', time.monotonic()

  def write(self, text: str) -> None:
    *ended, self._line = _ENDS.split(self._line + text)
    for line, end in zip(ended[::2], ended[1::2], strict=True):
      if (end == '\n' and not _MOVES.search(line)) or time.monotonic() - self._noted > _BAR_SECONDS:
        self._noted = time.monotonic()
        _note(self._file, line)

  def flush(self) -> None:
    """Lines are flushed as they end."""


class _Both:
  """A stream that goes on as it was, and into the log."""

  def __init__(self, stream: TextIO, file: BinaryIO):
    self._stream, self._lines = stream, _Lines(file)

  def write(self, text: str) -> int:
    self._lines.write(text)
    return self._stream.write(text)

  def __getattr__(self, name: str) -> Any:
    return getattr(self._stream, name)


def _note(file: BinaryIO, line: str) -> None:
  if line := _MOVES.sub('', line).rstrip():
    with contextlib.suppress(OSError):  # of a full disk, what the run writes will tell
      file.write(f'{time.strftime("%Y-%m-%d %H:%M:%S")} {line}\n'.encode(errors='replace'))
