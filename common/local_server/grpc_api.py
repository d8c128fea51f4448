"""TF Serving's gRPC services: Predict, GetModelMetadata, GetModelStatus; and gRPC's health check.

Messages are parsed here, not by gRPC: bytes that are no message are the sender's mistake
(INVALID_ARGUMENT), not the server's.
"""

import math
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (
  get_model_metadata_pb2,
  get_model_status_pb2,
  model_pb2,
  predict_pb2,
)

from common.local_server.errors import ServingError, invalid
from common.local_server.predict import Predictor

_THREADS = 64
_SIGNATURES = 'signature_def'


class GrpcFront:
  """The gRPC port.

  Args:
    predictor: Answers.
    address: 'host:port'; port 0: any that is free.
    max_bytes: Most bytes of a request.
  """

  def __init__(self, predictor: Predictor, address: str, max_bytes: int):
    self._predictor, self._max_bytes = predictor, max_bytes
    options = [('grpc.max_receive_message_length', max_bytes), ('grpc.so_reuseport', 0)]
    options.append(('grpc.max_send_message_length', -1))
    self._server = grpc.server(futures.ThreadPoolExecutor(_THREADS), options=options)
    services: dict[str, dict[str, tuple[type[Message], Callable[..., Message]]]] = {
      'tensorflow.serving.PredictionService': {
        'Predict': (predict_pb2.PredictRequest, self._predict),
        'GetModelMetadata': (get_model_metadata_pb2.GetModelMetadataRequest, self._metadata),
      },
      'tensorflow.serving.ModelService': {
        'GetModelStatus': (get_model_status_pb2.GetModelStatusRequest, self._status),
      },
    }
    for service, methods in services.items():
      handlers = {
        name: grpc.unary_unary_rpc_method_handler(
          self._handler(message_type, method), None, lambda message: message.SerializeToString()
        )
        for name, (message_type, method) in methods.items()
      }
      handler = grpc.method_handlers_generic_handler(service, handlers)
      self._server.add_generic_rpc_handlers((handler,))
    self._health = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
    self._health.set('', health_pb2.HealthCheckResponse.SERVING)
    self.port = self._server.add_insecure_port(address)
    self._server.start()

  def close(self, grace: float) -> None:
    """Accepts nothing more; waits for what was accepted."""
    self._health.enter_graceful_shutdown()
    self._server.stop(grace).wait()

  def _handler(self, message_type: type[Message], method: Callable[..., Message]) -> Callable:
    def handle(data: bytes, context: grpc.ServicerContext) -> Message:
      started, code, request = time.monotonic(), grpc.StatusCode.UNKNOWN, message_type()
      try:
        try:
          request.ParseFromString(data)
        except DecodeError as error:
          raise invalid(f'the bytes are no {message_type.DESCRIPTOR.name}: {error}') from error
        answer = method(request, context)
        code = grpc.StatusCode.OK
        return answer
      except ServingError as error:
        code = error.code
        context.abort(error.code, str(error))
        raise AssertionError from error  # abort has raised
      finally:
        name = getattr(request, 'model_spec', model_pb2.ModelSpec()).name
        self._predictor.answered(name, 'grpc', code.name, started)

    return handle

  def _predict(self, request: Any, context: grpc.ServicerContext) -> Message:
    spec = request.model_spec
    version, signature, outputs = self._predictor.predict(
      spec.name,
      _version(spec),
      spec.signature_name,
      _arrays(request.inputs, self._max_bytes),
      output_filter=list(request.output_filter),
      seconds=context.time_remaining(),
      wanted=context.is_active,
    )
    answer = predict_pb2.PredictResponse()
    answer.model_spec.name, answer.model_spec.signature_name = spec.name, signature.name
    answer.model_spec.version.value = version.number
    for name, value in outputs.items():
      answer.outputs[name].CopyFrom(tf.make_tensor_proto(value))
    return answer

  def _metadata(self, request: Any, context: grpc.ServicerContext) -> Message:
    del context
    if unknown := [field for field in request.metadata_field if field != _SIGNATURES]:
      raise invalid(f'metadata_field {unknown[0]!r}; {_SIGNATURES} is the only one')
    return metadata(self._predictor, request.model_spec.name, _version(request.model_spec))

  def _status(self, request: Any, context: grpc.ServicerContext) -> Message:
    del context
    return status(self._predictor, request.model_spec.name, _version(request.model_spec))


def metadata(predictor: Predictor, name: str, number: int | None) -> Message:
  """A model's signatures."""
  version = predictor.models.find(name, number)
  answer = get_model_metadata_pb2.GetModelMetadataResponse()
  answer.model_spec.name = name
  answer.model_spec.version.value = version.number
  signatures = get_model_metadata_pb2.SignatureDefMap()
  for key, definition in version.definitions.items():
    signatures.signature_def[key].CopyFrom(definition)
  answer.metadata[_SIGNATURES].Pack(signatures)
  return answer


def status(predictor: Predictor, name: str, number: int | None) -> Message:
  """A model's versions: AVAILABLE, or END with the reason."""
  if number is not None:
    predictor.models.find(name, number)
  answer = get_model_status_pb2.GetModelStatusResponse()
  states = get_model_status_pb2.ModelVersionStatus.State
  for version, why in predictor.models.status(name):
    if number in (None, version):
      one = answer.model_version_status.add(version=version)
      one.state = states.END if why else states.AVAILABLE
      one.status.error_code = grpc.StatusCode.UNKNOWN.value[0] if why else 0
      one.status.error_message = why
  return answer


def _version(spec: Any) -> int | None:
  if spec.version_label:
    raise invalid(f'version_label {spec.version_label!r}: labels are not served; give the number')
  return spec.version.value if spec.HasField('version') else None


def _arrays(protos: Mapping[str, Any], max_bytes: int) -> dict[str, np.ndarray]:
  """The inputs as arrays, of no more bytes than a request may have.

  A tensor's shape may be larger than what it carries, as its last value is then repeated: what is
  declared is looked at before anything is made.
  """
  arrays, declared = {}, 0
  for name, proto in protos.items():
    declared += _declared_bytes(proto, name)
    if declared > max_bytes:
      raise invalid(
        f'input {name!r}: the shapes of the inputs up to it are of {declared:,} bytes; '
        f'a request has {max_bytes:,} at the most'
      )
    arrays[name] = _array(proto, name)
  return arrays


def _declared_bytes(proto: Any, name: str) -> int:
  sizes = [dim.size for dim in proto.tensor_shape.dim]
  if proto.tensor_shape.unknown_rank or min(sizes, default=0) < 0:
    raise invalid(f'input {name!r} is no tensor: its shape {sizes} leaves sizes open')
  try:
    return np.dtype(tf.as_dtype(proto.dtype).as_numpy_dtype).itemsize * math.prod(sizes)
  except (TypeError, KeyError) as error:
    raise invalid(f'input {name!r} is no tensor: its type is number {proto.dtype}') from error


def _array(proto: Any, name: str) -> np.ndarray:
  """A tensor as an array: over its bytes where they lie there as they are."""
  try:
    if proto.dtype == types_pb2.DT_FLOAT and (content := proto.tensor_content):  # copied
      shape = [dim.size for dim in proto.tensor_shape.dim]
      return np.frombuffer(content, np.float32).reshape(shape)
    return tf.make_ndarray(proto)
  except (ValueError, TypeError, KeyError) as error:
    raise invalid(f'input {name!r} is no tensor: {error}') from error
