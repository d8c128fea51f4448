"""A client of TF Serving, or of the local server: texts, word ids or vectors in, arrays out.

  client = Client('localhost:8500', 'p2t')
  products = client.encode(titles, 'right')
  client.score(client.encode(['nike shoes'] * len(titles), 'left'), products)
  scores, order = client.rank('nike shoes', products)

One client may be used by many threads.
"""

import base64
import http.client
import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from common import extras
from common.errors import InputError
from common.serving import inputs as given
from common.serving.inputs import Arrays

with extras.needed('serving'):
  import grpc
  import tensorflow as tf
  from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

UNLIMITED = (('grpc.max_receive_message_length', -1), ('grpc.max_send_message_length', -1))
_CANDIDATES = 1024  # of a request to `online`, at the most
_BACK_OFF = 0.05  # seconds before the first repetition; doubled with each, and spread


class ServingError(Exception):
  """A call that failed.

  Args:
    message: What was wrong, where, and what would be right.
    code: gRPC's status; of REST, the one that means the same.
  """

  def __init__(self, message: str, code: grpc.StatusCode):
    super().__init__(message)
    self.code = code


class Transport(Protocol):
  """One call, once."""

  def predict(self, model: str, signature: str, inputs: Arrays, seconds: float) -> Arrays:
    """Outputs by name; raises ServingError."""


class Client:
  """Calls the models of an export, served as `NAME_encoder`, `NAME_head` and `NAME_online`.

  Args:
    target: 'host:port' of gRPC, or 'http://host:port' of REST.
    name: Name that the export's models start with.
    deadline: Seconds for a call, its repetitions included.
    retries: Repetitions of a call that found the server unavailable.
    max_batch: Most rows of a request to encoder or head, which the server batches, and fewer of
      wide vectors or long texts; longer calls become several.
  """

  def __init__(
    self,
    target: str,
    name: str,
    *,
    deadline: float = 10.0,
    retries: int = 4,
    max_batch: int = 128,
  ):
    rest = target.startswith(('http://', 'https://'))
    self._transport: Transport = Rest(target) if rest else Grpc(target)
    self.name, self.deadline, self.retries, self.max_batch = name, deadline, retries, max_batch

  def encode(self, texts: Sequence[str] | np.ndarray, side: str) -> np.ndarray:
    """Vectors [n, *vector shape] of a side, 'left' or 'right': of texts, or of vectors [n, w] in their place.

    Raises:
      InputError: If it is one text, or a row holds none.
      ServingError: As `call`.
    """
    return self._batched('encoder', side, given.of_encoder(texts, side))['vectors']

  def encode_ids(self, ids: np.ndarray, side: str) -> np.ndarray:
    """Vectors of word ids [n, L], as the export's tokenizer gives them, padded with its own id."""
    return self._batched('encoder', f'{side}_ids', {'ids': np.asarray(ids, np.int32)})['vectors']

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
    vectors = {name: given.vectors(side, name) for name, side in named.items()}
    return self._batched('head', 'serving_default', vectors)['score']

  def rank(
    self, text: str | np.ndarray, candidates: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray | None]:
    """Scores candidates' vectors [n, *vector shape], n from 1, for a text, or a vector [w] in its place.

    Returns:
      (scores [n], order [n]: rows of candidates, best first, ties as they came; of scores that float32 has
      alike, those of one request's candidates by logits). A model of C classes gives
      (scores [n, C], None): classes have no order of their own.

    Raises:
      InputError: If `text` is none, or the candidates are no vectors.
      ServingError: As `call`; of no candidates too, which the server refuses.
    """
    query = given.of_encoder(text[None] if isinstance(text, np.ndarray) else [text], 'query')
    many = given.vectors(candidates, 'candidates')
    size = given.rows(_CANDIDATES, many)
    answers = [
      self.call('online', 'serving_default', {**query, 'candidates': block})
      for block in np.split(many, range(size, len(many), size))
    ]
    scores = np.concatenate([answer['scores'] for answer in answers])
    if len(answers) == 1 or scores.ndim > 1:
      return scores, answers[0].get('order')
    # Of scores that float32 has alike, those of one answer stand as it ranked them, by logits.
    places = np.concatenate([np.argsort(answer['order']) for answer in answers])
    return scores, np.lexsort((places, np.arange(len(scores)) // size, -scores))

  def call(self, model: str, signature: str, inputs: Arrays) -> Arrays:
    """One request: repeated where it may be, until the deadline.

    Args:
      model: 'encoder', 'head' or 'online'; or a whole name, of a model of another export.
      signature: Signature of the model.
      inputs: Inputs by name; texts as bytes.

    Raises:
      ServingError: With model, signature and reason.
    """
    name = f'{self.name}_{model}' if model in ('encoder', 'head', 'online') else model
    until = time.monotonic() + self.deadline
    for attempt in range(self.retries + 1):
      left = until - time.monotonic()
      try:
        return self._transport.predict(name, signature, inputs, max(left, 0.001))
      except ServingError as error:
        wait = _BACK_OFF * 2**attempt * (0.5 + random.random())  # spread: not all at once again
        again = error.code == grpc.StatusCode.UNAVAILABLE and attempt < self.retries
        if not again or time.monotonic() + wait > until:
          times = f', tried {attempt + 1} times' if attempt else ''
          shapes = ', '.join(f'{k} {list(v.shape)}' for k, v in inputs.items())
          raise ServingError(
            f'model {name!r}, signature {signature!r}, inputs {shapes}{times}: {error}', error.code
          ) from error
        time.sleep(wait)
    raise AssertionError  # the last attempt has returned or raised

  def _batched(self, model: str, signature: str, inputs: Arrays) -> Arrays:
    """As `call`, in requests of `max_batch` rows at the most."""
    if len({len(value) for value in inputs.values()}) != 1:
      shapes = ', '.join(f'{name} {list(value.shape)}' for name, value in inputs.items())
      raise ServingError(f'inputs of different lengths: {shapes}', grpc.StatusCode.INVALID_ARGUMENT)
    requests = given.requests(self.max_batch, inputs)
    answers = [self.call(model, signature, request) for request in requests]
    return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}


def request_of(model: str, signature: str, inputs: Arrays) -> predict_pb2.PredictRequest:
  """A request as gRPC has it."""
  request = predict_pb2.PredictRequest()
  request.model_spec.name, request.model_spec.signature_name = model, signature
  for name, value in inputs.items():
    request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
  return request


class Grpc:
  """`Transport` by gRPC.

  Args:
    target: 'host:port'.
  """

  def __init__(self, target: str):
    self._channel = grpc.insecure_channel(target, UNLIMITED)
    self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)

  def predict(self, model: str, signature: str, inputs: Arrays, seconds: float) -> Arrays:
    try:
      answer = self._stub.Predict(request_of(model, signature, inputs), timeout=seconds)
    except grpc.RpcError as error:
      raise ServingError(error.details(), error.code()) from error
    return {name: tf.make_ndarray(value) for name, value in answer.outputs.items()}


