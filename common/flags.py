"""Dataclass fields as absl flags; the resolved flags of a run are saved beside it.

A config is a frozen dataclass. Each field is an `option`, which is a flag, or a `group`, a nested
config with an optional prefix before its flags. Flags stop at the command: inside, code sees the
dataclasses alone.

  if __name__ == '__main__':
    flags.command(main, RunConfig)     # parses, validates, calls main(config)
"""

import contextlib
import dataclasses
import functools
import logging as python_logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from absl import app, flags, logging

from common import files, termination
from common.errors import REFUSED, InputError, told

_DEFINE = {
  int: flags.DEFINE_integer,
  float: flags.DEFINE_float,
  str: flags.DEFINE_string,
  bool: flags.DEFINE_bool,
}
_FIRST = 'to begin with'
_MORE = '--flagfile=FILE reads flags from a file, one a line.'
_HELP = {f'{dashes}{name}' for dashes in ('-', '--') for name in ('help', 'helpshort', '?')}
_PASSWORD = re.compile(r'://[^/\s]*:[^/\s]*@')
_SUFFIX = '.flags'


class Option(NamedTuple):
  """An option of a config: its flag's name, type, field, value, and heading in `--help`."""

  name: str
  hint: Any
  field: dataclasses.Field
  value: Any
  heading: str

  @property
  def names(self) -> list[str]:
    """The flag's name, and the second one if it has one."""
    return [self.name, *filter(None, [self.field.metadata['alias']])]

  @property
  def text(self) -> str:
    """The help text, with its bounds."""
    text, bounds = self.field.metadata['help'], self.field.metadata['bounds']
    return f'{text} ({_span(bounds)})' if bounds else text


def option(
  default: Any,
  text: str,
  choices: tuple = (),
  alias: str = '',
  bounds: tuple[float, float] | None = None,
  may_be_empty: bool = False,
  kept: bool = True,
) -> Any:
  """A config field that is a flag.

  Args:
    default: Its default.
    text: Its help.
    choices: What it takes, where that is not any text.
    alias: A second name.
    bounds: The least and the most that a number may be, each number of a list; both are allowed.
    may_be_empty: Whether a list that has a default may be given empty.
    kept: Whether it is written down with the others; if not, it is of one start alone.
  """
  metadata = dict(help=text, choices=choices, alias=alias, bounds=bounds, may_be_empty=may_be_empty)
  return dataclasses.field(default=default, metadata={**metadata, 'kept': kept})


def group(cls: type, prefix: str = '', heading: str = '', **defaults: Any) -> Any:
  """A nested config; its fields become flags with `prefix` before their names; `defaults` override.

  `--help` lists them below `heading`; where that is empty, below the field's own name.
  """
  metadata = {'group': cls, 'prefix': prefix, 'heading': heading}
  return dataclasses.field(default_factory=lambda: cls(**defaults), metadata=metadata)


def options(cls: type) -> Iterator[Option]:
  """The options of a config class, with their defaults."""
  return _walk(cls())


def flat(config: Any, prefix: str = '') -> dict[str, Any]:
  """The config as {flag name: value}, in the order of its declaration."""
  return {option.name: option.value for option in _walk(config, prefix)}


def kept(config: Any) -> dict[str, Any]:
  """The flags, as `flat` gives them, that are not of one start alone."""
  return {one.name: one.value for one in _walk(config) if one.field.metadata['kept']}


def _walk(config: Any, prefix: str = '', heading: str = 'flags') -> Iterator[Option]:
  """Yields each option of a config, groups included."""
  hints = get_type_hints(type(config))
  for field in dataclasses.fields(config):
    value, declared = getattr(config, field.name), field.metadata
    if 'group' in declared:
      below = declared['heading'] or field.name.replace('_', ' ')
      yield from _walk(value, prefix + declared['prefix'], below)
    else:
      yield Option(prefix + field.name, hints[field.name], field, value, heading)


def build(cls: type, values: Mapping[str, Any]) -> Any:
  """The config of {flag name: value}, as `flat` gives it or JSON keeps it.

  Flags that are not named have their defaults.

  Raises:
    InputError: If a name is no flag of `cls`, or a value is out of range.
  """
  known = {one.name: one for one in options(cls)}
  if unknown := sorted(values.keys() - known.keys()):
    raise InputError(f'{cls.__name__} has no {", ".join(unknown)}')
  return _nested(
    cls, '', {name: _value(one, values.get(name, one.value)) for name, one in known.items()}
  )


