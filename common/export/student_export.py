"""A student as two SavedModels: text to vectors, and vectors to a score (DiPair §3.1, DSE §4.3).

`encoder/1` has two signatures a slot of texts: `left`(text) and `left_ids`(ids), each giving `vectors`
[batch, *vector_shape]; a slot of vectors has one, `left`(vector). `head/1` takes the slots' vectors and gives `logits` and `score`, the latter
calibrated where the run asks for it; it holds no tokenizer and no embedding table. Its other signatures score what was computed once per text:

* `left_part`, `right_part`: vectors to the text's part, the head's per-text computation;
* `of_parts`: parts of pairs (for DSE vectors too); a single row goes with all of the other slot's;
* `one_to_many`: the part of one left text and the vectors of right ones; `one_to_many_int8`: these as
  an int8 store holds them, a quarter of the bytes;
* `attention`: of a transformer head, what its tokens attend to. The encoder's `left_tokens` and
  `right_tokens` then give the word pieces that they stand on.

`online/1`, of pairs, takes a query's text and candidates' vectors (`common.export.online`).
`head_litert/` and `encoder_litert/` have them in LiteRT, a file a precision, the latter with its word
pieces; `scorer.json` is what `PairScorer` reads.
"""

import dataclasses
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
from common.export import encoder_fingerprint, heads, online, saved_models
from common.modeling.calibration import Calibration
from common.modeling.head import ExportedHead
from common.modeling.student import Student
from common.scoring import exported, runtimes
from common.scoring.runtime import ANY_SLOT, EncoderFunction, HeadFunction

_OWN = (*heads.NAMES, 'score', 'self')  # no slot's signatures; `self` is TensorFlow's own argument
_LITERT_TOLERANCE = 1e-3  # of encoders, which sum otherwise
_HEAD_TOLERANCE = 1e-4  # of logits, restructured, which are of any scale


def slot_names(text_columns: Sequence[str]) -> tuple[str, ...]:
  """'left' and 'right' for two texts; for more, the columns' names.

  Raises:
    InputError: If a column cannot name signatures and inputs.
  """
  if len(text_columns) == 2:
    return 'left', 'right'
  taken = {f'{name}_{of}' for name in text_columns for of in ('ids', 'part', 'scale', 'tokens')}
  taken |= set(_OWN)
  for number, name in enumerate(text_columns):
    if not re.fullmatch('[A-Za-z][A-Za-z0-9_]*', name) or name in {*taken, *text_columns[:number]}:
      raise InputError(
        f'--text_columns={",".join(text_columns)}: {name!r} cannot name a signature of the export; '
        'rename the column: letters, digits and _, each name once'
      )
  return tuple(text_columns)


@saved_models.exact()
def write(
  folder: str,
  model: Student,
  tokenizer: Tokenizer,
  *,
  slots: Sequence[str],
  task: str,
  samples: Sequence[Sequence[str]],
  encoder: Student | None = None,
  calibration: Calibration = Calibration(),  # noqa: B008 (a frozen dataclass)
) -> dict[str, Any]:
  """Exports a student and compares its SavedModels, reloaded, with the live model.

  Args:
    folder: Gets the SavedModels and files that the module's docstring names.
    model: The student.
    tokenizer: The student's.
    slots: Name of each slot.
    task: What a score means.
    samples: A few texts (or vectors) a slot, for the comparison.
    encoder: The same student in another precision, whose encoder is exported; the student's own
      where absent.
    calibration: From logits to scores, in every signature and runtime.

  Returns:
    {'max_difference', 'encoder_bytes', 'head_bytes', 'online_bytes' for two slots,
    'vector_bytes': {slot: bytes a text}}.
  """
  digests.remove(folder)  # of what a killed call left
  encoder = encoder or model
  head = model.exported_head()
  encoders, inputs = _encoders(encoder, tokenizer, slots, samples, tokens=head.attends)
  vectors = {
    name: encoders[name](**{key: tf.constant(given) for key, given in inputs[name].items()})[
      'vectors'
    ].numpy()
    for name in slots
  }
  _check(head, model, list(vectors.values()))
  functions = heads.functions(head, model, slots, calibration)
  signatures = heads.signatures(functions, slots)
  layers = [layer for slot in range(model.slots) for layer in encoder.encoder_layers(slot)]
  head_path, encoder_path = os.path.join(folder, 'head'), os.path.join(folder, 'encoder')
  saved = [
    saved_models.save(encoder_path, encoders, _variables(layers), inputs),
    saved_models.save(head_path, signatures, head.variables, heads.samples(signatures, vectors)),
  ]
  sizes = {
    'encoder_bytes': saved_models.size(encoder_path),
    'head_bytes': saved_models.size(head_path),
  }
  if len(slots) == 2:
    left, right = slots
    score = functions['serving_default'].call
    variables = [*_variables(encoder.encoder_layers(0)), *head.variables]
    (query,) = inputs[left].values()
    both = {left: query, right: vectors[right]}
    saved.append(online.write(folder, encoders[left], score, variables, both))
    sizes['online_bytes'] = saved_models.size(os.path.join(folder, online.NAME))
  _write_runtimes(folder, model, tokenizer, slots, head, functions)
  if encoder is model:
    _check_encoder(folder, {name: next(iter(inputs[name].values())) for name in slots}, vectors)
  description = {
    **_of_head(model, slots, head),
    'task': task,
    'calibration': dataclasses.asdict(calibration),
    'fingerprint': encoder_fingerprint.of_student(encoder, tokenizer, slots),
    'stored_under': {n: of for slot, n in enumerate(slots) if (of := model.stored_under(slot))},
  }
  files.write_json(os.path.join(folder, exported.DESCRIPTION), description)
  difference = saved_models.verify(*saved)
  digests.write(folder)
  shapes = zip(slots, description['vector_shapes'], strict=True)
  return {
    'max_difference': difference,
    **sizes,
    'vector_bytes': {name: 4 * math.prod(shape) for name, shape in shapes},
  }


