"""A request, from either front: found, checked, run, counted."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout

import grpc
import numpy as np

from common.local_server.batching import (
  MOST_TEXT,
  Batcher,
  BatchingConfig,
  ClosedError,
  text_bytes,
)
from common.local_server.errors import SHOWN, ServingError, invalid
from common.local_server.metrics import Metrics
from common.local_server.models import ModelStore, Version
from common.local_server.signatures import Arrays, Signature, Spec

_LONGEST = 3600.0  # seconds that a request without a deadline waits
_IDS = 512  # word ids of a row: BERT's positions


class Predictor:
  """Answers requests.

  Args:
    folders: Folders of the models, by name.
    runtime: Runtime of the heads.
    encoder_runtime: Runtime of the encoders.
    batching: Sizes and times.
    metrics: Metrics of the server.

  Raises:
    InputError: If a model cannot be loaded.
  """

  def __init__(
    self,
    folders: Mapping[str, str],
    runtime: str,
    encoder_runtime: str,
    batching: BatchingConfig,
    metrics: Metrics,
  ):
    self.batching, self.metrics = batching, metrics
    self._batchers: dict[tuple[Version, str], Batcher] = {}
    self._lock, self._closed = threading.Lock(), False
    self.models = ModelStore(folders, runtime, encoder_runtime, self._swap)

  def predict(
    self,
    model: str,
    version: int | None,
    signature: str,
    inputs: Arrays,
    *,
    output_filter: Sequence[str] = (),
    seconds: float | None = None,
    wanted: Callable[[], bool] = lambda: True,
  ) -> tuple[Version, Signature, Arrays]:
    """Runs a request.

    Args:
      model: Its name.
      version: Its number; the one that is served where absent.
      signature: Its name; '' is `serving_default`.
      inputs: Arrays by name.
      output_filter: Names of the outputs that are wanted; none: all.
      seconds: Left until the deadline.
      wanted: Whether somebody still waits.

    Raises:
      ServingError: With what was wrong.
    """
    while True:
      found = self.models.find(model, version)
      called = found.signature(signature)
      where = f'model {model!r}, signature {called.name!r}'
      checked = _checked(inputs, called, where, self.batching.max_batch_size)
      for name in output_filter:
        if name not in called.outputs:
          known = ', '.join(called.outputs)
          raise invalid(f'{where}: no output {name[:SHOWN]!r}; it has {known}')
      try:
        future = self._batcher(found, called).submit(checked, lambda: not self._closed and wanted())
        break
      except ClosedError:  # another version has just taken its place
        continue
    try:
      outputs = future.result(_LONGEST if seconds is None else min(seconds, _LONGEST))
    except FutureTimeout:
      raise ServingError(f'{where}: too late', grpc.StatusCode.DEADLINE_EXCEEDED) from None
    except ServingError:
      raise
    except Exception as error:
      raise invalid(f'{where}: the model refuses it: {_reason(error)}') from error
    return found, called, {name: outputs[name] for name in output_filter or called.outputs}

  def answered(self, model: str, api: str, code: str, started: float) -> None:
    """Counts a request, of a name that is served or of none, and its time since `started`."""
    known = model if model in self.models.names() else ''
    self.metrics.requests.labels(known, api, code).inc()
    self.metrics.seconds.labels(known).observe(time.monotonic() - started)

  def close(self) -> None:
    """Finishes what runs; what still waits is refused: the fronts have waited for it."""
    self._closed = True
    self.models.close()
    with self._lock:
      batchers, self._batchers = list(self._batchers.values()), {}
    for batcher in batchers:
      batcher.close()

  def _batcher(self, version: Version, signature: Signature) -> Batcher:
    with self._lock:
      if version is not self.models.find(version.model):
        raise ClosedError
      key = (version, signature.name)
      if key not in self._batchers:
        rows = self.metrics.batch_rows.labels(version.model, signature.name)
        self._batchers[key] = Batcher(signature.call, self.batching, rows.observe, signature.joins)
      return self._batchers[key]

  def _swap(self, version: Version) -> None:
    """A new version serves: the old one's batchers end once they are empty."""
    self.metrics.version.labels(version.model).set(version.number)
    with self._lock:
      old = [k for k in self._batchers if k[0].model == version.model and k[0] is not version]
      closing = [self._batchers.pop(key) for key in old]
    for batcher in closing:
      batcher.close()


def _reason(error: Exception) -> str:
  """An operation's error in one line, without TensorFlow's account of where the graph was made."""
  said = str(error).split('<stack traces unavailable>')[-1].split('[[{{node')[0]
  return ' '.join(said.split())[:500]


def _checked(inputs: Arrays, signature: Signature, where: str, most: int) -> Arrays:
  """Inputs as the signature takes them; raises ServingError at the first that is not."""
  wanted = ', '.join(f'{name}: {spec}' for name, spec in signature.inputs.items())
  if missing := [name for name in signature.inputs if name not in inputs]:
    raise invalid(f'{where}: input {missing[0]!r} is missing; it takes {wanted}')
  if more := [name for name in inputs if name not in signature.inputs]:
    raise invalid(f'{where}: there is no input {more[0][:SHOWN]!r}; it takes {wanted}')
  return {
    name: _fitting(inputs[name], spec, f'{where}: input {name!r}', most)
    for name, spec in signature.inputs.items()
  }


def _fitting(value: np.ndarray, spec: Spec, where: str, most: int) -> np.ndarray:
  """An input of the signature's type and shape, whose rows the model has memory for.

  Numbers hold the memory that they take; of texts and word ids an encoder makes a thousand times as
  much, so these are at most as many rows as are run together, each no longer than it can read.
  """
  dtype = 'string' if value.dtype == object else value.dtype.name
  if dtype != spec.dtype.name:
    raise invalid(f'{where} is {dtype}, not {spec}')
  fits = value.ndim == len(spec.shape)
  if not fits or any(n not in (-1, m) for n, m in zip(spec.shape, value.shape, strict=True)):
    raise invalid(f'{where} has the shape {list(value.shape)}, not {spec}')
  if not value.size:
    raise invalid(f'{where} is empty')
  if value.dtype.name in ('object', 'int32') and value.ndim:  # texts, word ids
    if len(value) > most:
      raise invalid(f'{where} has {len(value):,} rows; {most:,} are the most')
    if value.size > _IDS * len(value):
      raise invalid(f'{where} has the shape {list(value.shape)}; a row has {_IDS} ids at the most')
    if (size := text_bytes(value)) > MOST_TEXT:
      raise invalid(f'{where}: texts of {size:,} bytes; {MOST_TEXT:,} are the most')
  return value
