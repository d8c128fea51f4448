"""Heads in LiteRT: files of float32, of float16 weights, of int8 weights with dynamic ranges."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from common.scoring import litert
from common.scoring.runtime import HeadFunction, HeadKind, Inputs, blocks, filled, rows_of

if TYPE_CHECKING:
  import tensorflow as tf

BLOCK = 64  # rows of a call
PRECISIONS = ('float32', 'float16', 'int8')
_FOLDER = 'head_litert'  # of an export


def kind(precision: str) -> HeadKind:
  """The runtime of one of `PRECISIONS`; the first one's writes the files of all, from one model."""
  return HeadKind(
    lambda export, threads: LiteRTHead(file_of(export.folder, precision), threads),
    threaded=True,
    write=write if precision == PRECISIONS[0] else None,
  )


def file_of(folder: str, precision: str) -> str:
  """File of an export's head."""
  return os.path.join(folder, _FOLDER, f'{precision}.tflite')


def write(
  folder: str, functions: dict[str, HeadFunction], variables: Sequence[tf.Variable]
) -> None:
  """Writes a head at every precision, in blocks of fixed size; arguments as for `HeadKind.write`."""
  import tensorflow as tf

  signatures = {}
  for name, (function, shapes) in functions.items():
    specs = {
      key: tf.TensorSpec([BLOCK, *shape], tf.float32, name=key) for key, shape in shapes.items()
    }
    signatures[name] = tf.function(_one_output(function), autograph=False).get_concrete_function(
      **specs
    )
  litert.write(os.path.join(folder, _FOLDER), signatures, variables, PRECISIONS)


class LiteRTHead:
  """`HeadRuntime` of a `.tflite` file.

  Args:
    path: Made by `write`.
    threads: Interpreters; 0: one a core.
  """

  def __init__(self, path: str, threads: int = 0):
    self._interpreters = litert.Interpreters(path, threads)

  def inputs(self, signature: str) -> Collection[str]:
    """As of `HeadRuntime`."""
    return self._interpreters.inputs[signature]

  def run(self, signature: str, inputs: Inputs) -> np.ndarray:
    """As of `HeadRuntime`, in blocks, which the threads share."""
    fixed = {n: np.repeat(v, BLOCK, 0) for n, v in inputs.items() if len(v) == 1}
    many = {name: value for name, value in inputs.items() if name not in fixed}

    def run(runners: litert.Runners, block: tuple[int, int, int]) -> np.ndarray:
      start, stop, size = block
      own = {name: filled(v[start:stop], size) for name, v in many.items()}
      (output,) = runners[signature](**fixed, **own).values()
      return output[: stop - start]

    return np.concatenate(self._interpreters.map(run, list(blocks(rows_of(inputs), (BLOCK,)))))


def _one_output(function: Callable[..., dict[str, tf.Tensor]]) -> Callable[..., dict]:
  """The function with 'score' alone, of all that it may give."""

  def one(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    outputs = function(**inputs)
    return {'score': outputs['score']} if 'score' in outputs else outputs

  return one
