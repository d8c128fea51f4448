"""A student as two SavedModels: text to vectors, and vectors to a score (DiPair §3.1, DSE §4.3).

`encoder/1` has two signatures a text slot: `left`(text) and `left_ids`(ids), each giving `vectors`
[batch, *vector_shape]. `head/1` takes the slots' vectors and gives `logits` and `score`; it holds no
tokenizer and no embedding table. `scorer.json` beside them is what `PairScorer` reads.
"""

import json
import math
import os
from collections.abc import Sequence
from typing import Any, Protocol

import tensorflow as tf

from common.data.tokenization import Tokenizer
from common.modeling.losses import probabilities
from common.serving import export


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
  encoder_variables = [v for layer in model.encoder_layers for v in layer.variables]
  head_variables = [v for layer in model.head_layers for v in layer.variables]
  head_path, encoder_path = os.path.join(folder, 'head'), os.path.join(folder, 'encoder')
  difference = max(
    export.save(encoder_path, encoders, encoder_variables, inputs),
    export.save(
      head_path,
      {'serving_default': _head_function(model, slots)},
      head_variables,
      {'serving_default': vectors},
    ),
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


def _head_function(model: ExportedStudent, slots: Sequence[str]) -> Any:
  @tf.function
  def score(*vectors: tf.Tensor) -> dict[str, tf.Tensor]:
    logits = model.score_vectors(vectors)
    scores = probabilities(logits)
    return {'logits': logits, 'score': scores[:, 0] if model.outputs == 1 else scores}

  return score.get_concrete_function(
    *(
      tf.TensorSpec([None, *model.vector_shape(number)], tf.float32, name=slot)
      for number, slot in enumerate(slots)
    )
  )
