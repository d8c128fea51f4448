"""Warm-up requests: what TensorFlow Serving calls while it loads a model, before any client does.

They are made from the signatures of a SavedModel, and are of its shapes, not of its data: a tensor
of one value is stored as that value alone.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from common import extras
from common.scoring import exported

_TOKENS = 8  # where word ids are asked for
_TEXT = b'warm up'


def requests(path: str, name: str, rows: Sequence[int]) -> list[bytes]:
  """Serialized `PredictionLog`s of every signature of a SavedModel.

  Args:
    path: The SavedModel's version folder.
    name: The server's name of the model.
    rows: Sizes of dimension 0, a request each; inputs of a fixed size keep theirs.

  Raises:
    InputError: If tensorflow-serving-api is not installed.
  """
  with extras.needed('serving'):
    from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2
  logs = []
  for signature, definition in exported.signature_definitions(path).items():
    for count in rows:
      request = predict_pb2.PredictRequest(
        model_spec=model_pb2.ModelSpec(name=name, signature_name=signature),
        inputs={key: _tensor(info, count) for key, info in definition.inputs.items()},
      )
      log = prediction_log_pb2.PredictionLog(
        predict_log=prediction_log_pb2.PredictLog(request=request)
      )
      logs.append(log.SerializeToString(deterministic=True))
  return logs


def _tensor(info: Any, rows: int) -> Any:
  """A tensor of one value, of what an input asks for."""
  first, *others = (dim.size for dim in info.tensor_shape.dim)
  first, *others = [rows if first < 0 else first, *(_TOKENS if d < 0 else d for d in others)]
  kind = tf.as_dtype(info.dtype)
  if kind == tf.string:
    return tf.make_tensor_proto([_TEXT] * first)
  tensor = tf.make_tensor_proto(1, kind)  # word id 1, as no text is of padding alone
  tensor.tensor_shape.CopyFrom(tf.TensorShape([first, *others]).as_proto())
  return tensor