@saved_models.exact()
def write_head(folder: str, model: Student, slots: Sequence[str]) -> None:
  """Writes a student's head alone, in all its forms, for `PairScorer`s that have no encoder.

  Args:
    folder: As for `write`, likewise the next two.
    model: The student.
    slots: Name of each slot.
  """
  head, random = model.exported_head(), np.random.default_rng(0)
  shapes = [model.vector_shape(slot) for slot in range(len(slots))]
  _check(head, model, [random.normal(size=[2, *shape]).astype(np.float32) for shape in shapes])
  functions = heads.functions(head, model, slots, Calibration())
  signatures = heads.signatures(functions, slots)
  saved_models.save(os.path.join(folder, 'head'), signatures, head.variables, {})
  _write_head_runtimes(folder, head, functions)
  description = {**_of_head(model, slots, head), 'fingerprint': ''}
  files.write_json(os.path.join(folder, exported.DESCRIPTION), description)
  digests.write(folder)


def _of_head(model: Student, slots: Sequence[str], head: ExportedHead) -> dict[str, Any]:
  """What the description says of slots and head."""
  return {
    'kind': model.name,
    'slots': list(slots),
    'vector_shapes': [model.vector_shape(slot) for slot in range(model.slots)],
    'outputs': model.outputs,
    'widths': {name: width for name, width in zip(slots, model.widths, strict=True) if width},
    'attends': head.attends,
    'encoded_as': [model.encoded_as(slot) for slot in range(model.slots)],
    'max_lengths': model.max_lengths,
  }


def _encoders(
  model: Student,
  tokenizer: Tokenizer,
  slots: Sequence[str],
  samples: Sequence[Sequence[str]],
  *,
  tokens: bool,
) -> tuple[dict[str, Any], saved_models.Samples]:
  """Signatures that give vectors, of texts and of word ids, or of vectors; and each one's samples.

  With `tokens` those, too, that give the word pieces which a text's stored tokens stand on.
  """
  encoders: dict[str, Any] = {}
  inputs: saved_models.Samples = {}
  for slot, (name, items) in enumerate(zip(slots, samples, strict=True)):
    if model.widths[slot]:
      encoders[name], inputs[name] = _encoder(model, slot), {'vector': np.stack(items)}
      continue
    encoders[f'{name}_ids'] = of_ids = _encoder(model, slot)
    encoders[name] = _text_encoder(of_ids, tokenizer, model.max_lengths[slot])
    ids = tokenizer.encode(tf.constant(items), model.max_lengths[slot])
    inputs[name] = {'text': items}
    inputs[f'{name}_ids'] = {'ids': ids.to_tensor(tokenizer.pad_id).numpy()}
    if tokens:
      encoders[f'{name}_tokens'] = _tokens_function(model, tokenizer, slot)
      inputs[f'{name}_tokens'] = inputs[name]
  return encoders, inputs


