"""TF Serving's REST API: `:predict` in rows or columns, status and metadata of a model."""

import re
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf import json_format
from werkzeug.exceptions import MethodNotAllowed, NotFound
from werkzeug.wrappers import Request, Response

from common.errors import InputError
from common.local_server import grpc_api
from common.local_server.models import Arrays, Model, NotFoundError, Signature, Spec, find
from common.local_server.web import json_object, json_response

_PATH = re.compile(r'/v1/models/([^/:]+)(?:/versions/(\d{1,18}))?(/metadata|:predict)?')


def answer(models: Mapping[str, Model], request: Request) -> Response:
  """The answer to a request; raises Werkzeug's errors and InputError."""
  asked = f'{request.method} {request.path}'
  found = _PATH.fullmatch(request.path)
  if not found:
    raise NotFound(f'{asked}: no such path; models are at /v1/models/NAME')
  name, version, what = found.groups()
  method = 'POST' if what == ':predict' else 'GET'
  if request.method != method:
    raise MethodNotAllowed([method], f'{asked}: GET a model, or POST :predict')
  try:
    model = find(models, name, int(version) if version else None)
    if what == ':predict':
      return _predict(model, json_object(request))
  except NotFoundError as error:
    raise NotFound(str(error)) from error
  message = grpc_api.metadata(model) if what else grpc_api.status(model)
  text = json_format.MessageToJson(message, preserving_proto_field_name=True)
  return Response(text, content_type='application/json')


def _predict(model: Model, body: dict[str, Any]) -> Response:
  name = body.get('signature_name', '')
  if not isinstance(name, str):
    raise InputError('signature_name must be a text')
  signature = model.signature(name)
  outputs = signature.predict(_inputs(body, signature))
  columns = {key: value.tolist() for key, value in outputs.items()}
  only = next(iter(columns.values())) if len(columns) == 1 else None
  if 'inputs' in body:
    return json_response({'outputs': columns if only is None else only})
  rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
  return json_response({'predictions': rows if only is None else only})


def _inputs(body: dict[str, Any], signature: Signature) -> Arrays:
  """The inputs of a body, by 'instances' (rows) or 'inputs' (columns)."""
  if len({'instances', 'inputs'} & body.keys()) != 1:
    raise InputError('the body must have either "instances" (rows) or "inputs" (columns)')
  columns = _columns(body['instances'], signature) if 'instances' in body else body['inputs']
  if not isinstance(columns, dict):
    if len(signature.inputs) != 1:
      raise InputError(f'{signature.where}: takes {", ".join(signature.inputs)}: name them')
    columns = dict.fromkeys(signature.inputs, columns)
  return {
    name: _array(value, signature.inputs[name], f'{signature.where}: input {name!r}')
    if name in signature.inputs
    else np.array([])  # refused by its name
    for name, value in columns.items()
  }


def _columns(instances: Any, signature: Signature) -> Any:
  """Columns of rows that are objects with an entry an input; other rows as they are."""
  if not isinstance(instances, list) or not instances:
    raise InputError(f'{signature.where}: "instances" must be a list of rows, one or more')
  if not all(isinstance(row, dict) for row in instances):
    return instances
  if any(row.keys() != instances[0].keys() for row in instances):
    raise InputError(f'{signature.where}: the rows of "instances" have different inputs')
  return {key: [row[key] for row in instances] for key in instances[0]}


def _array(value: Any, spec: Spec, where: str) -> np.ndarray:
  """A column as an array of texts, in UTF-8, or of numbers."""
  dtype = spec.dtype
  try:
    cells = np.array(value, object)  # lists of different lengths stay lists, which are refused
    if dtype.name == 'string':
      texts = [_utf8(cell) for cell in cells.ravel()]
      return np.array(texts, object).reshape(cells.shape)
    kind = int if dtype.is_integer else float
    least, most = kind(dtype.min), kind(dtype.max)
    for cell in cells.ravel():
      if type(cell) not in (int, kind):  # bool is another type
        raise ValueError(f'{reprlib.repr(cell)} is no {dtype.name}')
      if not least <= cell <= most:
        raise ValueError(f'{reprlib.repr(cell)} is beyond {dtype.name}')
    return cells.astype(dtype.as_numpy_dtype)
  except (ValueError, TypeError, OverflowError) as error:
    raise InputError(f'{where} is not {spec}: {error}') from error


def _utf8(cell: Any) -> bytes:
  if not isinstance(cell, str):
    raise ValueError(f'{reprlib.repr(cell)} is no text')
  return cell.encode()
