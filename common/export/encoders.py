"""An encoder's signatures, of texts, word ids or vectors in texts' place, and inputs to check them.

A slot of texts has `left`(text) and `left_ids`(ids), a slot of vectors `left`(vector) alone; each
gives `vectors` [batch, *vector_shape].
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.data.tokenization import Tokenizer
from common.export import saved_models
from common.modeling.student import Student


def signatures(
  model: Student,
  tokenizer: Tokenizer,
  slots: Sequence[str],
  samples: Sequence[Sequence[str]],
) -> tuple[dict[str, Any], saved_models.Samples]:
  """Concrete functions by name, and each one's sample inputs.

  Args:
    model: The student whose encoders are exported.
    tokenizer: The student's.
    slots: Name of each slot.
    samples: A few texts (or vectors) a slot.
  """
  found: dict[str, Any] = {}
  inputs: saved_models.Samples = {}
  for slot, (name, items) in enumerate(zip(slots, samples, strict=True)):
    if model.widths[slot]:
      found[name], inputs[name] = _of_input(model, slot), {'vector': np.stack(items)}
      continue
    found[f'{name}_ids'] = of_ids = _of_input(model, slot)
    found[name] = _of_texts(of_ids, tokenizer, model.max_lengths[slot])
    ids = tokenizer.encode(tf.constant(items), model.max_lengths[slot])
    inputs[name] = {'text': items}
    inputs[f'{name}_ids'] = {'ids': ids.to_tensor(tokenizer.pad_id).numpy()}
  return found, inputs


def variables(model: Student, slots: Sequence[int]) -> list[tf.Variable]:
  """Variables of the encoders of slots, by number, each once."""
  layers = [layer for slot in slots for layer in model.encoder_layers(slot)]
  return list({id(v): v for layer in layers for v in layer.variables}.values())


def _of_input(model: Student, slot: int) -> Any:
  """A slot's encoder, of what the model itself takes: word ids, or vectors."""
  spec = model.encoder_input(slot)

  @tf.function(autograph=False)
  def encode(**given: tf.Tensor) -> dict[str, tf.Tensor]:
    vectors = model.encode(given[spec.name], slot, training=False)
    return {'vectors': tf.cast(vectors, tf.float32)}

  return encode.get_concrete_function(**{spec.name: spec})


def _of_texts(of_ids: Any, tokenizer: Tokenizer, max_length: int) -> Any:
  """An encoder of word ids as one of texts."""

  @tf.function(autograph=False)
  def encode(**given: tf.Tensor) -> dict[str, tf.Tensor]:
    return of_ids(ids=tokenizer.encode(given['text'], max_length).to_tensor(tokenizer.pad_id))

  return encode.get_concrete_function(text=tf.TensorSpec([None], tf.string, name='text'))
