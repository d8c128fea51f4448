"""JSON that this program wrote: its fields' types, compared before they are used."""

import dataclasses
import typing
from typing import Any


def check(value: Any, kind: Any, name: str = 'its content') -> Any:
  """A value of a kind, made from JSON: a dataclass from an object, a tuple from a list.

  Args:
    value: From a JSON file.
    kind: A plain type, where `int` is a whole number from 0; a dataclass of such; a list, a tuple
      or a `dict[str, …]` of such; or {field: kind} for an object that stays one. Fields that are
      not named may stand beside them; a dataclass leaves them out.
    name: The value's, for the message.

  Raises:
    ValueError: Names the place that does not fit; `errors.damaged` adds the file and the remedy.

  Example:
    check({'rows': [-1]}, {'rows': list[int]}, 'shard')  # shard.rows[0] is -1, not a whole number …
  """
  if isinstance(kind, dict):
    _check_type(value, dict, name)
    for field in kind:
      if field not in value:
        raise ValueError(f'{name}.{field} is missing')
    return value | {field: check(value[field], of, f'{name}.{field}') for field, of in kind.items()}
  if dataclasses.is_dataclass(kind):
    _check_type(value, dict, name)
    kinds, fields = typing.get_type_hints(kind), dataclasses.fields(kind)
    needed = {f.name for f in fields if f.default is f.default_factory}  # both are MISSING
    wanted = {f.name: kinds[f.name] for f in fields if f.name in needed | value.keys()}
    made = check(value, wanted, name)
    return typing.cast(Any, kind)(**{field: made[field] for field in wanted})
  origin, inside = typing.get_origin(kind) or kind, typing.get_args(kind)
  _check_type(value, list if origin is tuple else origin, name)
  if origin in (list, tuple) and inside:
    return origin(check(item, inside[0], f'{name}[{i}]') for i, item in enumerate(value))
  if origin is dict and inside and inside[1] is not Any:
    return {key: check(item, inside[1], f'{name}[{key!r}]') for key, item in value.items()}
  return value


_NAMES = {dict: 'an object', list: 'a list', str: 'a text', bool: 'true or false', float: 'a float'}


def _check_type(value: Any, kind: type, name: str) -> None:
  fits = isinstance(value, kind)
  if kind is int:
    fits = fits and not isinstance(value, bool) and 0 <= value < 1 << 62
  if not fits:
    said = repr(value) if len(repr(value)) < 40 else f'a {type(value).__name__}'
    raise ValueError(f'{name} is {said}, not {_NAMES.get(kind, "a whole number from 0")}')
