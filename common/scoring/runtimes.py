"""Runtimes of an exported head: TensorFlow, XLA, or LiteRT in float32, float16 or int8.

Rows are scored in blocks that stay in cache. XLA and LiteRT have fixed shapes: a block is filled up
to one of a few sizes, so nothing is compiled after the first calls.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from common.errors import InputError

LITERT_BLOCK = 64  # rows of a call
LITERT_PRECISIONS = ('float32', 'float16', 'int8')
LITERT_FOLDER = 'head_litert'  # of an export; a file a precision
RUNTIMES = ('tensorflow', 'xla', 'litert', 'litert-float16', 'litert-int8')
_TENSORFLOW_BLOCK = 1024
XLA_BLOCKS = (16, 128)  # rows of a call, those it compiles

Inputs = dict[str, np.ndarray]


class Runtime(Protocol):
  """A head that can be called."""

  def score(self, signature: str, inputs: Inputs) -> np.ndarray:
    """Scores [B] or [B, C] of a signature's inputs, B rows each; one row goes with all of them."""


def load(folder: str, head: Any, name: str, threads: int = 0) -> Runtime:
  """A runtime of an export.

  Args:
    folder: The export.
    head: Its head's SavedModel.
    name: One of `RUNTIMES`.
    threads: LiteRT's; 0: one a core. TensorFlow and XLA have the process's own.

  Raises:
    InputError: If there is none of that name, or the export has no such file.
  """
  if name not in RUNTIMES:
    raise InputError(f'runtime={name!r}: one of {", ".join(RUNTIMES)}')
  if not name.startswith('litert'):
    if threads:
      raise InputError(f'threads={threads}: runtime={name!r} has those of the process')
    return TensorFlowHead(head, jit_compile=name == 'xla')
  path = litert_path(folder, name.removeprefix('litert').removeprefix('-') or 'float32')
  if not os.path.exists(path):
    raise InputError(f'runtime={name!r}: {path} is not there; export the run anew')
  return LiteRTHead(path, threads or len(os.sched_getaffinity(0)))


def litert_path(folder: str, precision: str) -> str:
  """File of an export's head in LiteRT."""
  return os.path.join(folder, LITERT_FOLDER, f'{precision}.tflite')


class TensorFlowHead:
  """`Runtime` of a SavedModel.

  Args:
    head: A head with signatures that give 'score'.
    jit_compile: Whether XLA compiles them, once a size of block.
  """

  def __init__(self, head: Any, jit_compile: bool):
    self.sizes = XLA_BLOCKS if jit_compile else ()
    self.traces = 0
    self._functions = {name: self._function(f, jit_compile) for name, f in head.signatures.items()}

  def score(self, signature: str, inputs: Inputs) -> np.ndarray:
    function, scores = self._functions[signature], []
    one = {name: tf.constant(value) for name, value in inputs.items() if len(value) == 1}
    many = {name: value for name, value in inputs.items() if name not in one}
    rows = _rows(inputs)
    if rows == 1:
      one, many = {}, inputs
    for start, stop, size in _blocks(rows, self.sizes):
      block = {name: tf.constant(_filled(v[start:stop], size)) for name, v in many.items()}
      scores.append(function(**one, **block).numpy()[: stop - start])
    return np.concatenate(scores)

  def _function(self, signature: Any, jit_compile: bool) -> Any:
    if not jit_compile:
      return lambda **inputs: signature(**inputs)['score']

    def score(**inputs: tf.Tensor) -> tf.Tensor:
      self.traces += 1
      return signature(**inputs)['score']

    return tf.function(score, jit_compile=True)


class LiteRTHead:
  """`Runtime` of a `.tflite` file: an interpreter of one thread a core, each with its own blocks.

  Args:
    path: Made by `common.export.litert`.
    threads: Interpreters.
  """

  def __init__(self, path: str, threads: int):
    from ai_edge_litert.interpreter import Interpreter

    interpreters = [Interpreter(model_path=path, num_threads=1) for _ in range(threads)]
    self._runners = [
      {name: i.get_signature_runner(name) for name in i.get_signature_list()} for i in interpreters
    ]
    self._interpreters = interpreters  # which the runners need alive
    self._pool = ThreadPoolExecutor(threads)
    self._lock = threading.Lock()  # an interpreter has one place for its inputs

  def score(self, signature: str, inputs: Inputs) -> np.ndarray:
    rows = _rows(inputs)
    fixed = {n: np.repeat(v, LITERT_BLOCK, 0) for n, v in inputs.items() if len(v) == 1}
    many = {name: value for name, value in inputs.items() if name not in fixed}
    blocks = list(_blocks(rows, (LITERT_BLOCK,)))
    threads = min(len(self._runners), len(blocks))

    def share(number: int) -> list[np.ndarray]:
      runner, scores = self._runners[number][signature], []
      for start, stop, size in blocks[number::threads]:
        block = {name: _filled(v[start:stop], size) for name, v in many.items()}
        scores.append(runner(**fixed, **block)['score'][: stop - start])
      return scores

    with self._lock:  # callers on several threads take turns
      if threads == 1:
        return np.concatenate(share(0))
      shares = list(self._pool.map(share, range(threads)))
    return np.concatenate([shares[i % threads][i // threads] for i in range(len(blocks))])


def _rows(inputs: Inputs) -> int:
  return max(len(value) for value in inputs.values())


def _blocks(rows: int, sizes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
  """(start, stop, size to be filled up to): the largest size, and the least that holds the rest."""
  largest = max(sizes, default=_TENSORFLOW_BLOCK)
  for start in range(0, rows, largest):
    stop = min(start + largest, rows)
    yield start, stop, next((s for s in sorted(sizes) if s >= stop - start), stop - start)


def _filled(block: np.ndarray, rows: int) -> np.ndarray:
  """A block with rows of zeros up to a number, as one piece of memory."""
  if len(block) == rows:
    return np.ascontiguousarray(block, np.float32)
  filled = np.zeros([rows, *block.shape[1:]], np.float32)
  filled[: len(block)] = block
  return filled
