"""Dataclass fields as absl flags; the resolved flags of a run are saved beside it.

A config is a frozen dataclass whose fields are declared with `option` and `group`
(`common/options.py`). Flags stop at the command: inside, code sees the dataclasses alone.

  if __name__ == '__main__':
    flags.command(main, RunConfig)     # parses, validates, calls main(config)
"""

import contextlib
import dataclasses
import functools
import logging as python_logging
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, get_origin, get_type_hints

from common import extras, files, termination
from common.errors import REFUSED, InputError, told
from common.options import Option, flat, group, kept, option, options

__all__ = [
  'Option',
  'Others',
  'build',
  'changed',
  'command',
  'command_line',
  'define',
  'flat',
  'given',
  'group',
  'help_text',
  'kept',
  'lines',
  'named',
  'option',
  'options',
  'parse',
  'save',
]

with extras.needed(''):
  from absl import app, flags, logging

  from common import flag_values, flagfiles

_DEFINE = {
  int: flags.DEFINE_integer,
  float: flags.DEFINE_float,
  str: flags.DEFINE_string,
  bool: flags.DEFINE_bool,
}
_FIRST = 'to begin with'
_MORE = (
  '--flagfile=FILE reads flags from a file, one a line; --helpfull lists those of libraries too.'
)
Others = Callable[[list[str]], list[str]]


def define(cls: type, values: flags.FlagValues = flags.FLAGS, first: Collection[str] = ()) -> None:
  """Defines an absl flag for each field of the config class `cls`.

  Args:
    cls: The config class.
    values: Gets the flags.
    first: Flags that `help_text` shows before the others.
  """
  for name, hint, field, default, heading in options(cls):
    text, choices = field.metadata['help'], field.metadata['choices']
    if bounds := field.metadata['bounds']:
      text = f'{text} ({flag_values.span(bounds)})'
    if choices:
      flags.DEFINE_enum(name, default, choices, text, values)
    elif get_origin(hint) is tuple:
      flags.DEFINE_list(name, [str(value) for value in default], text, values)
    else:
      _DEFINE[hint](name, default, text, flag_values=values)
    names = [name]
    if alias := field.metadata['alias']:
      flags.DEFINE_alias(alias, name, values)
      names.append(alias)
    for key in names:
      values.register_key_flag_for_module(_FIRST if name in first else heading, values[key])


def help_text(cls: type, about: str, first: Collection[str] = ()) -> str:
  """Text of `--help`: the command's job, and its flags below their groups' headings.

  Those of `first`, which a newcomer needs, are above the groups.
  """
  values = flags.FlagValues()
  define(cls, values, first)
  headings = dict.fromkeys([_FIRST] if first else [])
  headings |= dict.fromkeys(one.heading for one in options(cls))
  shown = [values.module_help(heading) for heading in headings]
  return '\n'.join([about.strip(), *shown, '', _MORE])


def save(config: Any, path: str, header: str = '') -> None:
  """Writes the kept flags as a flagfile: `--flagfile=<path>` gives the same config again."""
  with files.whole(path) as temporary, files.opened(temporary, 'w') as file:
    file.write(header + '\n'.join(lines(kept(config))) + '\n')


def lines(values: dict[str, Any]) -> list[str]:
  """Flags {name: value}, as `flat` gives them or JSON keeps them, as `--name=value`."""
  return [f'--{name}={flag_values.text(value)}' for name, value in values.items()]


def changed(config: Any, also: Collection[str] = ()) -> list[str]:
  """Kept flags that differ from the defaults, and the flags named in `also`, as `--name=value`."""
  defaults, of_config = flat(type(config)()), kept(config)
  shown = {k for k, v in of_config.items() if v != defaults[k]}.union(also)
  return lines({k: v for k, v in flat(config).items() if k in shown})


def command_line(program: str, given: Iterable[str]) -> str:
  """A program's command as a shell takes it, its flags as of `changed`."""
  of_flags = (flag.partition('=') for flag in given)
  shown = (f'{name}{equals}{shlex.quote(value)}' for name, equals, value in of_flags)
  return ' '.join([f'python -m {program}', *shown])


def given(config: Any) -> list[str]:
  """Flags that differ from the defaults, or that the command line names, as `--name=value`."""
  return changed(config, [name for name in flags.FLAGS if flags.FLAGS[name].present])


def parse(cls: type, given: dict[str, Any]) -> Any:
  """The config of flags given from Python, as the command makes it of `--name=value`.

  Args:
    cls: The config class.
    given: {flag name: value}; None is as not given, and `flagfile` is read before the others.

  Raises:
    InputError: As the command refuses it.
  """
  names = sorted(given, key=lambda name: name != 'flagfile')
  arguments = lines({name: given[name] for name in names if given[name] is not None})
  return _build(cls, '', flat(cls()) | _named(cls, arguments))


