"""The fingerprint of exported encoders, by which stores know their vectors."""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from common import flags
from common.data.tokenization import Tokenizer
from common.modeling import encoders
from common.modeling.student import Student


def of_student(model: Student, tokenizer: Tokenizer, slots: Sequence[str]) -> str:
  """A digest of all that decides a text's vectors.

  It is not a graph's digest: names in a graph differ from trace to trace.

  Args:
    model: The student whose encoder is exported.
    tokenizer: Its own.
    slots: Name of each slot.

  Returns:
    A sha256 in hexadecimal: the same of the same weights in every process, another one of other
    weights, words, lengths, layers, pooling or precision.
  """
  layers = [model.encoder_layers(slot) for slot in range(model.slots)]
  unused = {id(v) for one in model.encoders for v in one.encoder.unused_variables}  # may be random
  variables = {id(v): v for layer in sum(layers, []) for v in layer.variables}
  used = {key: v for key, v in variables.items() if key not in unused}
  places = {key: place for place, key in enumerate(used)}
  settings = flags.flat(model.config)
  settings.pop('pretrained', None)  # a path; what was read there is in the weights
  described: dict[str, Any] = {
    'kind': model.name,
    'config': settings,
    'words': tokenizer.digest,
    'max_lengths': model.max_lengths,
    'widths': model.widths,
    'slots': [
      {
        'name': name,
        'encoder': None if model.widths[slot] else _config(model.encoder(slot).encoder.config),
        'arithmetic': [getattr(layer, 'compute_dtype', '') for layer in layers[slot]],
        'variables': [places[id(v)] for x in layers[slot] for v in x.variables if id(v) in places],
      }
      for slot, name in enumerate(slots)
    ],
  }
  digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
  for variable in used.values():
    value = np.ascontiguousarray(variable.numpy())
    digest.update(f'{value.dtype}{value.shape}'.encode())
    digest.update(value.tobytes())
  return digest.hexdigest()


def _config(config: Any) -> list[Any]:
  """An encoder's kind and settings."""
  return [encoders.kind_of(config), dataclasses.asdict(config)]
