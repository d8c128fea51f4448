"""The runtimes of an export's heads and encoders, by name: the one place that lists them."""

from collections.abc import Callable
from typing import NamedTuple

from common import extras
from common.errors import InputError, check_whole
from common.scoring.exported import Export
from common.scoring.litert_encoder import LiteRTEncoder
from common.scoring.litert_head import LiteRTHead
from common.scoring.runtime import EncoderRuntime, HeadRuntime

_LIGHT = "runtime='litert-int8' with encoder_runtime='litert-int8' does without TensorFlow: "


class Runtime(NamedTuple):
  """A runtime.

  Attributes:
    head: Makes a `HeadRuntime` of an export and threads.
    encoder: Makes an `EncoderRuntime` of an export, threads, and whether two share a model.
    threaded: Whether it has threads of its own; if not, it is always given 0.
  """

  head: Callable[[Export, int], HeadRuntime]
  encoder: Callable[[Export, int, bool], EncoderRuntime]
  threaded: bool = True


def _head(export: Export, _: int) -> HeadRuntime:
  with extras.needed('train', _LIGHT):
    from common.scoring.tensorflow_runtimes import TensorFlowHead

  return TensorFlowHead(export.head)


def _encoder(export: Export, *_: int) -> EncoderRuntime:
  with extras.needed('train', _LIGHT):
    from common.scoring.tensorflow_runtimes import TensorFlowEncoder

  return TensorFlowEncoder(export.encoder)


def _litert(precision: str) -> Runtime:
  """The runtime of one of `litert_files.PRECISIONS`."""
  return Runtime(
    lambda export, threads: LiteRTHead(export.folder, precision, threads),
    lambda export, threads, paired: LiteRTEncoder(export.folder, precision, threads, paired),
  )


RUNTIMES = {
  'tensorflow': Runtime(_head, _encoder, threaded=False),
  'litert': _litert('float32'),
  'litert-int8': _litert('int8'),
}


def load(
  export: Export, head: str, encoder: str, threads: int = 0
) -> tuple[EncoderRuntime, HeadRuntime]:
  """Runtimes of an export's encoders and head, as from `load_head` and `load_encoder`.

  Raises:
    InputError: As theirs, or if there are threads, and neither has any of its own.
  """
  both = _known('runtime', head), _known('encoder_runtime', encoder)
  if threads and not any(runtime.threaded for runtime in both):
    raise InputError(
      f'threads={threads} has no effect on runtime={head!r} with encoder_runtime={encoder!r}; '
      'choose a LiteRT runtime, or omit it'
    )
  return load_encoder(export, encoder, threads), load_head(export, head, threads)


def load_head(export: Export, name: str, threads: int = 0) -> HeadRuntime:
  """A runtime of an export's head.

  Args:
    export: The export.
    name: One of `RUNTIMES`.
    threads: Threads of a runtime that has its own; 0: one a core, 16 at the most. TensorFlow uses
      the process's.

  Raises:
    InputError: If there is none of that name, or the export has no file for it.
  """
  check_whole('threads', threads, 0, 1024)
  runtime = _known('runtime', name)
  return runtime.head(export, threads if runtime.threaded else 0)


def load_encoder(
  export: Export, name: str, threads: int = 0, *, paired: bool = False
) -> EncoderRuntime:
  """A runtime of an export's encoders.

  Args:
    export: The export.
    name: One of `RUNTIMES`.
    threads: As for `load_head`.
    paired: Whether two of LiteRT's threads share a model. That takes half of the memory, and a
      single text less time; many texts take more. A fork cannot call it.

  Raises:
    InputError: As for `load_head`.
  """
  check_whole('threads', threads, 0, 1024)
  runtime = _known('encoder_runtime', name)
  encoder = runtime.encoder(export, threads if runtime.threaded else 0, paired)
  encoder.name = name
  return encoder


def _known(what: str, name: str) -> Runtime:
  if name not in RUNTIMES:
    raise InputError(f'{what}={name!r}: one of {", ".join(RUNTIMES)}')
  return RUNTIMES[name]
