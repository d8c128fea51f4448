"""The online form: a query's text (or vector) and its candidates' vectors in, scores and order out.

`online/1` has one signature, `serving_default`. It takes `text` [1] (or `vector` [1, w]) of the
left slot and `candidates` [n, *vector_shape], n of 1 or more. It gives `scores` [n] and `order`
[n]; for C classes, which have no order, `scores` [n, C] alone. It holds the left text's
encoder and the head. The query is encoded, and its part of the head computed, once a call. A small
left encoder (`--left_encoder_layers`) makes it fast.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from common.export import saved_models

NAME = 'online'  # the folder, in an export


def write(
  folder: str,
  encode: Any,
  score: Callable[..., dict[str, tf.Tensor]],
  variables: Sequence[tf.Variable],
  samples: dict[str, Any],
) -> saved_models.Saved:
  """Writes `online/1` of a model of two texts.

  Args:
    folder: The export.
    encode: Concrete function of the left `text`, or `vector`, that gives its 'vectors'.
    score: Function of both slots' vectors, by name, that gives 'logits' and 'score'; one left row
      goes with all right ones.
    variables: Variables that both functions read.
    samples: {slot: values}: inputs of `encode` for the left slot, vectors for the right one.
  """
  (left, queries), (right, vectors) = samples.items()
  ((name, spec),) = encode.structured_input_signature[1].items()

  @tf.function(autograph=False)
  def rank(candidates: tf.Tensor, **query: tf.Tensor) -> dict[str, tf.Tensor]:
    found = score(**{left: encode(**query)['vectors'], right: candidates})
    if found['score'].shape.rank > 1:
      return {'scores': found['score']}
    # In float32 the scores of high logits are alike: 1 from 17 on.
    order = tf.argsort(found['logits'][:, 0], direction='DESCENDING', stable=True)
    return {'scores': found['score'], 'order': order}

  concrete = rank.get_concrete_function(
    candidates=tf.TensorSpec([None, *vectors.shape[1:]], tf.float32, name='candidates'),
    **{name: tf.TensorSpec([1, *spec.shape[1:]], spec.dtype, name=name)},
  )
  inputs = {name: queries[:1], 'candidates': vectors}
  return saved_models.save(
    os.path.join(folder, NAME),
    {'serving_default': concrete},
    variables,
    {'serving_default': inputs},
  )
