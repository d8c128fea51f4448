"""The runtimes of exported heads, by name: this is the one place that lists them."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from common.errors import InputError
from common.scoring import litert
from common.scoring.runtime import HeadFunction, Kind, Runtime
from common.scoring.tensorflow_head import TensorFlowHead

RUNTIMES: dict[str, Kind] = {
  'tensorflow': Kind(lambda folder, head, threads: TensorFlowHead(head, jit_compile=False)),
  'xla': Kind(lambda folder, head, threads: TensorFlowHead(head, jit_compile=True)),
  'litert': litert.kind('float32'),
  'litert-float16': litert.kind('float16'),
  'litert-int8': litert.kind('int8'),
}


def load(folder: str, head: Any, name: str, threads: int = 0) -> Runtime:
  """A runtime of an export.

  Args:
    folder: The export.
    head: Its head's SavedModel.
    name: One of `RUNTIMES`.
    threads: Threads of a runtime that has its own; 0: one a core. The others have the process's.

  Raises:
    InputError: If there is none of that name, or the export has no file for it.
  """
  if name not in RUNTIMES:
    raise InputError(f'runtime={name!r}: one of {", ".join(RUNTIMES)}')
  kind = RUNTIMES[name]
  if threads and not kind.threaded:
    raise InputError(f'threads={threads}: runtime={name!r} has those of the process')
  return kind.load(folder, head, threads)


def write(
  folder: str, functions: dict[str, HeadFunction], variables: Sequence[tf.Variable]
) -> None:
  """Writes the file of each runtime that has one; arguments as for `Kind.write`."""
  for kind in RUNTIMES.values():
    if kind.write:
      kind.write(folder, functions, variables)
