"""A head's signatures: the functions that are exported, traced, and inputs to check them with."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.export import saved_models
from common.modeling.head import ExportedHead
from common.modeling.losses import probabilities
from common.modeling.student import Student
from common.scoring.exported import OF_PRODUCTS, ONE_TO_MANY_INT8
from common.scoring.runtime import HeadFunction, Shapes

# Of signatures, but the slots'.
NAMES = ('serving_default', 'of_parts', 'one_to_many', ONE_TO_MANY_INT8)


def functions(
  head: ExportedHead, model: Student, slots: Sequence[str], temperature: float
) -> dict[str, HeadFunction]:
  """The head's signatures, with scores beside logits."""
  whole: Shapes = {name: model.vector_shape(slot) for slot, name in enumerate(slots)}
  parts: Shapes = {
    f'{name}_part': tuple(head.part(tf.zeros([1, *whole[name]]), slot).shape[1:])
    for slot, name in enumerate(slots)
  }

  def scored(logits: tf.Tensor) -> dict[str, tf.Tensor]:
    scores = probabilities(logits, temperature)
    return {'logits': logits, 'score': scores[:, 0] if model.outputs == 1 else scores}

  def score(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Scores of parts where they are given, else of vectors."""
    found = [
      inputs[f'{name}_part'] if f'{name}_part' in inputs else head.part(inputs[name], slot)
      for slot, name in enumerate(slots)
    ]
    vectors = [inputs[name] for name in slots] if head.takes_vectors else []
    return scored(head.logits(found, vectors))

  def score_products(products: tf.Tensor, squares: tf.Tensor) -> dict[str, tf.Tensor]:
    return scored(head.logits_of_products(products, squares))

  def part_of(slot: int, name: str) -> HeadFunction:
    return HeadFunction(
      lambda **inputs: {'part': head.part(inputs[name], slot)}, {name: whole[name]}
    )

  left, *others = slots
  of_parts: Shapes = {**(whole if head.takes_vectors else {}), **parts}
  of_left: Shapes = {
    name: shape for name, shape in of_parts.items() if name in (left, f'{left}_part')
  }
  found = {
    'serving_default': HeadFunction(score, whole),
    'of_parts': HeadFunction(score, of_parts),
    'one_to_many': HeadFunction(score, {**of_left, **{name: whole[name] for name in others}}),
    **{f'{name}_part': part_of(slot, name) for slot, name in enumerate(slots)},
  }
  if head.multiplies:
    kept, (right,) = parts[f'{left}_part'][0], (whole[name][0] for name in others)
    shapes: Shapes = {'products': (right, kept), 'squares': (right,)}
    found[OF_PRODUCTS] = HeadFunction(score_products, shapes)
  return found


def signatures(of: dict[str, HeadFunction], slots: Sequence[str]) -> dict[str, Any]:
  """The functions traced, and that of int8 vectors."""
  found = {name: function.concrete for name, function in of.items() if name != OF_PRODUCTS}
  return {**found, ONE_TO_MANY_INT8: _of_stored(of['one_to_many'], slots[1:])}


def samples(heads: dict[str, Any], vectors: dict[str, np.ndarray]) -> saved_models.Samples:
  """Inputs of each of the head's signatures: vectors, and what it makes of them alone."""
  values, (left, *others) = dict(vectors), vectors
  for name in vectors:
    part = heads[f'{name}_part'](**{name: tf.constant(vectors[name])})
    values[f'{name}_part'] = part['part'].numpy()
  found = {
    signature: {key: values[key] for key in head.structured_input_signature[1]}
    for signature, head in heads.items()
    if signature != ONE_TO_MANY_INT8
  }
  one = found['one_to_many']
  one |= {key: value[:1] for key, value in one.items() if key in (left, f'{left}_part')}
  stored = {name: np.rint(9 * one[name]).astype(np.int8) for name in one if name in others}
  scales = {f'{name}_scale': np.full(v.shape[:-1], 1 / 9, np.float32) for name, v in stored.items()}
  found[ONE_TO_MANY_INT8] = {**one, **stored, **scales}
  return found


def _of_stored(function: HeadFunction, stored: Sequence[str]) -> Any:
  """The function of vectors, some of which come in int8, each with its scale."""

  def score(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    scales = {name: inputs.pop(f'{name}_scale')[..., None] for name in stored}
    wide = {name: tf.cast(inputs[name], tf.float32) * scale for name, scale in scales.items()}
    return function.concrete(**{**inputs, **wide})

  specs = {
    name: tf.TensorSpec([None, *s], tf.int8 if name in stored else tf.float32, name=name)
    for name, s in function.shapes.items()
  }
  scales = {f'{name}_scale': [None, *function.shapes[name][:-1]] for name in stored}
  specs |= {name: tf.TensorSpec(s, tf.float32, name=name) for name, s in scales.items()}
  return tf.function(score, autograph=False).get_concrete_function(**specs)
