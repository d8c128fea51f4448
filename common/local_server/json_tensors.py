"""Tensors in TF Serving's JSON: rows or columns, texts as they are or bytes as `{"b64": …}`."""

import base64
import binascii
import reprlib
from typing import Any

import numpy as np

from common.errors import InputError
from common.local_server.signatures import Arrays, Signature, Spec


def inputs(body: dict[str, Any], signature: Signature) -> Arrays:
  """The inputs of a body, by 'instances' (rows) or 'inputs' (columns); raises InputError."""
  if len({'instances', 'inputs'} & body.keys()) != 1:
    raise InputError('the body must have either "instances" (rows) or "inputs" (columns)')
  columns = _columns(body['instances'], signature) if 'instances' in body else body['inputs']
  if not isinstance(columns, dict):
    columns = {_only_input(signature): columns}
  return {
    name: _array(value, signature.inputs[name], f'{signature.where}: input {name!r}')
    if name in signature.inputs
    else np.array([])  # refused by its name
    for name, value in columns.items()
  }


def outputs(found: Arrays, by_row: bool) -> dict[str, Any]:
  """The answer: the only output, or all of them, by row or by column."""
  columns = {name: _json(value) for name, value in found.items()}
  if len(columns) == 1:
    (only,) = columns.values()
    return {'predictions' if by_row else 'outputs': only}
  if not by_row:
    return {'outputs': columns}
  rows = zip(*columns.values(), strict=True)
  return {'predictions': [dict(zip(columns, row, strict=True)) for row in rows]}


def _columns(instances: Any, signature: Signature) -> dict[str, list]:
  """Columns of rows: objects with an entry an input, or the values of the only input."""
  if not isinstance(instances, list) or not instances:
    raise InputError(f'{signature.where}: "instances" must be a list of rows, one or more')
  if not all(isinstance(row, dict) and row.keys() != {'b64'} for row in instances):
    return {_only_input(signature): instances}
  if any(row.keys() != instances[0].keys() for row in instances):
    raise InputError(f'{signature.where}: the rows of "instances" have different inputs')
  return {key: [row[key] for row in instances] for key in instances[0]}


def _only_input(signature: Signature) -> str:
  if len(signature.inputs) != 1:
    raise InputError(f'{signature.where}: takes {", ".join(signature.inputs)}: name them')
  return next(iter(signature.inputs))


def _array(value: Any, spec: Spec, where: str) -> np.ndarray:
  convert = _texts if spec.dtype.name == 'string' else _numbers
  try:
    # Of lists of different lengths NumPy makes an array of lists, which is refused.
    return convert(np.array(value, object), spec)
  except (ValueError, TypeError, OverflowError) as error:
    raise InputError(f'{where} is not {spec}: {error}') from error


def _texts(values: np.ndarray, spec: Spec) -> np.ndarray:
  del spec
  return np.array([_bytes(one) for one in values.ravel()], object).reshape(values.shape)


def _bytes(value: Any) -> bytes:
  if isinstance(value, dict) and value.keys() == {'b64'}:
    try:
      return base64.b64decode(value['b64'], validate=True)
    except binascii.Error as error:
      raise ValueError(f'b64: {error}') from error
  if not isinstance(value, str):
    raise ValueError(f'{reprlib.repr(value)} is no text')
  return value.encode()


def _numbers(values: np.ndarray, spec: Spec) -> np.ndarray:
  dtype = spec.dtype
  kind = int if dtype.is_integer else float
  least, most = kind(dtype.min), kind(dtype.max)
  for one in values.ravel():
    if type(one) not in (int, kind):  # bool is another type
      raise ValueError(f'{reprlib.repr(one)} is no {dtype.name}')
    if not least <= one <= most:
      raise ValueError(f'{reprlib.repr(one)} is beyond {dtype.name}')
  return values.astype(dtype.as_numpy_dtype)


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
