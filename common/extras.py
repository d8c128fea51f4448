"""Optional dependencies: what is missing is named in one line, with the extra that brings it.

with extras.needed('beam'):
  import apache_beam as beam
"""

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from common.errors import InputError, refuse

HUB_ID = r'[\w-][\w.-]*/[\w.-]+'  # a repository of the hub, whose package is an extra: org/name
_OWN = ('benchmarks', 'common', 'dipair', 'dse')


@contextlib.contextmanager
def needed(extra: str, why: str = '') -> Iterator[None]:
  """Wraps imports of packages that an extra of `setup.py` brings.

  A command of this project ends here with the line and status 2, as these imports come before its
  `main`; elsewhere the line is raised.

  Args:
    extra: Its name.
    why: What the line starts with.

  Raises:
    InputError: If a package is not installed.
  """
  try:
    yield
  except ModuleNotFoundError as error:
    missing = (error.name or str(error)).split('.')[0]
    if missing in _OWN:
      raise
    wrong = InputError(f"{why}{missing} is not installed: pip install 'dipair[{extra}]'")
    if _is_command():
      refuse(wrong)
    raise wrong from error


def unavailable(error: InputError) -> Callable[..., NoReturn]:
  """A stand-in for a function that `needed` could not import; a call raises that refusal."""

  def refused(*_: Any, **__: Any) -> NoReturn:
    raise error

  return refused


def _is_command() -> bool:
  """Whether this process is `python -m` a module of this project."""
  pairs = itertools.pairwise(sys.orig_argv)
  return any(flag == '-m' and name.split('.')[0] in _OWN for flag, name in pairs)
