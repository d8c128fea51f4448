"""TF Serving's REST API: `:predict`, status, metadata; and metrics and health.

Rows (`instances`) or columns (`inputs`), texts as they are or `{"b64": …}` for bytes. Errors are
`{"error": …}` with the status of what was wrong.
"""

import re
import threading
from http import HTTPStatus

from google.protobuf import json_format

from common.local_server import grpc_api, json_tensors
from common.local_server.errors import SHOWN, ServingError, invalid, not_allowed, not_found
from common.local_server.http_front import Answer, json_answer
from common.local_server.models import Version
from common.local_server.predict import Predictor
from common.local_server.signatures import Arrays, Signature

_MODEL = re.compile(r'/v1/models/([^/:]+)(?:/versions/(\d{1,18}))?(/metadata|:\w+)?')


class RestApi:
  """Answers of the REST port.

  Args:
    predictor: Answers.
  """

  def __init__(self, predictor: Predictor):
    self._predictor = predictor
    self._parsing = threading.Lock()  # one body at a time is Python's lists, ten times its size

  def answer(self, method: str, path: str, body: bytes) -> Answer:
    """The answer to a request; raises ServingError."""
    if (method, path) == ('GET', '/healthz'):
      return 'text/plain; charset=utf-8', b'ok\n'
    if (method, path) == ('GET', '/monitoring/prometheus/metrics'):
      return 'text/plain; version=0.0.4; charset=utf-8', self._predictor.metrics.text()
    found = _MODEL.fullmatch(path)
    if not found:
      raise not_found(f'{method} {path}: no such path; models are at /v1/models/NAME')
    name, version, what = found[1], int(found[2]) if found[2] else None, found[3]
    if (method, what) == ('POST', ':predict'):
      return self._predict(name, version, body)
    if method == 'GET' and what in (None, '/metadata'):
      get = grpc_api.metadata if what else grpc_api.status
      message = get(self._predictor, name, version)
      text = json_format.MessageToJson(message, preserving_proto_field_name=True)
      return 'application/json', text.encode()
    raise not_allowed(f'{method} {path}: GET a model, or POST :predict')

  def answered(self, path: str, code: HTTPStatus, started: float) -> None:
    """Counts an answer."""
    found = _MODEL.fullmatch(path)
    self._predictor.answered(found[1] if found else '', 'rest', str(code.value), started)

  def _predict(self, name: str, version: int | None, body: bytes) -> Answer:
    found = self._predictor.models.find(name, version)
    with self._parsing:
      signature, inputs, rows = _request(body, found)
    where = f'model {name!r}, signature {signature.name!r}'
    _, _, outputs = self._predictor.predict(name, version, signature.name, inputs)
    try:
      return json_answer(json_tensors.by_row(outputs) if rows else json_tensors.by_column(outputs))
    except ServingError as error:
      raise ServingError(f'{where}: {error}', error.code) from error


def _request(body: bytes, version: Version) -> tuple[Signature, Arrays, bool]:
  """A body's signature and inputs, and whether they came in rows."""
  fields = 'either "instances" (rows) or "inputs" (columns)'
  request = json_tensors.parsed(body, fields)
  if len({'instances', 'inputs'} & request.keys()) != 1:
    raise invalid(f'the body is an object with {fields}')
  key = request.get('signature_name', '')
  if not isinstance(key, str):
    raise invalid('signature_name is a text')
  signature = version.signature(key)
  rows = 'instances' in request
  where = f'model {version.model!r}, signature {signature.name!r}'
  columns = (
    json_tensors.columns(request['instances'], signature, where) if rows else request['inputs']
  )
  if not isinstance(columns, dict):
    columns = {json_tensors.only(signature, where): columns}
  inputs = {
    key: json_tensors.array(value, signature.inputs.get(key), f'{where}: input {key[:SHOWN]!r}')
    for key, value in columns.items()
  }
  return signature, inputs, rows
