"""A student as SavedModels: text to vectors, and vectors to a score (DiPair §3.1, DSE §4.3).

`encoder/1` holds the encoders' signatures (`common.export.encoders`). `head/1` takes the slots'
vectors and gives `logits` and `score`, the latter calibrated where the run asks for it; it holds no
tokenizer and no embedding table. Its other signatures score what was computed once per text:

* `left_part`, `right_part`: vectors to the text's part, the head's per-text computation;
* `of_parts`: parts of pairs (for DSE vectors too); a single row goes with all of the other slot's;
* `one_to_many`: the part of one left text and the vectors of right ones; `one_to_many_int8`: these
  vectors as an int8 store holds them, a quarter of the bytes.

`online/1`, of pairs, takes a query's text and candidates' vectors (`common.export.online`).
`head_litert/` and `encoder_litert/` have them in LiteRT, a file a precision, the latter with its
word pieces; `PairScorer` reads `scorer.json`.
"""

import math
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common import digests, files
from common.data.tokenization import Tokenizer
from common.errors import InputError
from common.export import encoder_fingerprint, encoders, heads, online, saved_models
from common.modeling.head import ExportedHead
from common.modeling.student import Student
from common.scoring import exported, litert_encoder, litert_head
from common.scoring.runtime import ANY_SLOT, EncoderFunction

_OWN = (*heads.NAMES, 'score', 'self')  # no slot's signatures; `self` is TensorFlow's own argument
_TOLERANCE = 1e-4  # of logits, restructured, which are of any scale
_LITERT_TOLERANCE = 1e-3  # of encoders, which sum otherwise


def slot_names(text_columns: Sequence[str]) -> tuple[str, ...]:
  """'left' and 'right' for two texts; for more, the columns' names, 'a+b' as 'a_b'.

  Raises:
    InputError: If a column cannot name signatures and inputs.
  """
  if len(text_columns) == 2:
    return 'left', 'right'
  names = tuple(column.replace('+', '_') for column in text_columns)
  taken = {f'{name}_{of}' for name in names for of in ('ids', 'part', 'scale')}
  taken |= set(_OWN)
  for number, name in enumerate(names):
    if not re.fullmatch('[A-Za-z][A-Za-z0-9_]*', name) or name in {*taken, *names[:number]}:
      raise InputError(
        f'--text_columns={",".join(text_columns)}: {name!r} cannot name a signature of the export; '
        'rename the column: letters, digits and _, each name once'
      )
  return names


