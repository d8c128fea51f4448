"""Optional dependencies: what is missing is named in one line, with the extra that brings it.

with extras.needed('beam'):
  import apache_beam as beam
"""

import contextlib
import importlib
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
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


def late(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
  """A module's `__getattr__` for functions whose imports are heavy, made when one is asked for.

  Without the extra `train` a call is refused, so that `from module import *` takes the rest.

  Args:
    module: Name of the module.
    names: By function, the module that has it.
  """

  def found(name: str) -> Any:
    if name not in names:
      raise AttributeError(f'module {module!r} has no attribute {name!r}')
    try:
      with needed('train'):
        return getattr(importlib.import_module(names[name]), name)
    except InputError as error:
      missing = error

      def refused(*_: Any, **__: Any) -> NoReturn:
        raise missing

      return refused

  return found


def _is_command() -> bool:
  """Whether this process is `python -m` a module of this project."""
  pairs = itertools.pairwise(sys.orig_argv)
  return any(flag == '-m' and name.split('.')[0] in _OWN for flag, name in pairs)
