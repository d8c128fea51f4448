"""The runtimes of an export's heads and encoders, by name: the one place that lists them."""

import importlib.util
from collections.abc import Mapping
from typing import TypeVar

from common import extras
from common.errors import InputError, check_whole
from common.scoring import litert_encoder, litert_head
from common.scoring.exported import Export
from common.scoring.runtime import EncoderKind, EncoderRuntime, HeadKind, HeadRuntime

Kind = TypeVar('Kind')
_LIGHT = "runtime='litert-int8' with encoder_runtime='litert-int8' does without TensorFlow: "


def _head(export: Export, _: int) -> HeadRuntime:
  with extras.needed('train', _LIGHT):
    from common.scoring.tensorflow_runtimes import TensorFlowHead

  return TensorFlowHead(export.head)


def _encoder(export: Export) -> EncoderRuntime:
  with extras.needed('train', _LIGHT):
    from common.scoring.tensorflow_runtimes import TensorFlowEncoder

  return TensorFlowEncoder(export.encoder)


def _openvino(export: Export, threads: int, _: bool) -> EncoderRuntime:
  with extras.needed('openvino', "encoder_runtime='openvino': "):
    from common.scoring.openvino_encoder import OpenVINOEncoder

  return OpenVINOEncoder(export, threads)


HEADS: dict[str, HeadKind] = {
  'tensorflow': HeadKind(_head),
  'litert': litert_head.kind('float32'),
  'litert-int8': litert_head.kind('int8'),
}
ENCODERS: dict[str, EncoderKind] = {
  'tensorflow': EncoderKind(lambda export, *_: _encoder(export)),
  'litert': litert_encoder.kind('float32'),
  'litert-int8': litert_encoder.kind('int8'),
  'openvino': EncoderKind(_openvino, threaded=True, package='openvino'),
}


def load(
  export: Export, head: str, encoder: str, threads: int = 0
) -> tuple[EncoderRuntime, HeadRuntime]:
  """Runtimes of an export's encoders and head, as from `load_head` and `load_encoder`.

  Raises:
    InputError: As theirs, or if there are threads, and neither has any of its own.
  """
  kinds = _known(HEADS, 'runtime', head), _known(ENCODERS, 'encoder_runtime', encoder)
  if threads and not any(kind.threaded for kind in kinds):
    raise InputError(
      f'threads={threads} has no effect on runtime={head!r} with encoder_runtime={encoder!r}; '
      'choose a LiteRT runtime or openvino, or omit it'
    )
  return load_encoder(export, encoder, threads), load_head(export, head, threads)


def available(kinds: Mapping[str, HeadKind] | Mapping[str, EncoderKind]) -> list[str]:
  """Names of `HEADS` or `ENCODERS` that miss no extra."""
  return [
    name
    for name, kind in kinds.items()
    if not kind.package or importlib.util.find_spec(kind.package)
  ]


def load_head(export: Export, name: str, threads: int = 0) -> HeadRuntime:
  """A runtime of an export's head.

  Args:
    export: The export.
    name: One of `HEADS`.
    threads: Threads of a runtime that has its own; 0: one a core, 16 at the most. The others use
      the process's.

  Raises:
    InputError: If there is none of that name, or the export has no file for it.
  """
  check_whole('threads', threads, 0, 1024)
  kind: HeadKind = _known(HEADS, 'runtime', name)
  return kind.load(export, threads if kind.threaded else 0)


def load_encoder(
  export: Export, name: str, threads: int = 0, *, paired: bool = False
) -> EncoderRuntime:
  """A runtime of an export's encoders.

  Args:
    export: The export.
    name: One of `ENCODERS`.
    threads: As for `load_head`.
    paired: Whether two of LiteRT's threads share a model. That takes half of the memory, and a
      single text less time; many texts take more. A fork cannot call it.

  Raises:
    InputError: As for `load_head`.
  """
  check_whole('threads', threads, 0, 1024)
  kind: EncoderKind = _known(ENCODERS, 'encoder_runtime', name)
  encoder = kind.load(export, threads if kind.threaded else 0, paired)
  encoder.name = name
  return encoder


def _known(kinds: Mapping[str, Kind], what: str, name: str) -> Kind:
  if name not in kinds:
    raise InputError(f'{what}={name!r}: one of {", ".join(kinds)}')
  return kinds[name]
