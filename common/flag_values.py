"""Values that a flag may have, and their text."""

import dataclasses
import re
from typing import Any, get_args, get_origin

from common import extras
from common.errors import InputError

with extras.needed(''):
  from absl import flags

_PASSWORD = re.compile(r'://[^/\s]*:[^/\s]*@')


def of_field(name: str, hint: Any, field: dataclasses.Field, value: Any) -> Any:
  """A flag's value as its config's field has it: of a list, a tuple of the field's type.

  Args:
    name: The flag's.
    hint: The field's type.
    field: The field.
    value: As absl read it.

  Raises:
    InputError: It is not of that type, or not within the field's bounds.
  """
  if get_origin(hint) is tuple:
    of_items = get_args(hint)[0]
    try:
      value = tuple(of_items(item) for item in value)
    except ValueError as error:
      raise InputError(f'--{name}={",".join(value)}: {error}') from error
  _check(name, value, field)
  return value


def span(bounds: tuple[float, float]) -> str:
  """The least and the most that a number may be, as help and errors have them."""
  return f'{bounds[0]:,} to {bounds[1]:,}'


def text(value: Any) -> str:
  """A value as a command line takes it."""
  if isinstance(value, bool):
    return str(value).lower()
  if isinstance(value, (tuple, list)):
    return flags.CsvListSerializer(',').serialize([str(item) for item in value])
  return str(value)


def _check(name: str, value: Any, field: dataclasses.Field) -> None:
  """Refuses a number out of the option's bounds, as NaN is, and an empty list in place of some."""
  bounds, several = field.metadata['bounds'], isinstance(value, tuple)
  if several and field.default and not value and not field.metadata['may_be_empty']:
    raise InputError(f'--{name}: empty; one or more are needed')
  for part in value if several else (value,):
    if isinstance(part, str) and _PASSWORD.search(part):
      raise InputError(f'--{name}: leave the password out of the URL: flags are kept and shown')
    if isinstance(part, str) and ('\n' in part or '\r' in part):
      raise InputError(f'--{name}: a line break; flags are kept one a line')
  for number in () if bounds is None else value if several else (value,):
    if not (isinstance(number, (int, float)) and bounds[0] <= number <= bounds[1]):
      raise InputError(f'--{name}={text(value)}: a number from {span(bounds)} is needed')
