"""Files of the runtimes beside TensorFlow, written when a student is exported: LiteRT's."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.data.tokenization import Tokenizer
from common.export import encoders
from common.modeling.head import ExportedHead
from common.modeling.student import Student
from common.scoring import exported, runtimes
from common.scoring.runtime import ANY_SLOT, EncoderFunction, HeadFunction

_TOLERANCE = 1e-3  # of encoders, which sum otherwise


def write_heads(folder: str, head: ExportedHead, functions: dict[str, HeadFunction]) -> None:
  """Writes a head's files; `functions` as from `heads.functions`."""
  of_head = {name: function for name, function in functions.items() if name != 'attention'}
  for kind in runtimes.HEADS.values():
    if kind.write:
      kind.write(folder, of_head, head.variables)


def write_encoders(folder: str, model: Student, tokenizer: Tokenizer, slots: Sequence[str]) -> None:
  """Writes the encoders' files: a function a slot, or one where all slots encode alike."""

  def encode(slot: int) -> EncoderFunction:
    def function(ids: tf.Tensor) -> tf.Tensor:
      return model.encode(ids, slot, training=False)

    return EncoderFunction(function, model.max_lengths[slot], model.widths[slot])

  layers = [[*map(id, model.encoder_layers(slot))] for slot in range(model.slots)]
  if all(one == of[0] for of in (layers, model.max_lengths) for one in of):
    functions = {ANY_SLOT: encode(0)}
  else:
    functions = {slot: encode(number) for number, slot in enumerate(slots)}
  for kind in runtimes.ENCODERS.values():
    if kind.write:
      kind.write(folder, functions, encoders.variables(model, range(model.slots)), tokenizer)


def check_encoders(folder: str, given: dict[str, Any], vectors: dict[str, np.ndarray]) -> None:
  """Refuses encoders in LiteRT's float32 that are not the exported ones.

  Args:
    folder: The export.
    given: A few texts (or vectors) by slot.
    vectors: Those that the exported encoders make of them.

  Raises:
    RuntimeError: If a slot's differ by more than 1e-3.
  """
  encoder = runtimes.load_encoder(exported.Export(folder), 'litert')
  for slot, texts in given.items():
    found = np.zeros_like(vectors[slot])
    encoder.encode(texts, slot, found, len(texts), lambda count: None)
    difference = np.abs(found - vectors[slot]).max()
    if not difference <= _TOLERANCE:
      raise RuntimeError(f'{slot} encoder in LiteRT differs from the live model by {difference:g}')
