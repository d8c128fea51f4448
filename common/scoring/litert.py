"""Interpreters of a LiteRT file, which share calls out to threads."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np

from common import digests, files
from common.data.batching import bucket_of, longest_first
from common.errors import InputError, damaged
from common.scoring.exported import REMEDY
from common.scoring.litert_files import DENSE, signature_name

Item = TypeVar('Item')
Result = TypeVar('Result')
_MOST_THREADS = 16  # unless more are asked for: each holds the weights, as the kernels take them
Runners = Mapping[str, Callable[..., dict[str, np.ndarray]]]  # an interpreter's signatures
# Gives a call's inputs, [rows of the call, length] each, of its rows' numbers, its rows and length.
Fill = Callable[[np.ndarray, int, int], dict[str, np.ndarray]]


def cores() -> int:
  """Cores that this process may use, where the system tells (Linux), else all."""
  affinity = getattr(os, 'sched_getaffinity', None)
  return len(affinity(0)) if affinity else os.cpu_count() or 1


def threads_of(threads: int) -> int:
  """The threads asked for; for 0 one a core, 16 at the most."""
  return threads or min(cores(), _MOST_THREADS)


class Interpreters:
  """Interpreters of a `.tflite` file, of one thread each, which share items of work.

  Args:
    path: The file.
    threads: Interpreters; 0: one a core, 16 at the most.
    paired: Whether each has two threads, for half as many; a fork cannot call it.

  Raises:
    InputError: If the file is not there or not on this machine, or not what was exported.

  Attributes:
    inputs: Names of each signature's inputs.
    rows: Rows of each signature's inputs.
  """

  def __init__(self, path: str, threads: int = 0, paired: bool = False):
    from ai_edge_litert.interpreter import Interpreter

    if files.is_remote(path):
      raise InputError(f'{path}: LiteRT needs a folder of this machine: copy the export here')
    digests.check(path, REMEDY)
    if not os.path.exists(path):
      raise InputError(f'{path} is not there; export the run anew')
    each = min(2, threads_of(threads)) if paired else 1
    count = -(-threads_of(threads) // each)
    with damaged(path, REMEDY):
      interpreters = [Interpreter(model_path=path, num_threads=each) for _ in range(count)]
      self._runners = [
        {name: i.get_signature_runner(name) for name in i.get_signature_list()}
        for i in interpreters
      ]
    self.inputs = {
      name: tuple(of['inputs']) for name, of in interpreters[0].get_signature_list().items()
    }
    self.rows = {
      name: int(next(iter(runner.get_input_details().values()))['shape'][0])
      for name, runner in self._runners[0].items()
    }
    self._interpreters = interpreters  # which the runners need alive
    self.start()
    _ALL.add(self)

  def start(self) -> None:
    """Makes the threads; in a fork anew, as they do not come along."""
    self._pool = ThreadPoolExecutor(len(self._runners))
    self._lock = threading.Lock()  # an interpreter has one place for its inputs

  def map(self, function: Callable[[Runners, Item], Result], items: Sequence[Item]) -> list[Result]:
    """Calls `function` with an interpreter's signatures and each item; callers take turns."""
    left = enumerate(items)  # each thread takes the next one: a slow one takes fewer

    def share(runners: Runners) -> list[tuple[int, Result]]:
      return [(number, function(runners, item)) for number, item in left]

    with self._lock:
      if min(len(self._runners), len(items)) < 2:
        shares = [share(self._runners[0])]
      else:
        futures = [self._pool.submit(share, runners) for runners in self._runners[: len(items)]]
        try:
          shares = [future.result() for future in futures]
        finally:  # a caller that is interrupted leaves no thread at work on what the next one uses
          for _ in left:
            pass
          wait(futures)
    found = dict(pair for of_thread in shares for pair in of_thread)
    return [found[number] for number in range(len(items))]


_ALL: weakref.WeakSet[Interpreters] = weakref.WeakSet()


def _start_all() -> None:
  for one in _ALL:
    one.start()


if hasattr(os, 'register_at_fork'):  # as servers of several processes load first, and then fork
  os.register_at_fork(after_in_child=_start_all)


class ByLength:
  """Functions of a file of `litert_files.write_by_length`; calls are shared out to the threads.

  Args:
    path: The file.
    threads: Interpreters; 0: one a core, 16 at the most.
    paired: See `Interpreters`.

  Attributes:
    lengths: Lengths of each, ascending; the width of one of vectors.
    dense: Names of functions of vectors.
  """

  def __init__(self, path: str, threads: int = 0, paired: bool = False):
    self._interpreters = Interpreters(path, threads, paired)
    self.lengths: dict[str, list[int]] = {}
    self._batches: dict[str, list[int]] = {}
    self.dense = set()
    for signature, inputs in self._interpreters.inputs.items():
      name, length, batch = signature.rsplit('_', 2)
      for sizes, size in ((self.lengths, length), (self._batches, batch)):
        sizes[name] = sorted({*sizes.get(name, ()), int(size)})
      if DENSE in inputs:
        self.dense.add(name)

  def run(
    self,
    name: str,
    sizes: np.ndarray,
    fill: Fill,
    outputs: np.ndarray,
    done: Callable[[int], Any],
  ) -> None:
    """Runs a function; rows of like length go together.

    Args:
      name: Its name.
      sizes: Tokens of each row.
      fill: Gives a call's inputs.
      outputs: [n, ...], to be filled.
      done: Told the number of rows after each call.
    """
    lengths, batches = self.lengths[name], self._batches[name]

    def call(runners: Runners, rows: np.ndarray) -> None:
      length, batch = bucket_of(lengths, sizes[rows[0]]), bucket_of(batches, len(rows))
      found = runners[signature_name(name, length, batch)](**fill(rows, batch, length))
      outputs[rows] = found['output'][: len(rows)]
      done(len(rows))

    self._interpreters.map(call, list(longest_first(sizes, batches[-1])))
