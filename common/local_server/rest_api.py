"""TF Serving's REST API: `:predict`, status and metadata of a model."""

import re

from google.protobuf import json_format
from werkzeug.exceptions import MethodNotAllowed, NotFound
from werkzeug.wrappers import Request, Response

from common.errors import InputError
from common.local_server import grpc_api, json_tensors
from common.local_server.models import Model, Models, NotFoundError
from common.serving.web import json_object, json_response

_PATH = re.compile(r'/v1/models/([^/:]+)(?:/versions/(\d{1,18}))?(/metadata|:predict)?')


class RestApi:
  """Answers of the REST port.

  Args:
    models: Models that are served.
  """

  def __init__(self, models: Models):
    self._models = models

  def answer(self, request: Request) -> Response:
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
      model = self._models.find(name, int(version) if version else None)
      if what == ':predict':
        return _predict(model, request)
    except NotFoundError as error:
      raise NotFound(str(error)) from error
    message = grpc_api.metadata(model) if what else grpc_api.status(model)
    text = json_format.MessageToJson(message, preserving_proto_field_name=True)
    return Response(text, content_type='application/json')


def _predict(model: Model, request: Request) -> Response:
  body = json_object(request)
  name = body.get('signature_name', '')
  if not isinstance(name, str):
    raise InputError('signature_name must be a text')
  signature = model.signature(name)
  outputs = model.predict(signature, json_tensors.inputs(body, signature))
  return json_response(json_tensors.outputs(outputs, 'instances' in body))
