"""What JSON that this program wrote must be: its fields' types, compared before they are used."""

from typing import Any


def check(value: Any, schema: Any, name: str = 'its content') -> None:
  """Refuses a value that does not fit.

  Args:
    value: From a JSON file.
    schema: A type, where `int` is a whole number from 0; a list of one schema, for each item; or a dict of
      the fields that there must be, beside which others may stand.
    name: The value's, for the message.

  Raises:
    ValueError: Names the place; `errors.damaged` adds the file and the remedy.

  Example:
    check({'rows': [-1]}, {'rows': [int]}, 'shard')  # shard.rows[0] is -1, not a whole number from 0
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


_NAMES = {dict: 'an object', list: 'a list', str: 'a text', bool: 'true or false', float: 'a float'}


def _check_type(value: Any, kind: type, name: str) -> None:
  fits = isinstance(value, kind)
  if kind is int:
    fits = fits and not isinstance(value, bool) and 0 <= value < 1 << 62
  if not fits:
    said = repr(value) if len(repr(value)) < 40 else f'a {type(value).__name__}'
    raise ValueError(f'{name} is {said}, not {_NAMES.get(kind, "a whole number from 0")}')