def _nested(cls: type, prefix: str, values: Mapping[str, Any]) -> Any:
  """The config of all its flags' values."""
  hints, own = get_type_hints(cls), {}
  for field in dataclasses.fields(cls):
    if 'group' in field.metadata:
      own[field.name] = _nested(hints[field.name], prefix + field.metadata['prefix'], values)
    else:
      own[field.name] = values[prefix + field.name]
  return cls(**own)


def parse(cls: type, given: Mapping[str, Any]) -> Any:
  """The config of flags given from Python, as of `named_by`."""
  return build(cls, named_by(cls, given))


def named_by(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
  """The flags that are given from Python, as the command makes them of `--name=value`.

  Args:
    cls: The config class.
    given: {flag name: value}; None is as not given, and `flagfile` is read before the others.

  Raises:
    InputError: As the command refuses it.
  """
  names = sorted(given, key=lambda name: name != 'flagfile')
  return _named(cls, lines({name: given[name] for name in names if given[name] is not None}))


def _named(cls: type, arguments: Sequence[str]) -> dict[str, Any]:
  """The flags that arguments name."""
  values = flags.FlagValues()
  define(cls, values)
  arguments = _with_flagfiles(arguments)
  with _refusals(arguments):
    rest = values(['', *arguments])
  _refuse(rest)
  return {
    one.name: _value(one, values[one.name].value)
    for one in options(cls)
    if values[one.name].present
  }


def _value(option: Option, value: Any) -> Any:
  """A flag's value as its field has it: a list as a tuple of the field's type.

  Raises:
    InputError: It is not of that type or out of the option's bounds, as NaN is; it is an empty list
      where one or more are needed; or it is a text that must not be kept.
  """
  name, declared = option.name, option.field.metadata
  several = get_origin(option.hint) is tuple
  if several:
    of_items = get_args(option.hint)[0]
    try:
      value = tuple(of_items(item) for item in value)
    except ValueError as error:
      raise InputError(f'--{name}={",".join(value)}: {error}') from error
    if option.field.default and not value and not declared['may_be_empty']:
      raise InputError(f'--{name}: empty; one or more are needed')
  for part in value if several else (value,):
    if isinstance(part, str) and _PASSWORD.search(part):
      raise InputError(f'--{name}: leave the password out of the URL: flags are kept and shown')
    if isinstance(part, str) and ('\n' in part or '\r' in part):
      raise InputError(f'--{name}: a line break; flags are kept one a line')
    bounds = declared['bounds']
    if bounds and not (isinstance(part, (int, float)) and bounds[0] <= part <= bounds[1]):
      raise InputError(f'--{name}={_text(value)}: a number from {_span(bounds)} is needed')
  return value


def _span(bounds: tuple[float, float]) -> str:
  """The least and the most that a number may be, as help and errors have them."""
  return f'{bounds[0]:,} to {bounds[1]:,}'


def save(config: Any, path: str, header: str = '') -> None:
  """Writes the kept flags as a flagfile: `--flagfile=<path>` gives the same config again."""
  with files.whole(path) as temporary, files.opened(temporary, 'w') as file:
    file.write(header + '\n'.join(lines(kept(config))) + '\n')


def lines(values: Mapping[str, Any]) -> list[str]:
  """Flags {name: value}, as `flat` gives them or JSON keeps them, as `--name=value`."""
  return [f'--{name}={_text(value)}' for name, value in values.items()]


def _text(value: Any) -> str:
  """A value as a command line takes it."""
  if isinstance(value, bool):
    return str(value).lower()
  if isinstance(value, (tuple, list)):
    return flags.CsvListSerializer(',').serialize([str(item) for item in value])
  return str(value)


def changed(config: Any, also: Collection[str] = ()) -> list[str]:
  """Kept flags that differ from the defaults, and the flags named in `also`, as `--name=value`."""
  defaults, of_config = flat(type(config)()), kept(config)
  shown = {k for k, v in of_config.items() if v != defaults[k]}.union(also)
  return lines({k: v for k, v in flat(config).items() if k in shown})


def present() -> set[str]:
  """Names of the flags that the command line names."""
  return {name for name in flags.FLAGS if flags.FLAGS[name].present}


def command_line(program: str, given: Iterable[str]) -> str:
  """A program's command as a shell takes it, its flags as of `changed`."""
  of_flags = (flag.partition('=') for flag in given)
  shown = (f'{name}{equals}{shlex.quote(value)}' for name, equals, value in of_flags)
  return ' '.join([f'python -m {program}', *shown])


def define(cls: type, values: flags.FlagValues = flags.FLAGS, first: Collection[str] = ()) -> None:
  """Defines an absl flag for each field of the config class `cls`.

  Args:
    cls: The config class.
    values: Gets the flags.
    first: Flags that `help_text` shows before the others.
  """
  for one in options(cls):
    name, hint, field, default, heading = one
    text, choices = one.text, field.metadata['choices']
    if choices:
      flags.DEFINE_enum(name, default, choices, text, values)
    elif get_origin(hint) is tuple:
      flags.DEFINE_list(name, [str(value) for value in default], text, values)
    else:
      _DEFINE[hint](name, default, text, flag_values=values)
    for alias in one.names[1:]:
      flags.DEFINE_alias(alias, name, values)
    for key in one.names:
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


def command(
  main: Callable[[Any], None],
  cls: type,
  others: Callable[[list[str]], list[str]] | None = None,
  first: Collection[str] = (),
) -> None:
  """Runs a command: parses its line into `cls`, calls `main`.

  Bad input, or a disk without room, ends it with one line and status 2.

  Args:
    main: Takes the config.
    cls: The config class.
    others: Takes the arguments that are no flags here, for another library; returns those that it
      does not know either, which are refused.
    first: Flags that `--help` shows first.
  """
  define(cls)
  termination.expect()
  try:
    with told():
      app.run(
        functools.partial(_main, main, cls),
        flags_parser=functools.partial(_parse, cls=cls, others=others, first=first),
      )
  except BaseException as error:
    if termination.asked() and getattr(error, 'code', 0) != REFUSED:
      termination.leave()  # whatever a library made of it
    raise


def _parse(
  argv: list[str],
  cls: type,
  others: Callable[[list[str]], list[str]] | None,
  first: Collection[str],
) -> list[str]:
  """Reads a command's flags into absl's own; returns the words that are none."""
  if not _HELP.isdisjoint(argv):
    print(help_text(cls, sys.modules['__main__'].__doc__ or '', first))
    sys.exit()
  argv = [argv[0], *_with_flagfiles(argv[1:])]
  with _refusals(argv):
    if others:
      name, *rest = flags.FLAGS(argv, known_only=True)
      argv = [name, *others(rest)]
    return flags.FLAGS(argv)


def _main(main: Callable[[Any], None], cls: type, argv: list[str]) -> None:
  _refuse(argv)
  logging.set_verbosity(logging.ERROR)
  python_logging.getLogger('tensorflow').setLevel(python_logging.ERROR)
  main(build(cls, {one.name: flags.FLAGS[one.name].value for one in options(cls)}))


def _refuse(argv: Sequence[str]) -> None:
  """Refuses words of a command line that are no flags, except the first."""
  if len(argv) > 1:
    raise InputError(f'{argv[1]!r} is not a flag; flags look like --name=value (see --help)')


@contextlib.contextmanager
def _refusals(argv: Sequence[str]) -> Iterator[None]:
  """Turns absl's errors about arguments into an InputError."""
  try:
    yield
  except flags.CantOpenFlagFileError as error:
    cause = error.__context__
    assert isinstance(cause, OSError)
    own = f"; the project's own, by name: {', '.join(flagfiles())}"
    hint = own if isinstance(cause, FileNotFoundError) else ''
    raise InputError(f'--flagfile={cause.filename}: {cause.strerror}{hint}') from error
  except UnicodeDecodeError as error:  # nothing but a flagfile is decoded
    given = ' '.join(argument for argument in argv if 'flagfile' in argument)
    wrong = f'byte 0x{error.object[error.start]:02x} is not {error.encoding}'
    raise InputError(f'{given}: {wrong}') from error
  except (flags.Error, ValueError) as error:
    raise InputError(str(error)) from error


def flagfiles() -> list[str]:
  """Names of the project's own flagfiles."""
  found = os.listdir(files.own('configs'))
  return sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX))


def flagfile(name: str) -> str:
  """Path of a flagfile: `p2t` is configs/p2t.flags, unless a file has that name.

  A name that is neither is returned as it is.
  """
  own = f'{name.removeprefix("configs/").removesuffix(_SUFFIX)}{_SUFFIX}'
  paths = [] if os.path.dirname(own) else [files.own('configs', own)]
  return next((path for path in [name, *paths] if os.path.isfile(path)), name)


def _with_flagfiles(arguments: Sequence[str]) -> list[str]:
  """A command's arguments with the path of each `--flagfile`."""
  new: list[str] = []
  for argument in arguments:
    flag, equals, name = argument.partition('=')
    if flag.lstrip('-') == 'flagfile' and equals:
      argument = f'{flag}={flagfile(name)}'
    elif new and new[-1] in ('-flagfile', '--flagfile'):
      argument = flagfile(argument)
    new.append(argument)
  return new
