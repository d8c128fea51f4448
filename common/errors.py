"""The error that a user can mend: commands print it as one line and exit with status 2."""

import contextlib
import errno
import numbers
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

REFUSED = 2  # the status of a command's process
_MOST = 300  # characters of a server's answer
_REASONS = '|'.join(re.escape(os.strerror(number)) for number in errno.errorcode)


class InputError(ValueError):
  """Bad input: the message says what is wrong, where, and what would be right."""


def check_whole(name: str, value: Any, least: int, most: int = 10**9) -> None:
  """Refuses an argument that is no whole number from `least` to `most`, by its name."""
  whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
  if not (whole and least <= value <= most):
    raise InputError(f'{name}={value!r}: a whole number from {least:,} to {most:,} is needed')


def local_path(path: Any, name: str) -> str:
  """An argument that names a file or a folder, as a text; refuses what names none."""
  try:
    found = os.fspath(path)
  except TypeError:
    found = b''
  if not isinstance(found, str) or not found or '\0' in found:
    raise InputError(f'{name}={path!r}: the path of a file or a folder is needed')
  return found


def check_parent(path: str, name: str) -> None:
  """Refuses a file that is to be written into a local folder that is not there."""
  if not os.path.isdir(folder := os.path.dirname(os.path.abspath(path))):
    raise InputError(f'{name}={path}: there is no folder {folder}')


def check_pattern_free(path: str, flag: str = '') -> None:
  """Refuses the path of a checkpoint or SavedModel if TensorFlow would read it as a pattern.

  TensorFlow would find nothing there, or files that lie beside it.
  """
  if found := re.search(r'[*?[\\]', path):
    name = f'{flag}={path}' if flag else path
    raise InputError(
      f'{name}: TensorFlow takes {found[0]!r} in a path for a pattern; name another folder'
    )


@contextlib.contextmanager
def damaged(path: str, remedy: str) -> Iterator[None]:
  """Refuses a file if its reader, a library called in the block, raises any error."""
  try:
    yield
  except (InputError, MemoryError):
    raise
  except Exception as error:  # of damaged bytes, libraries raise nearly anything
    reason = (str(error).splitlines() or [''])[0][:300] or type(error).__name__
    raise InputError(f'{path}: damaged ({reason}); {remedy}') from error


@contextlib.contextmanager
def told() -> Iterator[None]:
  """Ends the process with one line if the block raises InputError or the system refuses a file."""
  try:
    yield
  except InputError as error:
    refuse(error)
  except Exception as error:
    if line := of_system(error):
      refuse(InputError(line))
    raise


def of_system(error: Exception) -> str:
  """'path: reason' of a file that the system did not let be written or read; '' of another error.

  Python's own errors hold the path; TensorFlow's and Beam's, their text.
  """
  if isinstance(error, OSError) and error.filename is not None:
    return f'{error.filename}: {error.strerror}'
  text = str(error)
  if found := re.search(rf'(\S+); ({_REASONS})', text):
    return f'{found[1]}: {found[2]}'
  if found := re.search(r"File system scheme '.*' not implemented \(file: '(.+?)'\)", text):
    return no_file_system(found[1])
  if found := re.search(r"\[Errno \d+\] (.+): '(.+?)'", text):
    return f'{found[2]}: {found[1]}'
  if found := re.search(r'executing an HTTP request: (.+?)\s+when .*?(\w+://\S+)', text, re.DOTALL):
    return f'{found[2]}: {" ".join(found[1].split())[:_MOST]}'
  return ''


def no_file_system(url: str) -> str:
  """The refusal of a URL that TensorFlow cannot open."""
  return f'{url}: no file system for {url.partition("://")[0]}://; download it, or gs://'


def refuse(error: Exception) -> NoReturn:
  """Ends the process with the error as one line, and status 2."""
  print('error:', ' '.join(str(error).split()), file=sys.stderr)
  sys.exit(REFUSED)