@saved_models.exact()
def write(
  folder: str,
  model: Student,
  tokenizer: Tokenizer,
  *,
  slots: Sequence[str],
  task: str,
  samples: Sequence[Sequence[str]],
  temperature: float = 1.0,
) -> dict[str, Any]:
  """Exports a student and compares its SavedModels, reloaded, with the live model.

  Args:
    folder: Gets the SavedModels and files that the module's docstring names.
    model: The student.
    tokenizer: The student's.
    slots: Name of each slot.
    task: What a score means.
    samples: A few texts (or vectors) a slot, for the comparison.
    temperature: Of the calibration, in every signature and runtime.

  Returns:
    {'max_difference', 'encoder_bytes', 'head_bytes', 'online_bytes' for two slots,
    'vector_bytes': {slot: bytes a text}}.
  """
  digests.remove(folder)  # of what a killed call left
  head = model.exported_head()
  encode, inputs = encoders.signatures(model, tokenizer, slots, samples)
  given = {name: next(iter(inputs[name].values())) for name in slots}  # texts, or vectors
  vectors = {}
  for name in slots:
    (argument,) = inputs[name]
    vectors[name] = encode[name](**{argument: tf.constant(given[name])})['vectors'].numpy()
  _check_head(head, model, list(vectors.values()))
  functions = heads.functions(head, model, slots, temperature)
  score = heads.signatures(functions, slots)
  variables = encoders.variables(model, range(model.slots))
  saved = {
    'encoder': saved_models.save(os.path.join(folder, 'encoder'), encode, variables, inputs),
    'head': saved_models.save(
      os.path.join(folder, 'head'), score, head.variables, heads.samples(score, vectors)
    ),
  }
  if len(slots) == 2:
    left, right = slots
    saved[online.NAME] = online.write(
      folder,
      encode[left],
      functions['serving_default'].call,
      [*encoders.variables(model, [0]), *head.variables],
      {left: given[left], right: vectors[right]},
    )
  reloaded = saved_models.verify(*saved.values())  # which takes a while: the rest is written
  litert_head.write(folder, functions, head.variables)
  litert_encoder.write(folder, _encoder_functions(model, slots), variables, tokenizer)
  _check_litert_encoders(folder, given, vectors)
  description = {
    'kind': model.name,
    'slots': list(slots),
    'vector_shapes': [model.vector_shape(slot) for slot in range(model.slots)],
    'outputs': model.outputs,
    'widths': {name: width for name, width in zip(slots, model.widths, strict=True) if width},
    'encoded_as': [model.encoded_as(slot) for slot in range(model.slots)],
    'max_lengths': model.max_lengths,
    'calibration': {'temperature': temperature},
    'task': task,
    'fingerprint': encoder_fingerprint.of_student(model, tokenizer, slots),
    'stored_under': {n: of for slot, n in enumerate(slots) if (of := model.stored_under(slot))},
  }
  files.write_json(os.path.join(folder, exported.DESCRIPTION), description)
  difference = reloaded.result()
  digests.write(folder)
  return {
    'max_difference': difference,
    **{f'{name}_bytes': saved_models.size(os.path.join(folder, name)) for name in saved},
    'vector_bytes': {
      name: 4 * math.prod(model.vector_shape(slot)) for slot, name in enumerate(slots)
    },
  }


def _encoder_functions(model: Student, slots: Sequence[str]) -> dict[str, EncoderFunction]:
  """The encoders as LiteRT takes them: a function a slot, or one where all slots encode alike."""

  def encode(slot: int) -> EncoderFunction:
    def function(ids: tf.Tensor) -> tf.Tensor:
      return model.encode(ids, slot, training=False)

    return EncoderFunction(function, model.max_lengths[slot], model.widths[slot])

  if len({(model.encoded_as(slot), model.max_lengths[slot]) for slot in range(model.slots)}) == 1:
    return {ANY_SLOT: encode(0)}
  return {name: encode(slot) for slot, name in enumerate(slots)}


def _check_head(head: ExportedHead, model: Student, vectors: Sequence[np.ndarray]) -> None:
  """Refuses an exported head that is not the trained one."""
  parts = [head.part(tf.constant(v), slot) for slot, v in enumerate(vectors)]
  trained = model.score_vectors(vectors)
  difference = np.abs(head.logits(parts, vectors) - trained).max()
  if not difference <= _TOLERANCE * max(1, np.abs(trained).max()):
    raise RuntimeError(f'the exported head differs from the trained one by {difference:g}')


def _check_litert_encoders(
  folder: str, given: dict[str, Any], vectors: dict[str, np.ndarray]
) -> None:
  """Refuses encoders in LiteRT's float32 that are not the exported ones.

  Args:
    folder: The export.
    given: A few texts (or vectors) by slot.
    vectors: Those that the exported encoders make of them.
  """
  encoder = litert_encoder.LiteRTEncoder(folder, 'float32')
  for slot, texts in given.items():
    found = np.zeros_like(vectors[slot])
    encoder.encode(texts, slot, found, len(texts), lambda count: None)
    difference = np.abs(found - vectors[slot]).max()
    if not difference <= _LITERT_TOLERANCE:
      raise RuntimeError(f'{slot} encoder in LiteRT differs from the live model by {difference:g}')
