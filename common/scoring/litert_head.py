"""Heads in LiteRT: files of float32, and of int8 weights with dynamic ranges."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from common.scoring import litert, litert_files
from common.scoring.exported import OF_PRODUCTS
from common.scoring.products import products
from common.scoring.runtime import HeadFunction, Inputs, Outputs, blocks, filled, rows_of
from common.vectors.values import Stored

if TYPE_CHECKING:
  import tensorflow as tf

_FOLDER = 'head_litert'  # of an export
_CALL_BYTES, _LEAST_ROWS, _MOST_ROWS = 1 << 20, 16, 256  # of a call: its largest tensor, in cache


def file_of(folder: str, precision: str) -> str:
  """File of an export's head."""
  return os.path.join(folder, _FOLDER, f'{precision}.tflite')


def write(
  folder: str, functions: dict[str, HeadFunction], variables: Sequence[tf.Variable]
) -> None:
  """Writes a head's files, for calls with a fixed number of rows.

  Args:
    folder: The export.
    functions: By signature, each of which gives 'score' or 'part'.
    variables: All that they read.
  """
  signatures = {
    name: function.traced(rows_of_call(function)) for name, function in functions.items()
  }
  litert_files.write(os.path.join(folder, _FOLDER), signatures, variables, litert_files.PRECISIONS)


def rows_of_call(function: HeadFunction) -> int:
  """Rows of a call: the power of two at which the largest tensor stays in a core's cache."""
  operations = function.concrete.graph.get_operations()
  tensors = [tensor for operation in operations for tensor in operation.outputs]
  row = max(
    tensor.shape[1:].num_elements() * tensor.dtype.size
    for tensor in tensors
    if tensor.shape.rank and tensor.shape[0] is None and tensor.shape[1:].is_fully_defined()
  )
  return min(_MOST_ROWS, max(_LEAST_ROWS, 1 << max(0, (_CALL_BYTES // row).bit_length() - 1)))


class LiteRTHead:
  """`HeadRuntime` of a file that `write` wrote.

  Args:
    folder: The export.
    precision: Of the file.
    threads: Interpreters; 0: one a core, 16 at the most.
  """

  def __init__(self, folder: str, precision: str, threads: int = 0):
    self._interpreters = litert.Interpreters(file_of(folder, precision), threads)

  def inputs(self, signature: str) -> Collection[str]:
    """See `HeadRuntime`."""
    return self._interpreters.inputs[signature]

  def run(self, signature: str, inputs: Inputs) -> Outputs:
    """See `HeadRuntime`; in blocks, which the threads share."""
    if OF_PRODUCTS in self._interpreters.inputs and len(inputs.get('left_part', ())) == 1:
      return self._of_products(inputs)
    block = self._interpreters.rows[signature]
    fixed = {
      n: np.repeat(np.asarray(v[:], np.float32), block, 0) for n, v in inputs.items() if len(v) == 1
    }
    many = {name: value for name, value in inputs.items() if name not in fixed}

    def call(runners: litert.Runners, part: tuple[int, int]) -> Outputs:
      start, stop = part
      own = {name: filled(v[start:stop], block) for name, v in many.items()}
      outputs = runners[signature](**fixed, **own)
      return {name: value[: stop - start] for name, value in outputs.items()}

    outputs = self._joined(call, rows_of(inputs), block)
    if 'score' in outputs:  # the head in pretrained/ has scores alone, which rank as its logits do
      outputs.setdefault('logits', outputs['score'])
    return outputs

  def _of_products(self, inputs: Inputs) -> Outputs:
    """Scores of one left part with every right row, vectors or parts, by their inner products."""
    left = np.asarray(inputs['left_part'][:], np.float32)[0]
    (right,) = (value for name, value in inputs.items() if name != 'left_part')
    block = self._interpreters.rows[OF_PRODUCTS]

    def call(runners: litert.Runners, part: tuple[int, int]) -> Outputs:
      start, stop = part
      rows = slice(start, stop)
      inner, squares = products(left, right.at(rows) if isinstance(right, Stored) else right[rows])
      given = {'products': filled(inner, block), 'squares': filled(squares, block)}
      outputs = runners[OF_PRODUCTS](**given)
      return {name: value[: stop - start] for name, value in outputs.items()}

    return self._joined(call, len(right), block)

  def _joined(
    self, call: Callable[[litert.Runners, tuple[int, int]], Outputs], rows: int, block: int
  ) -> Outputs:
    """Outputs of a call a block of rows."""
    found = self._interpreters.map(call, list(blocks(rows, block)))
    return {name: np.concatenate([of[name] for of in found]) for name in found[0]}