class Rest:
  """`Transport` by REST, column by column.

  Args:
    target: 'http://host:port'.
  """

  def __init__(self, target: str):
    self._target = target.rstrip('/')

  def predict(self, model: str, signature: str, inputs: Arrays, seconds: float) -> Arrays:
    columns = {name: _json(value) for name, value in inputs.items()}
    body = json.dumps({'signature_name': signature, 'inputs': columns}).encode()
    request = urllib.request.Request(f'{self._target}/v1/models/{model}:predict', body)
    try:
      with urllib.request.urlopen(request, timeout=seconds) as answer:
        body = answer.read()
    except urllib.error.HTTPError as error:
      raise ServingError(_reason(error.read), _CODES.get(error.code, _UNKNOWN)) from error
    except (OSError, http.client.HTTPException) as error:
      if isinstance(getattr(error, 'reason', error), TimeoutError):
        raise ServingError('too late', grpc.StatusCode.DEADLINE_EXCEEDED) from error
      raise ServingError(str(error), grpc.StatusCode.UNAVAILABLE) from error
    try:
      outputs = json.loads(body)['outputs']
      named = outputs if isinstance(outputs, dict) else {_only(model, signature): outputs}
      arrays = {name: np.array(value) for name, value in named.items()}
    except (ValueError, KeyError, TypeError) as error:  # as of a proxy's page
      start = body[:_SHOWN].decode(errors='replace')
      raise ServingError(f'no outputs in the answer, which starts {start!r}', _UNKNOWN) from error
    return {n: a.astype(np.float32) if a.dtype.kind == 'f' else a for n, a in arrays.items()}


_SHOWN = 500  # bytes of an answer that is not as it should be
_UNKNOWN = grpc.StatusCode.UNKNOWN
_ONLY = {  # what a head's signature ends with, or else the model: REST has no name for one output
  'part': 'part',
  'attention': 'attention',
  'head': 'score',
  'online': 'scores',
}
_CODES = {
  400: grpc.StatusCode.INVALID_ARGUMENT,
  404: grpc.StatusCode.NOT_FOUND,
  413: grpc.StatusCode.RESOURCE_EXHAUSTED,
  503: grpc.StatusCode.UNAVAILABLE,
  504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


def _only(model: str, signature: str) -> str:
  """The name of a signature's only output; empty: of a model that is no export's."""
  if model.endswith('encoder'):  # whose signatures are slots, of any name
    return 'tokens' if signature.endswith('_tokens') else 'vectors'
  ends = (name.split('_')[-1] for name in (signature, model))
  return next((_ONLY[end] for end in ends if end in _ONLY), '')


def _json(value: np.ndarray) -> Any:
  if value.dtype != object:
    return value.tolist()
  return [{'b64': base64.b64encode(text).decode()} for text in value]


def _reason(read: Callable[[], bytes]) -> str:
  body = read()
  try:
    return json.loads(body)['error']
  except (ValueError, KeyError, TypeError):
    return body[:_SHOWN].decode(errors='replace')
