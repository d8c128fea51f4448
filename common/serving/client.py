"""A client of TF Serving, or of the local server: texts, word ids or vectors in, arrays out.

  client = Client('localhost:8500', 'p2t')
  products = client.encode(titles, 'right')
  client.score(client.encode(['nike shoes'] * len(titles), 'left'), products)
  scores, order = client.rank('nike shoes', products)

One client may be used by many threads.
"""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from common import extras
from common.data.texts import listed, shown
from common.errors import InputError

with extras.needed('serving'):
  import grpc
  import tensorflow as tf
  from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

Arrays = dict[str, np.ndarray]
_UNLIMITED = (('grpc.max_receive_message_length', -1), ('grpc.max_send_message_length', -1))
_CANDIDATES = 1024  # of a request to `online`, at the most
_NUMBERS = 1 << 21  # of a request: 8 MB
_RETRIES = {  # of a call that found the server unavailable, by gRPC itself
  'maxAttempts': 5,
  'initialBackoff': '0.05s',
  'maxBackoff': '1s',
  'backoffMultiplier': 2,
  'retryableStatusCodes': ['UNAVAILABLE'],
}
_SERVICE_CONFIG = {'methodConfig': [{'name': [{}], 'retryPolicy': _RETRIES}]}
_REPEATED = 1 << 26  # most bytes of a call that can be repeated


class ServingError(Exception):
  """A call that failed.

  Args:
    message: What was wrong, where, and what would be right.
    code: gRPC's status.
  """

  def __init__(self, message: str, code: grpc.StatusCode):
    super().__init__(message)
    self.code = code


class Client:
  """Calls the models of an export, served as `NAME_encoder`, `NAME_head` and `NAME_online`.

  Args:
    target: 'host:port' of gRPC.
    name: Name that the export's models start with.
    deadline: Seconds for a call, its repetitions included.
    max_batch: Most rows of a request to encoder or head, which the server batches, and fewer of
      wide vectors; longer calls become several.
  """

  def __init__(self, target: str, name: str, *, deadline: float = 10.0, max_batch: int = 128):
    if '://' in target:
      raise InputError(f'{target}: host:port of gRPC is needed, such as localhost:8500')
    options = (
      *_UNLIMITED,
      ('grpc.service_config', json.dumps(_SERVICE_CONFIG)),
      ('grpc.per_rpc_retry_buffer_size', _REPEATED),
    )
    channel = grpc.insecure_channel(target, options)
    self._stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    self.name, self.deadline, self.max_batch = name, deadline, max_batch

  def encode(self, texts: Sequence[str] | np.ndarray, side: str) -> np.ndarray:
    """Vectors [n, *vector shape] of a side's texts, or of vectors [n, w] in their place.

    Args:
      texts: Texts or vectors.
      side: 'left' or 'right'.

    Raises:
      InputError: If it is one text, or a row holds none.
      ServingError: As `call`.
    """
    return self._batched('encoder', side, _of_encoder(texts, side))['vectors']

  def score(self, *sides: np.ndarray, **named: np.ndarray) -> np.ndarray:
    """Scores [n] (or [n, C]) of pairs of vectors, row by row.

    Args:
      *sides: Left and right.
      **named: Or, of tuples of other than two, each slot's vectors by its name.

    Raises:
      InputError: If sides are neither two nor named, or one is no vectors.
      ServingError: As `call`.
    """
    if not named and len(sides) != 2:
      raise InputError(f'{len(sides)} sides given; left and right, or each slot by its name')
    named = named or dict(zip(('left', 'right'), sides, strict=True))
    vectors = {name: _vectors(side, name) for name, side in named.items()}
    return self._batched('head', 'serving_default', vectors)['score']

  def rank(
    self, text: str | np.ndarray, candidates: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray | None]:
    """Scores candidates' vectors for a text, or a vector [w] in its place.

    Args:
      text: The query.
      candidates: Vectors [n, *vector shape], n from 1.

    Returns:
      (scores [n], order [n]: rows of candidates, best first, ties as they came; of scores that
      float32 has alike, those of one request's candidates by logits). A model of C classes gives
      (scores [n, C], None): classes have no order of their own.

    Raises:
      InputError: If `text` is none, or the candidates are no vectors.
      ServingError: As `call`; of no candidates too, which the server refuses.
    """
    query = _of_encoder(text[None] if isinstance(text, np.ndarray) else [text], 'query')
    blocks = _blocks(_CANDIDATES, _vectors(candidates, 'candidates'))
    answers = [
      self.call('online', 'serving_default', {**query, 'candidates': block}) for (block,) in blocks
    ]
    scores = np.concatenate([answer['scores'] for answer in answers])
    if len(answers) == 1 or scores.ndim > 1:
      return scores, answers[0].get('order')
    # Of scores that float32 has alike, those of one answer stand as it ranked them, by logits.
    answer = np.repeat(np.arange(len(answers)), [len(one['scores']) for one in answers])
    places = np.concatenate([np.argsort(one['order']) for one in answers])
    return scores, np.lexsort((places, answer, -scores))

  def call(self, model: str, signature: str, inputs: Arrays) -> Arrays:
    """Sends one request; gRPC repeats it until the deadline while the server is unavailable.

    Args:
      model: 'encoder', 'head' or 'online'; or a whole name, of a model of another export.
      signature: Signature of the model.
      inputs: Inputs by name; texts as bytes.

    Raises:
      ServingError: With model, signature and reason.
    """
    name = f'{self.name}_{model}' if model in ('encoder', 'head', 'online') else model
    try:
      request = request_of(name, signature, inputs)
      answer = self._stub.Predict(request, timeout=self.deadline)
    except grpc.RpcError as error:
      shapes = ', '.join(f'{key} {list(value.shape)}' for key, value in inputs.items())
      where = f'model {name!r}, signature {signature!r}, inputs {shapes}'
      raise ServingError(f'{where}: {error.details()}', error.code()) from error
    return {key: tf.make_ndarray(value) for key, value in answer.outputs.items()}

  def _batched(self, model: str, signature: str, inputs: Arrays) -> Arrays:
    """Calls a model in requests of at most `max_batch` rows."""
    if len({len(value) for value in inputs.values()}) != 1:
      shapes = ', '.join(f'{name} {list(value.shape)}' for name, value in inputs.items())
      raise ServingError(f'inputs of different lengths: {shapes}', grpc.StatusCode.INVALID_ARGUMENT)
    answers = [
      self.call(model, signature, dict(zip(inputs, block, strict=True)))
      for block in _blocks(self.max_batch, *inputs.values())
    ]
    return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}


