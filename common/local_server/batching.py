"""Requests of one signature, run together: what waits while one runs is the next one's batch."""

import dataclasses
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

import numpy as np

from common.local_server.errors import unavailable
from common.local_server.signatures import Arrays


@dataclasses.dataclass(frozen=True)
class BatchingConfig:
  """As TF Serving's batching parameters.

  Attributes:
    max_batch_size: Most rows that are run together.
    batch_timeout: Seconds that the first request of a batch waits for others.
    max_enqueued: Most requests that wait; more are refused.
  """

  max_batch_size: int = 1024
  batch_timeout: float = 0.0
  max_enqueued: int = 1000


MOST_TEXT = 1 << 22  # bytes of texts run together; tokenized, they take many times as much


@dataclasses.dataclass(frozen=True)
class _Request:
  inputs: Arrays
  rows: int
  text: int
  wanted: Callable[[], bool]
  future: Future


class ClosedError(Exception):
  """The batcher runs nothing more: its version is not served any longer."""


class Batcher:
  """A queue and the thread that empties it.

  Args:
    call: Arrays in, arrays out; all share their first dimension.
    config: Sizes and times.
    ran: Told the rows of each batch.
    joins: Whether requests may be run together; if not, each is a batch.
  """

  def __init__(
    self,
    call: Callable[[Arrays], Arrays],
    config: BatchingConfig,
    ran: Callable[[int], None] = lambda rows: None,
    joins: bool = True,
  ):
    self._call, self.config, self._ran, self._joins = call, config, ran, joins
    self._queue: queue.Queue[_Request | None] = queue.Queue(config.max_enqueued)
    self._lock, self._closed = threading.Lock(), False
    self._thread = threading.Thread(target=self._run, daemon=True, name='batcher')
    self._thread.start()

  def submit(self, inputs: Arrays, wanted: Callable[[], bool] = lambda: True) -> Future:
    """The outputs of inputs, to be waited for.

    Args:
      inputs: Checked: of the signature's names, types and shapes.
      wanted: Whether somebody still waits, asked before they are run.

    Raises:
      ServingError: If too many requests wait already.
      ClosedError: After `close`.
    """
    rows = max((len(value) for value in inputs.values() if value.ndim), default=1)
    text = sum(text_bytes(value) for value in inputs.values())
    request = _Request(inputs, rows, text, wanted, Future())
    with self._lock:
      if self._closed:
        raise ClosedError
      try:
        self._queue.put_nowait(request)
      except queue.Full:
        most = self.config.max_enqueued
        raise unavailable(f'{most} requests wait already; send it again later') from None
    return request.future

  def close(self) -> None:
    """Runs what waits, then ends."""
    with self._lock:
      self._closed = True
    self._queue.put(None)
    self._thread.join()

  def _run(self) -> None:
    ahead: _Request | None = None
    while True:
      first = ahead or self._queue.get()
      if first is None:
        return
      batch, ahead, ended = self._collect(first)
      wanted = []
      for request in batch:
        if request.wanted():
          wanted.append(request)
        else:
          request.future.set_exception(unavailable('nobody waits for it any more'))
      self._answer(wanted)
      if ended:
        return

  def _collect(self, first: _Request) -> tuple[list[_Request], _Request | None, bool]:
    """A batch, the request after it that was taken already, and whether the queue has ended."""
    batch, rows, text = [first], first.rows, first.text
    wait = bool(self.config.batch_timeout)
    until = time.monotonic() + self.config.batch_timeout
    while self._joins and rows < self.config.max_batch_size:
      try:
        more = self._queue.get(wait, max(0.0, until - time.monotonic()))
      except queue.Empty:
        break
      if more is None:
        return batch, None, True
      rows, text = rows + more.rows, text + more.text
      if rows > self.config.max_batch_size or text > MOST_TEXT or not _alike(first, more):
        return batch, more, False
      batch.append(more)
    return batch, None, False

  def _answer(self, batch: list[_Request]) -> None:
    if not batch:
      return
    try:
      if len(batch) == 1:
        outputs = self._call(batch[0].inputs)
      else:
        names = batch[0].inputs
        outputs = self._call({n: np.concatenate([r.inputs[n] for r in batch]) for n in names})
        _check_rows(outputs, sum(request.rows for request in batch))
    except Exception as error:
      if len(batch) > 1:  # one of them is at fault; the others have their answers all the same
        for request in batch:
          self._answer([request])
      else:
        batch[0].future.set_exception(error)
      return
    self._ran(sum(request.rows for request in batch))
    start = 0
    for request in batch:
      stop = start + request.rows
      own = outputs
      if len(batch) > 1:
        own = {name: value[start:stop] for name, value in outputs.items()}
      request.future.set_result(own)
      start = stop


def _check_rows(outputs: Arrays, rows: int) -> None:
  """Refuses an answer that cannot be split among a batch's requests."""
  for name, value in outputs.items():
    if not value.ndim or len(value) != rows:
      raise ValueError(f'{name}: an output of shape {value.shape} to {rows} rows')


def text_bytes(value: np.ndarray) -> int:
  """Bytes of an array's texts."""
  return sum(map(len, value.ravel())) if value.dtype == object else 0


def _alike(one: _Request, other: _Request) -> bool:
  """Whether two requests can be one: the same sizes but the first, which all inputs share."""
  return all(_stackable(request) for request in (one, other)) and all(
    value.shape[1:] == other.inputs[name].shape[1:] for name, value in one.inputs.items()
  )


def _stackable(request: _Request) -> bool:
  return all(value.ndim and len(value) == request.rows for value in request.inputs.values())
