"""TF Serving's gRPC services: Predict, GetModelMetadata, GetModelStatus; and gRPC's health check.

Messages are awaited and parsed here, not by gRPC: bytes that are no message are the sender's mistake
(INVALID_ARGUMENT), not the server's, and a call whose message does not come makes room for others.
"""

import math
import resource
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
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

from common.local_server import wire
from common.local_server.errors import ServingError, invalid, unavailable
from common.local_server.places import Places
from common.local_server.predict import Predictor

_CALLS = 64  # whose messages are awaited or worked on
_SAFE = 1.0  # seconds in which a message may come before another call is given its place
_WAIT = 60.0  # seconds that a call waits for a place
_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # that the process may have open
_OPTIONS = {
  'grpc.so_reuseport': 0,
  'grpc.max_send_message_length': -1,
  'grpc.max_allowed_incoming_connections': max(64, min(4096, _FILES - 512)),
  'grpc.max_concurrent_streams': 128,  # a connection
  'grpc.max_connection_idle_ms': 30_000,
  'grpc.server_handshake_timeout_ms': 5_000,
}
_RANK = 64  # dimensions that NumPy has
_PLAIN: dict[int, type[np.generic]] = {types_pb2.DT_FLOAT: np.float32, types_pb2.DT_INT8: np.int8}
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
    self._places = Places(_CALLS)
    options = [*_OPTIONS.items(), ('grpc.max_receive_message_length', max_bytes)]
    threads = futures.ThreadPoolExecutor(2 * _CALLS)  # others wait for a place
    self._server = grpc.server(threads, options=options, maximum_concurrent_rpcs=16 * _CALLS)
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
      handlers = {  # a call of one message is a stream of one, which can be waited for here
        name: grpc.stream_unary_rpc_method_handler(
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

  def stop(self, grace: float) -> threading.Event:
    """Accepts nothing more; the event is set when all is finished, `grace` seconds at the most."""
    self._health.enter_graceful_shutdown()
    return self._server.stop(grace)

  def _handler(self, message_type: type[Message], method: Callable[..., Message]) -> Callable:
    inside = wire.PREDICT if message_type is predict_pb2.PredictRequest else wire.OTHER

    def answer(messages: Iterator[bytes], request: Message, context: Any) -> Message:
      if not self._places.take(context, min(_WAIT, context.time_remaining())):
        raise unavailable(f'{_CALLS} calls are here already; send it again later')
      try:
        self._places.wait_for(context, context.cancel, _SAFE)
        data = next(messages, b'')
        self._places.serve(context)
        wire.check(data, inside)
        try:
          request.ParseFromString(data)
        except DecodeError as error:
          raise invalid(f'the bytes are no {message_type.DESCRIPTOR.name}: {error}') from error
        del data
        return method(request, context)
      finally:
        self._places.leave(context)

    def handle(messages: Iterator[bytes], context: grpc.ServicerContext) -> Message:
      started, code, request = time.monotonic(), grpc.StatusCode.UNKNOWN, message_type()
      try:
        found = answer(messages, request, context)
        code = grpc.StatusCode.OK
        return found
      except grpc.RpcError:  # cancelled
        code = grpc.StatusCode.CANCELLED
        raise
      except ServingError as error:
        code, said = error.code, str(error)
      except Exception:
        traceback.print_exc()
        code, said = grpc.StatusCode.INTERNAL, 'a fault of the server; see its log'
      finally:
        name = getattr(request, 'model_spec', model_pb2.ModelSpec()).name
        self._predictor.answered(name, 'grpc', code.name, started)
      context.abort(code, said)
      raise AssertionError  # abort has raised

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

  A tensor's shape may be larger than what it carries, as its last value, or text, is then repeated:
  what is declared is looked at before anything is made.
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
    raise invalid(f'input {name!r} is no tensor: its shape {sizes[:9]} leaves sizes open')
  if len(sizes) > _RANK:
    raise invalid(f'input {name!r} is no tensor: {len(sizes)} dimensions; {_RANK} are the most')
  count = math.prod(sizes)
  carried = [values for field, values in proto.ListFields() if field.name.endswith('_val')]
  if more := [len(values) for values in carried if len(values) > 2 * max(count, 1)]:
    raise invalid(f'input {name!r} is no tensor: {more[0]:,} values for the shape {sizes[:9]}')
  texts = proto.string_val
  repeated = (count - len(texts)) * len(texts[-1]) if texts else 0
  try:
    return np.dtype(tf.as_dtype(proto.dtype).as_numpy_dtype).itemsize * count + repeated
  except (TypeError, KeyError) as error:
    raise invalid(f'input {name!r} is no tensor: its type is number {proto.dtype}') from error


def _array(proto: Any, name: str) -> np.ndarray:
  """A tensor as an array: over its bytes where they lie there as they are."""
  try:
    if (dtype := _PLAIN.get(proto.dtype)) and (content := proto.tensor_content):  # copied
      shape = [dim.size for dim in proto.tensor_shape.dim]
      return np.frombuffer(content, dtype).reshape(shape)
    return tf.make_ndarray(proto)
  except (ValueError, TypeError, KeyError, OverflowError) as error:
    raise invalid(f'input {name!r} is no tensor: {error}') from error
