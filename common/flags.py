"""Dataclass fields as absl flags; the resolved flags of a run are saved beside it.

A config is a frozen dataclass whose fields are declared with `option`, or with `group` for a
nested dataclass (whose flags may carry a prefix). Flags stop at the command: inside, code sees the
dataclasses alone.

  flags.define(RunConfig)              # in the command's module
  flags.run(main, RunConfig)           # parses, validates, calls main(config)
"""

import dataclasses
import logging as python_logging
import os
import sys
from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

from absl import app, flags, logging

from common.errors import InputError

_DEFINE = {
  int: flags.DEFINE_integer,
  float: flags.DEFINE_float,
  str: flags.DEFINE_string,
  bool: flags.DEFINE_bool,
}


def option(default: Any, text: str, choices: tuple = (), alias: str = '') -> Any:
  """A config field that is a flag: default and help text; maybe its choices and a second name."""
  metadata = {'help': text, 'choices': choices, 'alias': alias}
  return dataclasses.field(default=default, metadata=metadata)


def group(cls: type, prefix: str = '', **defaults: Any) -> Any:
  """A nested config: its fields are flags whose names start with `prefix`; `defaults` override."""
  metadata = {'group': cls, 'prefix': prefix}
  return dataclasses.field(default_factory=lambda: cls(**defaults), metadata=metadata)


def define(cls: type) -> None:
  """Defines an absl flag for each field of the config class `cls`."""
  for name, hint, field, default in _walk(cls, cls(), ''):
    text, choices = field.metadata['help'], field.metadata['choices']
    if choices:
      flags.DEFINE_enum(name, default, choices, text)
    elif get_origin(hint) is tuple:
      flags.DEFINE_list(name, [str(value) for value in default], text)
    else:
      _DEFINE[hint](name, default, text)
    if alias := field.metadata['alias']:
      flags.DEFINE_alias(alias, name)


def flat(config: Any, prefix: str = '') -> dict[str, Any]:
  """The config as {flag name: value}, in the order of its declaration."""
  return {name: value for name, _, _, value in _walk(type(config), config, prefix)}


def save(config: Any, path: str, header: str = '') -> None:
  """Writes the config as a flagfile: `--flagfile=<path>` gives the same config again."""
  lines = [f'--{name}={_text(value)}' for name, value in flat(config).items()]
  with open(path + '.tmp', 'w', encoding='utf-8') as file:
    file.write(header + '\n'.join(lines) + '\n')
  os.replace(path + '.tmp', path)


def changed(config: Any) -> list[str]:
  """The flags that differ from the defaults, as `--name=value`."""
  defaults = flat(type(config)())
  return [f'--{k}={_text(v)}' for k, v in flat(config).items() if v != defaults[k]]


def run(main: Callable[[Any], None], cls: type) -> None:
  """Parses the command line into `cls`, calls `main`; bad input becomes one line and status 2."""
  try:
    app.run(lambda argv: _main(main, cls, argv), flags_parser=_parse)
  except InputError as error:
    _refuse(error)


def _main(main: Callable[[Any], None], cls: type, argv: list[str]) -> None:
  if len(argv) > 1:
    raise InputError(f'{argv[1]!r} is not a flag; flags look like --name=value (see --help)')
  logging.set_verbosity(logging.ERROR)
  python_logging.getLogger('tensorflow').setLevel(python_logging.ERROR)
  main(_build(cls, ''))


def _parse(argv: list[str]) -> list[str]:
  try:
    app.define_help_flags()
    return flags.FLAGS(argv)
  except (flags.Error, OSError) as error:
    _refuse(error)
    raise AssertionError from error  # _refuse has left


def _refuse(error: Exception) -> None:
  print('error:', ' '.join(str(error).split()), file=sys.stderr)
  sys.exit(2)


def _walk(cls: type, config: Any, prefix: str):
  """Yields (flag name, type, field, value) for each option of a config, groups included."""
  hints = get_type_hints(cls)
  for field in dataclasses.fields(cls):
    value = getattr(config, field.name)
    if 'group' in field.metadata:
      yield from _walk(hints[field.name], value, prefix + field.metadata['prefix'])
    else:
      yield prefix + field.name, hints[field.name], field, value


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
    if get_origin(hint) is tuple:
      kind = get_args(hint)[0]
      try:
        value = tuple(kind(item) for item in value)
      except ValueError as error:
        raise InputError(f'--{name}={",".join(value)}: {error}') from error
    values[field.name] = value
  return cls(**values)


def _text(value: Any) -> str:
  if isinstance(value, bool):
    return str(value).lower()
  if isinstance(value, tuple):
    return flags.CsvListSerializer(',').serialize([str(item) for item in value])
  return str(value)
