"""The error that a user can mend: commands print it as one line and exit with status 2."""

import contextlib
import numbers
import sys
from collections.abc import Iterator
from typing import Any, NoReturn


class InputError(ValueError):
  """Bad input: the message says what is wrong, where, and what would be right."""


def check_whole(name: str, value: Any, least: int, most: int = 10**9) -> None:
  """Refuses an argument that is no whole number from `least` to `most`, by its name."""
  whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
  if not (whole and least <= value <= most):
    raise InputError(f'{name}={value!r}: a whole number from {least:,} to {most:,} is needed')


@contextlib.contextmanager
def damaged(path: str, remedy: str) -> Iterator[None]:
  """Refuses a file of which a library's reader, in the block, raises whatever it raises."""
  try:
    yield
  except (InputError, MemoryError):
    raise
  except Exception as error:  # of damaged bytes, libraries raise nearly anything
    reason = (str(error).splitlines() or [''])[0][:300] or type(error).__name__
    raise InputError(f'{path}: damaged ({reason}); {remedy}') from error


def refuse(error: Exception) -> NoReturn:
  """Ends the process with the error as one line, and status 2."""
  print('error:', ' '.join(str(error).split()), file=sys.stderr)
  sys.exit(2)