def request_of(model: str, signature: str, inputs: Arrays) -> predict_pb2.PredictRequest:
  """A request as gRPC has it."""
  request = predict_pb2.PredictRequest()
  request.model_spec.name, request.model_spec.signature_name = model, signature
  for name, value in inputs.items():
    request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
  return request


def _of_encoder(texts: Any, side: str) -> Arrays:
  """The input of an encoder: 'text' [n] as bytes, or 'vector' [n, w] of numbers.

  Args:
    texts: Texts; or an array, or rows, of numbers.
    side: Start of a refusal.
  """
  row = texts[0] if isinstance(texts, (list, tuple)) and texts else None
  numbers = isinstance(texts, np.ndarray) and texts.dtype.kind in 'fiu'
  if not numbers and not isinstance(row, (list, tuple, np.ndarray)):
    rows = [text.encode() if isinstance(text, str) else text for text in listed(texts, side)]
    return {'text': np.array(rows, object)}
  needed = f'{side}: an array [n, width] of numbers is needed'
  try:
    found = np.asarray(texts, np.float32)
  except (TypeError, ValueError) as error:
    raise InputError(f'{needed}: {error}') from error
  if found.ndim != 2:
    raise InputError(f'{needed}, not one of shape {list(found.shape)}')
  return {'vector': found}


def _vectors(given: Any, name: str) -> np.ndarray:
  """Vectors [n, ...] in float32; raises InputError where they are none, as of texts."""
  try:
    found = np.asarray(given)
    if found.ndim and found.dtype.kind not in 'US':
      return found.astype(np.float32, copy=False)
    why = shown(given)
  except (TypeError, ValueError) as error:
    why = str(error)
  raise InputError(f'{name}: vectors are needed, as of encode(texts, side): {why}')


def _blocks(most: int, *inputs: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
  """Cuts inputs into blocks of `most` rows, fewer of wide ones; of no rows it gives one block."""
  numbers = sum(math.prod(value.shape[1:]) for value in inputs)
  size = max(1, min(most, _NUMBERS // max(1, numbers)))
  for start in range(0, max(1, len(inputs[0])), size):
    yield tuple(value[start : start + size] for value in inputs)
