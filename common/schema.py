"""JSON that this program wrote: its fields' types, compared before they are used."""

import dataclasses
import typing
from typing import Any


def check(value: Any, schema: Any, name: str = 'its content') -> None:
  """Refuses a value that does not fit.

  Args:
    value: From a JSON file.
    schema: A type, where `int` is a whole number from 0; a list of one schema, for each item; or a
      dict of the fields that there must be, beside which others may stand.
    name: The value's, for the message.

  Raises:
    ValueError: Names the place; `errors.damaged` adds the file and the remedy.

  Example:
    check({'rows': [-1]}, {'rows': [int]}, 'shard')  # shard.rows[0] is -1, not a whole number …
  """
  if isinstance(schema, dict):
    _check_type(value, dict, name)
    for field, of in schema.items():
      if field not in value:
        raise ValueError(f'{name}.{field} is missing')
      check(value[field], of, f'{name}.{field}')
  elif isinstance(schema, list):
    _check_type(value, list, name)
    for place, item in enumerate(value):
      check(item, schema[0], f'{name}[{place}]')
  else:
    _check_type(value, schema, name)


def parsed(kind: Any, value: Any, name: str = 'its content') -> Any:
  """A value of a type, made from JSON: a dataclass from an object, a tuple from a list.

  Args:
    kind: A dataclass of such types; `tuple[kind, ...]`; `dict[str, kind]`; or a plain type.
    value: From a JSON file. Fields that a dataclass does not have are left out.
    name: The value's, for the message.

  Raises:
    ValueError: Names the place that does not fit.

  Example:
    parsed(Shard, {'name': 'a', 'count': -1}, 'shard')  # shard.count is -1, not a whole number …
  """
  if dataclasses.is_dataclass(kind):
    _check_type(value, dict, name)
    kinds, given = typing.get_type_hints(kind), {}
    for field in dataclasses.fields(kind):
      if field.name in value:
        of = value[field.name]
        given[field.name] = parsed(kinds[field.name], of, f'{name}.{field.name}')
      elif dataclasses.MISSING is field.default is field.default_factory:
        raise ValueError(f'{name}.{field.name} is missing')
    return typing.cast(Any, kind)(**given)
  origin, inside = typing.get_origin(kind) or kind, typing.get_args(kind)
  if origin is tuple:
    _check_type(value, list, name)
    return tuple(parsed(inside[0], item, f'{name}[{place}]') for place, item in enumerate(value))
  _check_type(value, origin, name)
  if origin is dict and inside and inside[1] is not Any:
    return {key: parsed(inside[1], item, f'{name}[{key!r}]') for key, item in value.items()}
  return value


_NAMES = {dict: 'an object', list: 'a list', str: 'a text', bool: 'true or false', float: 'a float'}


def _check_type(value: Any, kind: type, name: str) -> None:
  fits = isinstance(value, kind)
  if kind is int:
    fits = fits and not isinstance(value, bool) and 0 <= value < 1 << 62
  if not fits:
    said = repr(value) if len(repr(value)) < 40 else f'a {type(value).__name__}'
    raise ValueError(f'{name} is {said}, not {_NAMES.get(kind, "a whole number from 0")}')
