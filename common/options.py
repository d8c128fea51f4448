"""Fields of config dataclasses that are flags, and which of them are kept.

`option` declares a field, `group` a nested dataclass with an optional prefix for its flags.
`common.flags` makes flags of them, and names these functions too.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple, get_type_hints


class Option(NamedTuple):
  """An option of a config: its flag's name, type, field, value, and heading in `--help`."""

  name: str
  hint: Any
  field: dataclasses.Field
  value: Any
  heading: str


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
  return _walk(cls, cls())


def flat(config: Any, prefix: str = '') -> dict[str, Any]:
  """The config as {flag name: value}, in the order of its declaration."""
  return {option.name: option.value for option in _walk(type(config), config, prefix)}


def kept(config: Any) -> dict[str, Any]:
  """The flags, as `flat` gives them, that are not of one start alone."""
  found = _walk(type(config), config)
  return {option.name: option.value for option in found if option.field.metadata['kept']}


def _walk(cls: type, config: Any, prefix: str = '', heading: str = 'flags') -> Iterator[Option]:
  """Yields each option of a config, groups included."""
  hints = get_type_hints(cls)
  for field in dataclasses.fields(cls):
    value, given = getattr(config, field.name), field.metadata
    if 'group' in given:
      below = given['heading'] or field.name.replace('_', ' ')
      yield from _walk(hints[field.name], value, prefix + given['prefix'], below)
    else:
      yield Option(prefix + field.name, hints[field.name], field, value, heading)
