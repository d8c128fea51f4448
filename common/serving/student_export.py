"""A student as two SavedModels: text to vectors, and vectors to a score (DiPair §3.1, DSE §4.3).

`encoder/1` has two signatures a text slot: `left`(text) and `left_ids`(ids), each giving `vectors`
[batch, *vector_shape]. `head/1` takes the slots' vectors and gives `logits` and `score`, and has what
other signatures the student gives it; it holds no tokenizer and no embedding table. `scorer.json` beside them is what `PairScorer` reads.
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
from common.serving import export

# A function of named float tensors, and their shapes; what it returns has 'logits' or 'part' in it.
HeadFunction = tuple[Callable[..., dict[str, tf.Tensor]], dict[str, list[int | None]]]


class ExportedStudent(Protocol):
  """What a student's layer offers to be exported.

  Attributes:
    name: Of the student's package.
    texts: Of a tuple.
    outputs: O.
    max_lengths: Most tokens of each text.
    encoder_layers: What `vectors` computes with.
    head_layers: What `score_vectors` computes with.
  """

  name: str
  texts: int
  outputs: int
  max_lengths: Sequence[int]
  encoder_layers: Sequence[tf.Module]
  head_layers: Sequence[tf.Module]

  def vector_shape(self, text: int) -> tuple[int, ...]:
    """Shape of what is stored of one text."""

  def vectors(self, ids: tf.Tensor, text: int) -> tf.Tensor:
    """What is stored of texts: [U, L] word ids to [U, *vector_shape] float32."""

  def score_vectors(self, vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Logits [B, O] of vectors, [B, *vector_shape] a text."""

  def head_functions(self) -> dict[str, HeadFunction]:
    """Other signatures of the head, by name; an input is a slot or a '<slot>_part'."""


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
) -> dict[str, Any]:
  """Exports a student and compares both SavedModels, reloaded, with the live model.

  Args:
    folder: Gets `encoder/1`, `head/1` and `scorer.json`.
    model: The student.
    tokenizer: Its own.
    slots: Name of each text slot.
    task: What a score means.
    samples: A few texts a slot, for the comparison.

  Returns:
    {'max_difference', 'encoder_bytes', 'head_bytes', 'vector_bytes': {slot: bytes a text}}.
  """
  encoders, inputs = {}, {}
  for number, (slot, texts) in enumerate(zip(slots, samples, strict=True)):
    by_text, by_ids = _encoder_functions(model, tokenizer, number)
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
  heads = _head_functions(model, slots)
  encoder_variables = [v for layer in model.encoder_layers for v in layer.variables]
  head_variables = [v for layer in model.head_layers for v in layer.variables]
  head_path, encoder_path = os.path.join(folder, 'head'), os.path.join(folder, 'encoder')
  difference = max(
    export.save(encoder_path, encoders, encoder_variables, inputs),
    export.save(head_path, heads, head_variables, _head_samples(heads, vectors)),
  )
  shapes = [model.vector_shape(number) for number in range(model.texts)]
  description = {
    'kind': model.name,
    'slots': list(slots),
    'vector_shapes': shapes,
    'outputs': model.outputs,
    'task': task,
  }
  with open(os.path.join(folder, export.DESCRIPTION), 'w', encoding='utf-8') as file:
    json.dump(description, file, indent=2)
  return {
    'max_difference': difference,
    'encoder_bytes': export.size(encoder_path),
    'head_bytes': export.size(head_path),
    'vector_bytes': {s: 4 * math.prod(shape) for s, shape in zip(slots, shapes, strict=True)},
  }


def _encoder_functions(model: ExportedStudent, tokenizer: Tokenizer, slot: int) -> tuple[Any, Any]:
  max_length = model.max_lengths[slot]

  @tf.function
  def by_text(text: tf.Tensor) -> dict[str, tf.Tensor]:
    ids = tokenizer.encode(text, max_length).to_tensor(tokenizer.pad_id)
    return {'vectors': model.vectors(ids, slot)}

  @tf.function
  def by_ids(ids: tf.Tensor) -> dict[str, tf.Tensor]:
    return {'vectors': model.vectors(ids, slot)}

  return (
    by_text.get_concrete_function(tf.TensorSpec([None], tf.string, name='text')),
    by_ids.get_concrete_function(tf.TensorSpec([None, None], tf.int32, name='ids')),
  )


def _head_functions(model: ExportedStudent, slots: Sequence[str]) -> dict[str, Any]:
  """The head's signatures, with scores beside logits."""

  def plain(**vectors: tf.Tensor) -> dict[str, tf.Tensor]:
    return {'logits': model.score_vectors([vectors[slot] for slot in slots])}

  def signature(function: Callable, shapes: dict[str, list[int | None]]) -> Any:
    def outputs(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
      found = function(**inputs)
      if 'logits' in found:
        scores = probabilities(found['logits'])
        found['score'] = scores[:, 0] if model.outputs == 1 else scores
      return found

    return tf.function(outputs).get_concrete_function(
      **{name: tf.TensorSpec(shape, tf.float32, name=name) for name, shape in shapes.items()}
    )

  shapes = {slot: [None, *model.vector_shape(number)] for number, slot in enumerate(slots)}
  functions = {'serving_default': (plain, shapes), **model.head_functions()}
  return {name: signature(*function) for name, function in functions.items()}


def _head_samples(heads: dict[str, Any], vectors: dict[str, np.ndarray]) -> export.Samples:
  """Inputs of each of the head's signatures: vectors, and what it makes of them alone."""
  values, samples = dict(vectors), {}
  for slot in vectors:
    if f'{slot}_part' in heads:
      part = heads[f'{slot}_part'](**{slot: tf.constant(vectors[slot])})
      values[f'{slot}_part'] = part['part'].numpy()
  for name, head in heads.items():
    inputs = head.structured_input_signature[1]
    samples[name] = {key: values[key][: spec.shape[0]] for key, spec in inputs.items()}
  return samples
