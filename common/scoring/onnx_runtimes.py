"""Heads and encoders in ONNX, in float32, run by onnxruntime without TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import onnxruntime

from common import digests, files
from common.data.batching import longest_first
from common.errors import InputError, damaged
from common.scoring import litert_encoder
from common.scoring.exported import ONNX, Export
from common.scoring.litert import threads_of
from common.scoring.runtime import Inputs, Outputs, blocks, filled, rows_of
from common.scoring.sorted_encoder import Fill, SortedEncoder

Item = TypeVar('Item')
Result = TypeVar('Result')
_SUFFIX = '.onnx'
_HEAD_ROWS, _ENCODER_ROWS = 256, 8  # of a call; 8 texts keep the weights in cache
_COMMAND = 'python -m common.export.onnx_export'
_REMEDY = f'delete the folder onnx and run {_COMMAND}'


def head_file(folder: str, signature: str) -> str:
  """File of a head's signature, in an export's folder `ONNX`."""
  return os.path.join(folder, 'head', f'{signature}{_SUFFIX}')


def encoder_file(folder: str, slot: str) -> str:
  """File of a slot's encoder, in an export's folder `ONNX`."""
  return os.path.join(folder, 'encoder', slot, f'model{_SUFFIX}')


class Function:
  """A function in an ONNX file, of NumPy arrays by name; several threads may call it.

  Args:
    path: The file.

  Raises:
    InputError: If the file is missing or not what was written.

  Attributes:
    inputs: Names of its inputs.
  """

  def __init__(self, path: str):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = (
      1  # callers are the threads: a fork would lose threads of its own
    )
    options.log_severity_level = 3  # errors
    digests.check(path, _REMEDY)
    with damaged(path, _REMEDY):
      providers = ['CPUExecutionProvider']
      self._session = onnxruntime.InferenceSession(path, options, providers=providers)
    self.inputs = tuple(one.name for one in self._session.get_inputs())
    self._outputs = [one.name for one in self._session.get_outputs()]

  def __call__(self, **inputs: np.ndarray) -> Outputs:
    return dict(zip(self._outputs, self._session.run(self._outputs, inputs), strict=True))


class ONNXHead:
  """`HeadRuntime` of an export.

  Args:
    export: The export.
    threads: Calls at a time; 0: one a core, 16 at the most.
  """

  def __init__(self, export: Export, threads: int = 0):
    folder, self._threads = _folder(export), threads_of(threads)
    digests.check(own := os.path.dirname(head_file(folder, '')), _REMEDY)
    names = os.listdir(own)
    signatures = [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]
    self._functions = {name: Function(head_file(folder, name)) for name in signatures}

  def inputs(self, signature: str) -> Collection[str]:
    """See `HeadRuntime`."""
    return self._functions[signature].inputs

  def run(self, signature: str, inputs: Inputs) -> Outputs:
    """See `HeadRuntime`; in blocks, which the threads share."""
    rows = rows_of(inputs)
    one = {n: np.asarray(v[:], np.float32) for n, v in inputs.items() if len(v) == 1 and rows > 1}
    many = {name: value for name, value in inputs.items() if name not in one}

    def call(block: tuple[int, int]) -> Outputs:
      start, stop = block
      own = {name: filled(value[start:stop], stop - start) for name, value in many.items()}
      return self._functions[signature](**one, **own)

    found = _shared(call, list(blocks(rows, _HEAD_ROWS)), self._threads)
    return {name: np.concatenate([of[name] for of in found]) for name in found[0]}


class ONNXEncoder(SortedEncoder):
  """`EncoderRuntime` of an export.

  Args:
    export: The export; an encoder that slots have in common is loaded once.
    threads: Calls at a time; 0: one a core, 16 at the most.
  """

  def __init__(self, export: Export, threads: int = 0):
    super().__init__(_Encoders(export, threads), os.path.join(export.folder, litert_encoder.FOLDER))


class _Encoders:
  """`Functions` of an export's encoders, by slot."""

  def __init__(self, export: Export, threads: int):
    folder, described, self._threads = _folder(export), export.description, threads_of(threads)
    slots, lengths = described['slots'], described['max_lengths']
    self.dense = described['widths']
    self.lengths = {
      slot: [self.dense.get(slot, length)] for slot, length in zip(slots, lengths, strict=True)
    }
    firsts = {
      slot: slots[first] for slot, first in zip(slots, described['encoded_as'], strict=True)
    }
    loaded = {slot: Function(encoder_file(folder, slot)) for slot in {*firsts.values()}}
    self._functions = {slot: loaded[first] for slot, first in firsts.items()}

  def run(
    self,
    name: str,
    sizes: np.ndarray,
    fill: Fill,
    outputs: np.ndarray,
    done: Callable[[int], Any],
  ) -> None:
    """See `sorted_encoder.Functions`."""

    def call(rows: np.ndarray) -> None:
      found = self._functions[name](**fill(rows, len(rows), int(sizes[rows[0]])))
      outputs[rows] = found['vectors']
      done(len(rows))

    _shared(call, list(longest_first(sizes, _ENCODER_ROWS)), self._threads)


def _folder(export: Export) -> str:
  """An export's folder of ONNX files; refuses one that is not there or not on this machine."""
  folder = os.path.join(export.folder, ONNX)
  if files.is_remote(folder):
    raise InputError(f'{folder}: onnxruntime needs a folder of this machine: copy the export here')
  if not os.path.isdir(folder):
    raise InputError(f'{folder} is not there; run {_COMMAND} --export={export.folder}')
  return folder


def _shared(call: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
  """Results of a call an item, by threads that end with it."""
  if min(threads, len(items)) < 2:
    return [call(item) for item in items]
  with ThreadPoolExecutor(min(threads, len(items))) as pool:
    return list(pool.map(call, items))  # of which an interruption cancels the rest
