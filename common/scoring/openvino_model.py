"""Signatures of a SavedModel, read and run by OpenVINO, without TensorFlow.

It multiplies in bfloat16 where the CPU does (AVX512-BF16, AMX), else in float32. A graph is changed
as it is read: as TensorFlow saves an encoder, OpenVINO runs it more slowly, and wrong in bfloat16,
where the two 1e9 of a mask's (1 - m) * -1e9 are rounded differently.

Dimensions: B rows of a call, L tokens.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.utils import replace_node

from common import digests, files
from common.data.batching import longest_first
from common.errors import InputError
from common.scoring.exported import REMEDY
from common.scoring.litert import threads_of
from common.scoring.sorted_encoder import Fill

_ROWS = 32  # of a call, whose products keep the weights in cache
_SCORES = 'aecd,abcd->acbe'  # keys and queries to scores: b queries, e keys, c heads
_CONTEXTS = 'acbe,aecd->abcd'  # scores and values
_LOW = -1e3  # what is added to the score of a masked token is lower


class Signatures:
  """`Functions` of a SavedModel's signatures; calls are shared out to the threads.

  Args:
    path: Its version folder.
    signatures: Each one's name and argument, by the name that `run` takes.
    lengths: As of `Functions`, the greatest alone.
    dense: As of `Functions`.
    threads: Streams of one thread; 0: one a core, 16 at the most.

  Raises:
    InputError: If the folder is not there or not on this machine, not what was exported, or holds
      what OpenVINO does not run.
  """

  def __init__(
    self,
    path: str,
    signatures: Mapping[str, tuple[str, str]],
    lengths: Mapping[str, Sequence[int]],
    dense: Collection[str],
    threads: int,
  ):
    self.lengths, self.dense = lengths, dense
    if files.is_remote(path):
      raise InputError(f'{path}: OpenVINO needs a folder of this machine: copy the export here')
    digests.check(path, REMEDY)
    threads = threads_of(threads)
    options = {
      'NUM_STREAMS': threads,
      'INFERENCE_NUM_THREADS': threads,
      'ENABLE_CPU_PINNING': False,  # several processes would share the same cores
    }
    try:
      self._queues = {
        name: ov.AsyncInferQueue(ov.Core().compile_model(graph, 'CPU', options), threads)
        for name, graph in _read(path, signatures).items()
      }
    except Exception as error:  # of several kinds, as of a graph in bfloat16
      reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
      raise InputError(
        f'{path}: OpenVINO does not run it ({reason.strip(" -")}); choose another runtime'
      ) from error
    self._lock, self._process = threading.Lock(), os.getpid()  # a queue has one callback

  def run(
    self,
    name: str,
    sizes: np.ndarray,
    fill: Fill,
    outputs: np.ndarray,
    done: Callable[[int], Any],
  ) -> None:
    """See `sorted_encoder.Functions`."""
    if os.getpid() != self._process:  # whose threads did not come along: it would wait forever
      raise InputError('OpenVINO does not run in a fork; load the scorer in the new process')
    queue = self._queues[name]

    def finish(request: ov.InferRequest, rows: np.ndarray) -> None:
      outputs[rows] = request.get_output_tensor().data
      done(len(rows))

    with self._lock:
      queue.set_callback(finish)
      try:
        for rows in longest_first(sizes, _ROWS):
          queue.start_async(fill(rows, len(rows), int(sizes[rows[0]])), rows)
      finally:
        queue.wait_all()


def _read(path: str, signatures: Mapping[str, tuple[str, str]]) -> dict[str, ov.Model]:
  """Graphs of signatures, by the caller's names; TensorFlow names inputs SIGNATURE_ARGUMENT:0."""
  wanted = {f'{signature}_{argument}:0': name for name, (signature, argument) in signatures.items()}
  frontend, found = ov.frontend.FrontEndManager().load_by_framework('tf'), {}
  model = frontend.load(path)
  for output in [place.get_names()[0] for place in model.get_outputs()]:
    model.override_all_outputs([model.get_place_by_tensor_name(output)])
    inputs = [place.get_names()[0] for place in model.get_inputs()]
    if name := wanted.pop(inputs[0], '') if len(inputs) == 1 else '':
      found[name] = frontend.convert(model)
      _rewrite(found[name])
  if wanted:
    raise ValueError(f'no signature of {next(iter(wanted))}')
  return found


def _rewrite(model: ov.Model) -> None:
  """Gives a graph products that OpenVINO is fast at, and masks that are exact in bfloat16."""
  for node in model.get_ordered_ops():
    kind, last = node.get_type_name(), node
    if kind == 'Einsum':
      equation, (x, y) = node.get_attributes()['equation'], node.input_values()
      if equation == _SCORES:
        new = ops.matmul(_heads_first(y), _heads_first(x), False, True)
      elif equation == _CONTEXTS:
        new = _heads_first(ops.matmul(x, _heads_first(y), False, False))
      elif (weights := _constant(y)) is not None:
        last, new = _product(node, equation, x, weights)
      else:
        continue
    elif kind == 'Multiply' and node.input_value(0).get_node().get_type_name() == 'Subtract':
      one, mask = node.input_value(0).get_node().input_values()
      low = _constant(node.input_value(1))
      if _constant(one) != 1 or low is None or low.max() > _LOW:
        continue
      new = ops.select(ops.greater(mask, np.float32(0)), np.float32(0), low)
    else:
      continue
    replace_node(last, new)


def _product(
  node: ov.Node, equation: str, x: ov.Output, weights: np.ndarray
) -> tuple[ov.Node, ov.Node]:
  """A product with a matrix, which has the bias and the factor that follow, and what it replaces.

  Args:
    node: The Einsum.
    equation: As abc,cde->abde: the last axes of x are the first ones of the weights.
    x: The other factor.
    weights: The weights.
  """
  left, right = equation.split('->')[0].split(',')
  summed = sum(axis in left for axis in right)
  shape, first = weights.shape[summed:], [0] * (len(left) - summed)  # 0: the dimension of before
  bias: Any = 0.0
  while len(users := list(node.output(0).get_target_inputs())) == 1:
    user = users[0].get_node()
    value = _constant(user.input_value(1 - users[0].get_index()))
    if user.get_type_name() == 'Add' and value is not None and value.shape == shape:
      bias = bias + value
    elif user.get_type_name() == 'Multiply' and value is not None and value.size == 1:
      weights, bias = weights * value, bias * value
    else:
      break
    node = user
  matrix = weights.reshape(math.prod(weights.shape[:summed]), -1)
  flat = x if summed == 1 else ops.reshape(x, [*first, -1], special_zero=True)
  found = ops.matmul(flat, matrix, False, False)
  found = ops.add(found, np.broadcast_to(bias, shape).reshape(-1).astype(np.float32))
  return node, found if len(shape) == 1 else ops.reshape(found, [*first, *shape], special_zero=True)


def _heads_first(x: Any) -> ov.Node:
  """[B, L, heads, w] to [B, heads, L, w], or back."""
  return ops.transpose(x, [0, 2, 1, 3])


def _constant(output: ov.Output) -> np.ndarray | None:
  """The value of an output that is constant."""
  node = output.get_node()
  return node.get_data() if node.get_type_name() == 'Constant' else None
