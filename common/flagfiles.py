"""Flagfiles by path, or the project's own by name: `--flagfile=p2t` is configs/p2t.flags."""

import os
from collections.abc import Sequence

from absl import flags

_SUFFIX = '.flags'
_HERE = os.path.dirname(os.path.abspath(__file__))
# The folder of the project's own: in a wheel, in a checkout.
_FOLDERS = (os.path.join(_HERE, 'configs'), os.path.join(os.path.dirname(_HERE), 'configs'))


def names() -> list[str]:
  """Names of the project's own."""
  found = (os.listdir(folder) for folder in _FOLDERS if os.path.isdir(folder))
  every = (name for folder in found for name in folder)
  return sorted(name.removesuffix(_SUFFIX) for name in every if name.endswith(_SUFFIX))


def path(name: str) -> str:
  """Path of a flagfile: a file of that name, or else the project's own; none: the name as it is."""
  own = f'{name.removeprefix("configs/").removesuffix(_SUFFIX)}{_SUFFIX}'
  paths = [] if os.path.dirname(own) else [os.path.join(folder, own) for folder in _FOLDERS]
  return next((path for path in [name, *paths] if os.path.isfile(path)), name)


def found(arguments: Sequence[str]) -> list[str]:
  """A command's arguments with the `path` of each `--flagfile`."""
  new: list[str] = []
  for argument in arguments:
    flag, equals, name = argument.partition('=')
    if flag.lstrip('-') == 'flagfile' and equals:
      argument = f'{flag}={path(name)}'
    elif new and new[-1] in ('-flagfile', '--flagfile'):
      argument = path(argument)
    new.append(argument)
  return new


def unreadable(
  error: flags.CantOpenFlagFileError | UnicodeDecodeError, arguments: Sequence[str]
) -> str:
  """Why a flagfile among a command's arguments could not be read, in one line."""
  if isinstance(error, UnicodeDecodeError):  # nothing but a flagfile is decoded
    given = ' '.join(argument for argument in arguments if 'flagfile' in argument)
    return f'{given}: byte 0x{error.object[error.start]:02x} is not {error.encoding}'
  cause = error.__context__
  assert isinstance(cause, OSError)
  own = f"; the project's own, by name: {', '.join(names())}"
  hint = own if isinstance(cause, FileNotFoundError) else ''
  return f'--flagfile={cause.filename}: {cause.strerror}{hint}'