def _encoder(model: Student, slot: int) -> Any:
  """A slot's encoder, of what the model itself takes."""
  spec = model.encoder_input(slot)

  @tf.function(autograph=False)
  def encode(**given: tf.Tensor) -> dict[str, tf.Tensor]:
    vectors = model.encode(given[spec.name], slot, training=False)
    return {'vectors': tf.cast(vectors, tf.float32)}

  return encode.get_concrete_function(**{spec.name: spec})


def _text_encoder(of_ids: Any, tokenizer: Tokenizer, max_length: int) -> Any:
  """An encoder of word ids as one of texts."""

  @tf.function(autograph=False)
  def encode(**given: tf.Tensor) -> dict[str, tf.Tensor]:
    return of_ids(ids=tokenizer.encode(given['text'], max_length).to_tensor(tokenizer.pad_id))

  return encode.get_concrete_function(text=tf.TensorSpec([None], tf.string, name='text'))


def _write_runtimes(
  folder: str,
  model: Student,
  tokenizer: Tokenizer,
  slots: Sequence[str],
  head: ExportedHead,
  functions: dict[str, HeadFunction],
) -> None:
  """The files of runtimes that have some."""
  _write_head_runtimes(folder, head, functions)

  def encode(slot: int) -> EncoderFunction:
    def function(ids: tf.Tensor) -> tf.Tensor:
      return model.encode(ids, slot, training=False)

    return EncoderFunction(function, model.max_lengths[slot], model.widths[slot])

  layers = [model.encoder_layers(slot) for slot in range(model.slots)]
  same = [[*map(id, of_slot)] for of_slot in layers], model.max_lengths
  if all(one == of[0] for of in same for one in of):
    of_slots = {ANY_SLOT: encode(0)}
  else:
    of_slots = {slot: encode(number) for number, slot in enumerate(slots)}
  for kind in runtimes.ENCODERS.values():
    if kind.write:
      kind.write(folder, of_slots, _variables(sum(layers, [])), tokenizer)


def _write_head_runtimes(
  folder: str, head: ExportedHead, functions: dict[str, HeadFunction]
) -> None:
  of_head = {name: function for name, function in functions.items() if name != 'attention'}
  for kind in runtimes.HEADS.values():
    if kind.write:
      kind.write(folder, of_head, head.variables)


def _check_encoder(folder: str, given: dict[str, Any], vectors: dict[str, np.ndarray]) -> None:
  """The encoders in LiteRT's float32 must be the exported ones."""
  encoder = runtimes.load_encoder(exported.Export(folder), 'litert')
  for slot, texts in given.items():
    found = np.zeros_like(vectors[slot])
    encoder.encode(texts, slot, found, len(texts), lambda count: None)
    difference = np.abs(found - vectors[slot]).max()
    if not difference <= _LITERT_TOLERANCE:
      raise RuntimeError(f'{slot} encoder in LiteRT differs from the live model by {difference:g}')


def _tokens_function(model: Student, tokenizer: Tokenizer, slot: int) -> Any:
  pieces, pad = tf.constant(tokenizer.vocabulary), tokenizer.pad_id

  @tf.function(autograph=False)
  def tokens(text: tf.Tensor) -> dict[str, tf.Tensor]:
    ids = model.kept_ids(tokenizer.encode(text, model.max_lengths[slot]).to_tensor(pad), slot)
    return {'tokens': tf.where(ids == pad, '', tf.gather(pieces, ids))}

  return tokens.get_concrete_function(tf.TensorSpec([None], tf.string, name='text'))


def _variables(layers: Sequence[tf.Module]) -> list[tf.Variable]:
  """The layers' variables, each once."""
  return list({id(v): v for layer in layers for v in layer.variables}.values())


def _check(head: ExportedHead, model: Student, vectors: Sequence[np.ndarray]) -> None:
  """The head as exported must be the trained one."""
  parts = [head.part(tf.constant(v), slot) for slot, v in enumerate(vectors)]
  trained = model.score_vectors(vectors)
  difference = np.abs(head.logits(parts, vectors) - trained).max()
  if not difference <= _HEAD_TOLERANCE * max(1, np.abs(trained).max()):
    raise RuntimeError(f'the exported head differs from the trained one by {difference:g}')
