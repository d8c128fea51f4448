"""Fields of config dataclasses that are flags; which of them are kept, and which an output depends on.

`option` declares a field, `group` a nested dataclass, whose flags may carry a prefix. `common.flags`
makes flags of them, and names these functions too.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_type_hints


class Option(NamedTuple):
  """An option of a config: its flag's name, type, field, value, heading in `--help`, value `before`."""

  name: str
  hint: Any
  field: dataclasses.Field
  value: Any
  heading: str
  before: Any


def option(
  default: Any,
  text: str,
  choices: tuple = (),
  alias: str = '',
  bounds: tuple[float, float] | None = None,
  may_be_empty: bool = False,
  kept: bool = True,
  before: Any = None,
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
    before: What made outputs before it was a flag; at this value it is not in their `identity`.
  """
  metadata = dict(help=text, choices=choices, alias=alias, bounds=bounds, may_be_empty=may_be_empty)
  return dataclasses.field(default=default, metadata={**metadata, 'kept': kept, 'before': before})


def group(
  cls: type,
  prefix: str = '',
  heading: str = '',
  before: Mapping[str, Any] | None = None,
  **defaults: Any,
) -> Any:
  """A nested config: its fields are flags whose names start with `prefix`; `defaults` override.

  `--help` lists them below `heading`; where that is empty, below the field's own name. `before`, by
  field, overrides too.
  """
  metadata = {'group': cls, 'prefix': prefix, 'heading': heading, 'before': before or {}}
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


def identity(config: Any, prefix: str = '') -> dict[str, Any]:
  """The flags, as `flat` gives them, by which an output is known: none that stands as `before` it came."""
  found = _walk(type(config), config, prefix)
  return {option.name: option.value for option in found if option.value != option.before}


def before(cls: type) -> dict[str, Any]:
  """{flag: its value before it came} of those of a config class that came later than others."""
  return {option.name: option.before for option in options(cls) if option.before is not None}


def _walk(
  cls: type,
  config: Any,
  prefix: str = '',
  heading: str = 'flags',
  before: Mapping[str, Any] | None = None,
) -> Iterator[Option]:
  """Yields each option of a config, groups included."""
  hints = get_type_hints(cls)
  for field in dataclasses.fields(cls):
    value, given = getattr(config, field.name), field.metadata
    if 'group' in given:
      below = given['heading'] or field.name.replace('_', ' ')
      of_group = prefix + given['prefix']
      yield from _walk(hints[field.name], value, of_group, below, given['before'])
    else:
      own = {field.name: given['before'], **(before or {})}[field.name]
      yield Option(prefix + field.name, hints[field.name], field, value, heading, own)
