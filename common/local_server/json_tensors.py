"""Tensors in TF Serving's JSON: rows or columns, texts as they are or bytes as `{"b64": …}`."""

import base64
import binascii
import json
import reprlib
from typing import Any, NoReturn

import numpy as np

from common import files
from common.local_server.errors import invalid
from common.local_server.signatures import Arrays, Signature, Spec

_MOST = 1 << 22  # values of a body: lists and numbers as Python has them, of 30 to 100 bytes each


def parsed(body: bytes, fields: str) -> dict[str, Any]:
  """A request's body, an object with `fields`."""
  count = sum(map(body.count, (b',', b'[', b'{')))
  if count > _MOST:
    raise invalid(f'the body has {count:,} values and lists; {_MOST:,} are the most in JSON')
  try:
    found = json.loads(body, parse_constant=_no_number, object_pairs_hook=files.unique)
  except (ValueError, RecursionError) as error:
    raise invalid(f'the body is not JSON: {error}') from error
  if not isinstance(found, dict):
    raise invalid(f'the body is an object with {fields}')
  return found


def columns(instances: Any, signature: Signature, where: str) -> dict[str, list]:
  """Columns of rows: objects with an entry an input, or the values of the only input."""
  if not isinstance(instances, list) or not instances:
    raise invalid(f'{where}: "instances" is a list of rows, one or more')
  if not all(isinstance(row, dict) and row.keys() != {'b64'} for row in instances):
    return {only(signature, where): instances}
  if any(row.keys() != instances[0].keys() for row in instances):
    raise invalid(f'{where}: the rows of "instances" have different inputs')
  return {key: [row[key] for row in instances] for key in instances[0]}


def only(signature: Signature, where: str) -> str:
  """The name of the only input."""
  if len(signature.inputs) != 1:
    names = ', '.join(signature.inputs)
    raise invalid(f'{where}: takes {names}: name them')
  return next(iter(signature.inputs))


def array(value: Any, spec: Spec | None, where: str) -> np.ndarray:
  """An input as an array; what is no such tensor is refused."""
  if spec is None:
    return np.array([], object)  # refused with the names that there are
  try:
    if spec.dtype.name == 'string':
      return np.array(_texts(value, len(spec.shape)), object)
    return _numbers(value, spec)
  except (ValueError, TypeError, OverflowError) as error:
    raise invalid(f'{where} is not {spec}: {error}') from error


def _no_number(name: str) -> NoReturn:
  raise ValueError(f'{name} is no number there')


def _numbers(value: Any, spec: Spec) -> np.ndarray:
  _check_numbers(value, len(spec.shape))
  array, dtype = np.array(value), spec.dtype
  if array.dtype.kind not in 'iuf' or (array.dtype.kind == 'f' and dtype.is_integer):
    raise ValueError(f'{array.dtype.name} is not {dtype.name}')
  if beyond := array[(array < dtype.min) | (array > dtype.max)].ravel()[:1].tolist():
    raise ValueError(f'{beyond[0]} is beyond {dtype.name}')
  return array.astype(dtype.as_numpy_dtype)


def _check_numbers(value: Any, depth: int) -> None:
  """Numbers in lists within lists: of texts among them NumPy would make as many of the longest."""
  if not depth:
    if type(value) not in (int, float):
      raise ValueError(f'{reprlib.repr(value)} is no number')
  elif not isinstance(value, list):
    raise ValueError(f'{reprlib.repr(value)} is no list')
  elif depth > 1 or not {int, float}.issuperset(map(type, value)):
    for one in value:
      _check_numbers(one, depth - 1)


def _texts(value: Any, depth: int) -> Any:
  """Bytes in lists within lists, as many as the input has dimensions."""
  if depth:
    if not isinstance(value, list):
      raise ValueError(f'{reprlib.repr(value)} is no list')
    return [_texts(one, depth - 1) for one in value]
  if isinstance(value, dict) and value.keys() == {'b64'}:
    try:
      return base64.b64decode(value['b64'], validate=True)
    except binascii.Error as error:
      raise ValueError(f'b64: {error}') from error
  if not isinstance(value, str):
    raise ValueError(f'{reprlib.repr(value)} is no text')
  return value.encode()


def by_column(outputs: Arrays) -> dict[str, Any]:
  """The answer to columns: the only output, or all by name."""
  if len(outputs) == 1:
    return {'outputs': _json(next(iter(outputs.values())))}
  return {'outputs': {name: _json(value) for name, value in outputs.items()}}


def by_row(outputs: Arrays) -> dict[str, Any]:
  """The answer to rows: of the only output, or objects of all."""
  columns = {name: _json(value) for name, value in outputs.items()}
  if len(columns) == 1:
    return {'predictions': next(iter(columns.values()))}
  rows = zip(*columns.values(), strict=True)
  return {'predictions': [dict(zip(columns, row, strict=True)) for row in rows]}


def _json(value: np.ndarray) -> Any:
  """Bytes as texts where they are UTF-8, else as `{"b64": …}`."""
  if value.dtype != object:
    return value.tolist()
  return [_json(one) if isinstance(one, np.ndarray) else _text(one) for one in value]


def _text(value: bytes) -> Any:
  try:
    return value.decode()
  except UnicodeDecodeError:
    return {'b64': base64.b64encode(value).decode()}
