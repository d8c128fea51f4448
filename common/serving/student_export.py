"""A student as two SavedModels: text to vectors, and vectors to a score (DiPair §3.1, DSE §4.3).

`encoder/1` has two signatures a text slot: `left`(text) and `left_ids`(ids), each giving `vectors`
[batch, *vector_shape]. `head/1` takes the slots' vectors and gives `logits` and `score`; it holds
no tokenizer and no embedding table. Its other signatures score what was computed once per text:

* `left_part`, `right_part`: vectors to the text's part, what the head computes of it alone;
* `of_parts`: parts of pairs (for DSE vectors too); a single row goes with all of the other side's;
* `one_to_many`: the part of one left text and the vectors of right ones;
* `attention`: of a transformer head, what its tokens attend to. The encoder's `left_tokens` and
  `right_tokens` then give the word pieces that they stand on.

`online/1`, of pairs, takes a query's text and candidates' vectors (`common.serving.online`).
`head_litert/` has the head in LiteRT, a file a precision; `scorer.json` is what `PairScorer` reads.
"""

import json
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from common.data.tokenization import Tokenizer
from common.modeling.losses import probabilities
from common.serving import export, litert, online
from common.serving.litert import Shapes


class ExportedHead(Protocol):
  """A head as it is exported: what is of a text alone, its part, and what is of a pair.

  Attributes:
    variables: All its weights.
    pairs_take_vectors: Whether `of_parts` takes vectors beside parts.
    attends: Whether it has `attention`, and its student `kept_ids`.
  """

  variables: Sequence[tf.Variable]
  pairs_take_vectors: bool
  attends: bool

  def part_shape(self, text: int) -> tuple[int, ...]:
    """Shape of the part of text number `text`."""

  def part(self, vectors: tf.Tensor, text: int) -> tf.Tensor:
    """Maps what is stored of texts number `text`, [B, *vector_shape], to [B, *part_shape]."""

  def of_parts(self, parts: Sequence[tf.Tensor], vectors: Sequence[tf.Tensor] = ()) -> tf.Tensor:
    """Logits [B, O] float32 of a part a text; one of a single row goes with all of the others."""

  def attention(self, vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    """What each stored token attends to, of vectors a text: [B, layers, S, S], a mean over heads."""


class ExportedStudent(Protocol):
  """What a student's layer offers to be exported.

  Attributes:
    name: Of the student's package.
    texts: Of a tuple.
    outputs: O.
    max_lengths: Most tokens of each text.
  """

  name: str
  texts: int
  outputs: int
  max_lengths: Sequence[int]

  def encoder_layers(self, text: int) -> Sequence[tf.Module]:
    """What `vectors` of text number `text` computes with."""

  def vector_shape(self, text: int) -> tuple[int, ...]:
    """Shape of what is stored of one text."""

  def vectors(self, ids: tf.Tensor, text: int) -> tf.Tensor:
    """What is stored of texts: [U, L] word ids to [U, *vector_shape] float32."""

  def kept_ids(self, ids: tf.Tensor, text: int) -> tf.Tensor:
    """The word ids whose tokens are stored: [U, L] to [U, k]."""

  def score_vectors(self, vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Logits [B, O] of vectors, [B, *vector_shape] a text."""

  def exported_head(self) -> ExportedHead:
    """What `score_vectors` computes, arranged for scoring."""


def slot_names(text_columns: Sequence[str]) -> tuple[str, ...]:
  """'left' and 'right' for two texts; for more, the columns' names."""
  return ('left', 'right') if len(text_columns) == 2 else tuple(text_columns)


def write(
  folder: str,
  model: ExportedStudent,
  tokenizer: Tokenizer,
  *,
  slots: Sequence[str],
  task: str,
  samples: Sequence[Sequence[str]],
  encoder: ExportedStudent | None = None,
) -> dict[str, Any]:
  """Exports a student and compares its SavedModels, reloaded, with the live model.

  Args:
    folder: Gets `encoder/1`, `head/1`, for two slots `online/1`, and `scorer.json`.
    model: The student.
    tokenizer: Its own.
    slots: Name of each text slot.
    task: What a score means.
    samples: A few texts a slot, for the comparison.
    encoder: The same student in another precision, whose encoder is exported; the student's own
      where absent.

  Returns:
    {'max_difference', 'encoder_bytes', 'head_bytes', 'online_bytes' for two slots,
    'vector_bytes': {slot: bytes a text}}.
  """
  encoder = encoder or model
  encoders, inputs = {}, {}
  for number, (slot, texts) in enumerate(zip(slots, samples, strict=True)):
    by_text, by_ids = _encoder_functions(encoder, tokenizer, number)
    encoders |= {slot: by_text, f'{slot}_ids': by_ids}
    ids = tokenizer.encode(tf.constant(texts), model.max_lengths[number])
    inputs |= {
      slot: {'text': texts},
      f'{slot}_ids': {'ids': ids.to_tensor(tokenizer.pad_id).numpy()},
    }
  vectors = {
    slot: encoders[slot](text=tf.constant(texts))['vectors'].numpy()
    for slot, texts in zip(slots, samples, strict=True)
  }
  head = model.exported_head()
  if head.attends:
    for number, (slot, texts) in enumerate(zip(slots, samples, strict=True)):
      encoders[f'{slot}_tokens'] = _tokens_function(model, tokenizer, number)
      inputs[f'{slot}_tokens'] = {'text': texts}
  _check(head, model, list(vectors.values()))
  functions = _head_functions(head, model, slots)
  heads = {name: _concrete(*function) for name, function in functions.items()}
  texts = range(len(slots))
  encoder_variables = _variables([layer for i in texts for layer in encoder.encoder_layers(i)])
  head_path, encoder_path = os.path.join(folder, 'head'), os.path.join(folder, 'encoder')
  saved = [
    export.save(encoder_path, encoders, encoder_variables, inputs),
    export.save(head_path, heads, head.variables, _head_samples(heads, vectors)),
  ]
  sizes = {'encoder_bytes': export.size(encoder_path), 'head_bytes': export.size(head_path)}
  if len(slots) == 2:
    left, right = slots
    score, _ = functions['serving_default']
    variables = [*_variables(encoder.encoder_layers(0)), *head.variables]
    both = {left: samples[0], right: vectors[right]}
    saved.append(online.write(folder, encoders[left], score, variables, both))
    sizes['online_bytes'] = export.size(os.path.join(folder, online.NAME))
  others = ('attention', *(f'{slot}_part' for slot in slots))
  scoring = {name: f for name, f in functions.items() if name not in others}
  litert.write(folder, scoring, head.variables)
  shapes = [model.vector_shape(number) for number in range(model.texts)]
  description = {
    'kind': model.name,
    'slots': list(slots),
    'vector_shapes': shapes,
    'outputs': model.outputs,
    'task': task,
    'fingerprint': export.fingerprint(encoder_path),
  }
  with open(os.path.join(folder, export.DESCRIPTION), 'w', encoding='utf-8') as file:
    json.dump(description, file, indent=2)
  return {
    'max_difference': export.verify(*saved),
    **sizes,
    'vector_bytes': {s: 4 * math.prod(shape) for s, shape in zip(slots, shapes, strict=True)},
  }


def _encoder_functions(model: ExportedStudent, tokenizer: Tokenizer, slot: int) -> tuple[Any, Any]:
  max_length = model.max_lengths[slot]

  @tf.function
  def by_text(text: tf.Tensor) -> dict[str, tf.Tensor]:
    ids = tokenizer.encode(text, max_length).to_tensor(tokenizer.pad_id)
    return {'vectors': tf.cast(model.vectors(ids, slot), tf.float32)}

  @tf.function
  def by_ids(ids: tf.Tensor) -> dict[str, tf.Tensor]:
    return {'vectors': tf.cast(model.vectors(ids, slot), tf.float32)}

  return (
    by_text.get_concrete_function(tf.TensorSpec([None], tf.string, name='text')),
    by_ids.get_concrete_function(tf.TensorSpec([None, None], tf.int32, name='ids')),
  )


def _tokens_function(model: ExportedStudent, tokenizer: Tokenizer, slot: int) -> Any:
  pieces, pad = tf.constant(tokenizer.vocabulary), tokenizer.pad_id

  @tf.function
  def tokens(text: tf.Tensor) -> dict[str, tf.Tensor]:
    ids = model.kept_ids(tokenizer.encode(text, model.max_lengths[slot]).to_tensor(pad), slot)
    return {'tokens': tf.where(ids == pad, '', tf.gather(pieces, ids))}

  return tokens.get_concrete_function(tf.TensorSpec([None], tf.string, name='text'))


def _variables(layers: Sequence[tf.Module]) -> list[tf.Variable]:
  """The layers' variables, each once."""
  return list({id(v): v for layer in layers for v in layer.variables}.values())


def _check(head: ExportedHead, model: ExportedStudent, vectors: Sequence[np.ndarray]) -> None:
  """The head as exported must be the trained one."""
  parts = [head.part(tf.constant(v), number) for number, v in enumerate(vectors)]
  difference = np.abs(head.of_parts(parts, vectors) - model.score_vectors(vectors)).max()
  if not difference <= export.TOLERANCE:
    raise RuntimeError(f'the exported head differs from the trained one by {difference:g}')


def _head_functions(
  head: ExportedHead, model: ExportedStudent, slots: Sequence[str]
) -> dict[str, litert.HeadFunction]:
  """The head's signatures, with scores beside logits, and their inputs' shapes."""
  numbers = {slot: number for number, slot in enumerate(slots)}
  whole: Shapes = {slot: model.vector_shape(number) for slot, number in numbers.items()}
  parts: Shapes = {f'{slot}_part': head.part_shape(number) for slot, number in numbers.items()}
  left, *others = slots

  def score(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Of parts, where they are given, else of vectors."""
    found = [
      inputs[f'{slot}_part'] if f'{slot}_part' in inputs else head.part(inputs[slot], number)
      for slot, number in numbers.items()
    ]
    logits = head.of_parts(found, [inputs[slot] for slot in slots if slot in inputs])
    scores = probabilities(logits)
    return {'logits': logits, 'score': scores[:, 0] if model.outputs == 1 else scores}

  def part_of(slot: str) -> litert.HeadFunction:
    function = lambda **inputs: {'part': head.part(inputs[slot], numbers[slot])}  # noqa: E731
    return function, {slot: whole[slot]}

  def attend(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    return {'attention': head.attention([inputs[slot] for slot in slots])}

  beside: Shapes = whole if head.pairs_take_vectors else {}
  one = {
    name: shape for name, shape in {**beside, **parts}.items() if name in (left, f'{left}_part')
  }
  return {
    'serving_default': (score, whole),
    'of_parts': (score, {**beside, **parts}),
    'one_to_many': (score, {**one, **{slot: whole[slot] for slot in others}}),
    **{f'{slot}_part': part_of(slot) for slot in slots},
    **({'attention': (attend, whole)} if head.attends else {}),
  }


def _concrete(function: Callable[..., Any], shapes: dict[str, Sequence[int]]) -> Any:
  return tf.function(function).get_concrete_function(
    **{name: tf.TensorSpec([None, *s], tf.float32, name=name) for name, s in shapes.items()}
  )


def _head_samples(heads: dict[str, Any], vectors: dict[str, np.ndarray]) -> export.Samples:
  """Inputs of each of the head's signatures: vectors, and what it makes of them alone."""
  values = dict(vectors)
  for slot in vectors:
    part = heads[f'{slot}_part'](**{slot: tf.constant(vectors[slot])})
    values[f'{slot}_part'] = part['part'].numpy()
  samples = {
    name: {key: values[key] for key in head.structured_input_signature[1]}
    for name, head in heads.items()
  }
  left = next(iter(vectors))
  samples['one_to_many'] |= {
    key: value[:1] for key, value in samples['one_to_many'].items() if key in (left, f'{left}_part')
  }
  return samples
