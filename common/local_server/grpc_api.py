"""TF Serving's gRPC services: Predict, GetModelMetadata, GetModelStatus."""

import math
import traceback
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError, Message
from tensorflow_serving.apis.get_model_metadata_pb2 import (
  GetModelMetadataRequest,
  GetModelMetadataResponse,
  SignatureDefMap,
)
from tensorflow_serving.apis.get_model_status_pb2 import (
  GetModelStatusRequest,
  GetModelStatusResponse,
  ModelVersionStatus,
)
from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse

from common.errors import InputError
from common.local_server.models import Arrays, Model, NotFoundError, find

_CALLS = 16  # at a time; others wait
_LONGEST = 500  # characters of an error, which travels among the headers, of 8 KB in all
_SIGNATURES = 'signature_def'


def serve(models: Mapping[str, Model], address: str, max_bytes: int) -> tuple[grpc.Server, int]:
  """Starts the gRPC server, and gives its port.

  Args:
    models: Models by name.
    address: 'host:port'; port 0: any that is free.
    max_bytes: Most bytes of a request.

  Raises:
    RuntimeError: If the address cannot be listened to.
  """

  def model_of(request: Any) -> Model:
    spec = request.model_spec
    if spec.version_label:
      raise InputError(f'version_label {spec.version_label[:100]!r}: not served; give the number')
    return find(models, spec.name, spec.version.value if spec.HasField('version') else None)

  def predict(request: Any) -> Message:
    model = model_of(request)
    signature = model.signature(request.model_spec.signature_name)
    outputs = signature.predict(_arrays(request.inputs, max_bytes), list(request.output_filter))
    answer = PredictResponse()
    answer.model_spec.name, answer.model_spec.signature_name = model.name, signature.name
    answer.model_spec.version.value = model.version
    for name, value in outputs.items():
      answer.outputs[name].CopyFrom(tf.make_tensor_proto(value))
    return answer

  def metadata_of(request: Any) -> Message:
    if unknown := [field for field in request.metadata_field if field != _SIGNATURES]:
      raise InputError(f'metadata_field {unknown[0][:100]!r}; {_SIGNATURES} is the only one')
    return metadata(model_of(request))

  options = [
    ('grpc.so_reuseport', 0),  # a port that is taken is refused
    ('grpc.max_receive_message_length', max_bytes),
    ('grpc.max_send_message_length', -1),
  ]
  server = grpc.server(futures.ThreadPoolExecutor(_CALLS), options=options)
  for service, name, message, answer in (
    ('PredictionService', 'Predict', PredictRequest, predict),
    ('PredictionService', 'GetModelMetadata', GetModelMetadataRequest, metadata_of),
    ('ModelService', 'GetModelStatus', GetModelStatusRequest, lambda of: status(model_of(of))),
  ):
    handlers = {name: _handler(message, answer)}
    of_service = grpc.method_handlers_generic_handler(f'tensorflow.serving.{service}', handlers)
    server.add_generic_rpc_handlers((of_service,))
  port = server.add_insecure_port(address)
  server.start()
  return server, port


def _handler(message: type[Message], answer: Callable[[Any], Message]) -> grpc.RpcMethodHandler:
  """Parses requests, and answers or refuses them.

  gRPC itself would call bytes that are no message a fault of the server.
  """

  def handle(data: bytes, context: grpc.ServicerContext) -> Message:
    try:
      return answer(message.FromString(data))
    except DecodeError as error:
      code = grpc.StatusCode.INVALID_ARGUMENT
      said = f'the bytes are no {message.DESCRIPTOR.name}: {error}'
    except NotFoundError as error:
      code, said = grpc.StatusCode.NOT_FOUND, str(error)
    except InputError as error:
      code, said = grpc.StatusCode.INVALID_ARGUMENT, str(error)
    except Exception:
      traceback.print_exc()
      code, said = grpc.StatusCode.INTERNAL, 'a fault of the server; see its log'
    context.abort(code, said[:_LONGEST])
    raise AssertionError  # abort has raised

  return grpc.unary_unary_rpc_method_handler(handle, None, lambda sent: sent.SerializeToString())


def metadata(model: Model) -> Message:
  """A model's signatures."""
  answer = GetModelMetadataResponse()
  answer.model_spec.name = model.name
  answer.model_spec.version.value = model.version
  signatures = SignatureDefMap()
  for key, definition in model.definitions.items():
    signatures.signature_def[key].CopyFrom(definition)
  answer.metadata[_SIGNATURES].Pack(signatures)
  return answer


def status(model: Model) -> Message:
  """A model's version, which is available."""
  answer = GetModelStatusResponse()
  one = answer.model_version_status.add(version=model.version)
  one.state = ModelVersionStatus.State.AVAILABLE
  one.status.error_code = 0
  return answer


def _arrays(protos: Mapping[str, Any], max_bytes: int) -> Arrays:
  """The inputs as arrays, of no more bytes than a request may have."""
  found: Arrays = {}
  left = max_bytes
  for name, proto in protos.items():
    try:
      left -= _declared_bytes(proto)
      if left < 0:
        raise ValueError(f'its shape makes the inputs larger than {max_bytes:,} bytes')
      found[name] = tf.make_ndarray(proto)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
      raise InputError(f'input {name!r} is no tensor: {error}') from error
  return found


def _declared_bytes(proto: Any) -> int:
  """Bytes of a tensor once it is made; its last value, or text, is repeated to fill its shape."""
  sizes = [dim.size for dim in proto.tensor_shape.dim]
  if proto.tensor_shape.unknown_rank or min(sizes, default=0) < 0:
    raise ValueError(f'its shape {sizes[:9]} leaves sizes open')
  count, texts = math.prod(sizes), proto.string_val
  repeated = (count - len(texts)) * len(texts[-1]) if texts else 0
  return count * np.dtype(tf.as_dtype(proto.dtype).as_numpy_dtype).itemsize + repeated