def named(cls: type, flagfile: str) -> dict[str, Any]:
  """The flags that a flagfile names, as `flat` gives them.

  Raises:
    InputError: The file cannot be read, or `command` would refuse one of its flags.
  """
  found = _named(cls, [f'--flagfile={flagfile}'])
  return {
    one.name: flag_values.of_field(one.name, one.hint, one.field, found[one.name])
    for one in options(cls)
    if one.name in found
  }


def _named(cls: type, arguments: Sequence[str]) -> dict[str, Any]:
  """The flags among arguments, as absl reads them."""
  values = flags.FlagValues()
  define(cls, values)
  with _refusals(arguments):
    rest = values(['', *flagfiles.found(arguments)])
  _refuse(rest)
  return {name: values[name].value for name in flat(cls()) if values[name].present}


def command(
  main: Callable[[Any], None],
  cls: type,
  others: Others | None = None,
  first: Collection[str] = (),
) -> None:
  """Runs a command: parses its line into `cls`, calls `main`.

  Bad input, or a disk without room, ends it with one line and status 2.

  Args:
    main: Takes the config.
    cls: The config class.
    first: Flags that `--help` shows first.
    others: Takes the arguments that are no flags here, for another library; returns those that it
      does not know either, which are refused.
  """
  define(cls)
  parse = functools.partial(_parse, cls=cls, others=others, first=first)
  termination.expect()
  try:
    with told():
      app.run(lambda argv: _main(main, cls, argv), flags_parser=parse)
  except BaseException as error:
    if termination.asked() and getattr(error, 'code', 0) != REFUSED:
      termination.leave()  # whatever a library made of it
    raise


class _Help(flags.BooleanFlag):
  """`--help` by a text of our own, in place of absl's list of one module's flags."""

  def __init__(self, name: str, short_name: str | None, text: str):
    super().__init__(name, False, 'show this help', short_name, allow_override=True)
    self._text = text

  def parse(self, argument: Any) -> None:
    if self._parse(argument):
      print(self._text)
      sys.exit()


def _refuse(argv: Sequence[str]) -> None:
  """Refuses words of a command line that are no flags, except the first."""
  if len(argv) > 1:
    raise InputError(f'{argv[1]!r} is not a flag; flags look like --name=value (see --help)')


def _main(main: Callable[[Any], None], cls: type, argv: list[str]) -> None:
  _refuse(argv)
  logging.set_verbosity(logging.ERROR)
  python_logging.getLogger('tensorflow').setLevel(python_logging.ERROR)
  main(_build(cls, ''))


def _parse(argv: list[str], cls: type, others: Others | None, first: Collection[str]) -> list[str]:
  app.define_help_flags()
  text = help_text(cls, sys.modules['__main__'].__doc__ or '', first)
  for name, short_name in (('help', '?'), ('helpshort', None)):
    flags.DEFINE_flag(_Help(name, short_name, text), module_name='absl.app')
  argv = [argv[0], *flagfiles.found(argv[1:])]
  try:
    with _refusals(argv):
      if others:
        name, *rest = flags.FLAGS(argv, known_only=True)
        argv = [name, *others(rest)]
      return flags.FLAGS(argv)
  except SystemExit:  # absl's --helpfull leaves with status 1
    sys.exit()


@contextlib.contextmanager
def _refusals(argv: Sequence[str]) -> Iterator[None]:
  """Turns absl's errors about arguments into an InputError."""
  try:
    yield
  except (flags.CantOpenFlagFileError, UnicodeDecodeError) as error:
    raise InputError(flagfiles.unreadable(error, argv)) from error
  except (flags.Error, ValueError) as error:
    raise InputError(str(error)) from error


def build(cls: type, values: dict[str, Any]) -> Any:
  """The config of {flag name: value}, as `flat` gives it or JSON keeps it.

  Flags that are not named have their defaults.

  Raises:
    InputError: If a name is no flag of `cls`, or a value is out of range.
  """
  defaults = flat(cls())
  if unknown := sorted(values.keys() - defaults.keys()):
    raise InputError(f'{cls.__name__} has no {", ".join(unknown)}')
  return _build(cls, '', {**defaults, **values})


def _build(cls: type, prefix: str, given: dict[str, Any] | None = None) -> Any:
  """A config of the values `given` by flag name, or else of the command line's."""
  hints, values = get_type_hints(cls), {}
  for field in dataclasses.fields(cls):
    hint = hints[field.name]
    if 'group' in field.metadata:
      values[field.name] = _build(hint, prefix + field.metadata['prefix'], given)
      continue
    name = prefix + field.name
    value = flags.FLAGS[name].value if given is None else given[name]
    values[field.name] = flag_values.of_field(name, hint, field, value)
  return cls(**values)
