"""Heads in LiteRT: files of float32, of float16 weights, of int8 weights with dynamic ranges."""

import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from common.errors import InputError
from common.scoring.runtime import HeadFunction, Inputs, Kind, blocks, filled, rows_of

BLOCK = 64  # rows of a call
PRECISIONS = ('float32', 'float16', 'int8')
_FOLDER = 'head_litert'  # of an export; a file a precision


def kind(precision: str) -> Kind:
  """The runtime of one of `PRECISIONS`; the first one's writes the files of all, from one model."""

  def load(folder: str, head: Any, threads: int) -> LiteRTHead:
    del head
    path = file_of(folder, precision)
    if not os.path.exists(path):
      raise InputError(f'{path} is not there; export the run anew')
    return LiteRTHead(path, threads or len(os.sched_getaffinity(0)))

  return Kind(load, threaded=True, write=write if precision == PRECISIONS[0] else None)


def file_of(folder: str, precision: str) -> str:
  """File of an export's head."""
  return os.path.join(folder, _FOLDER, f'{precision}.tflite')


def write(
  folder: str, functions: dict[str, HeadFunction], variables: Sequence[tf.Variable]
) -> None:
  """Writes a head at every precision, with a signature a function, in blocks of fixed size.

  Args:
    folder: The export.
    functions: By the signature's name; each gives 'score'.
    variables: All that they read.
  """
  module = tf.Module()
  module.variables_ = list(variables)
  signatures = {}
  for name, (function, shapes) in functions.items():
    specs = {
      key: tf.TensorSpec([BLOCK, *shape], tf.float32, name=key) for key, shape in shapes.items()
    }
    scores = tf.function(_score_alone(function), autograph=False)
    signatures[name] = scores.get_concrete_function(**specs)
  os.makedirs(os.path.join(folder, _FOLDER), exist_ok=True)
  with tempfile.TemporaryDirectory() as saved:
    tf.saved_model.save(module, saved, signatures=signatures)
    converter = tf.lite.TFLiteConverter.from_saved_model(saved, list(functions))
    for precision in PRECISIONS:
      converter.target_spec.supported_types = [tf.float16] if precision == 'float16' else []
      if precision != 'float32':
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
      with open(file_of(folder, precision), 'wb') as file:
        file.write(converter.convert())


class LiteRTHead:
  """`Runtime` of a `.tflite` file: an interpreter of one thread a core, each with its own blocks.

  Args:
    path: Made by `write`.
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
    """Scores in blocks, which the threads share."""
    fixed = {n: np.repeat(v, BLOCK, 0) for n, v in inputs.items() if len(v) == 1}
    many = {name: value for name, value in inputs.items() if name not in fixed}
    todo = list(blocks(rows_of(inputs), (BLOCK,)))
    threads = min(len(self._runners), len(todo))

    def share(number: int) -> list[np.ndarray]:
      runner, scores = self._runners[number][signature], []
      for start, stop, size in todo[number::threads]:
        block = {name: filled(v[start:stop], size) for name, v in many.items()}
        scores.append(runner(**fixed, **block)['score'][: stop - start])
      return scores

    with self._lock:  # callers on several threads take turns
      if threads == 1:
        return np.concatenate(share(0))
      shares = list(self._pool.map(share, range(threads)))
    return np.concatenate([shares[i % threads][i // threads] for i in range(len(todo))])


def _score_alone(function: Callable[..., dict[str, tf.Tensor]]) -> Callable[..., dict]:
  return lambda **inputs: {'score': function(**inputs)['score']}
