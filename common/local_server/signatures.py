"""Signatures of a served model: what each takes and gives, and the runtime that answers it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.scoring import runtimes
from common.scoring.best import top
from common.scoring.exported import ONE_TO_MANY_INT8, Export, check_version
from common.scoring.runtime import EncoderRuntime, HeadRuntime, Stored, Vectors
from common.scoring.scorer import PairScorer

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Spec:
  """A tensor's type and shape, with -1 where any size goes."""

  dtype: tf.DType
  shape: tuple[int, ...]

  def __str__(self) -> str:
    return f'{self.dtype.name} [{", ".join("?" if n < 0 else str(n) for n in self.shape)}]'


@dataclasses.dataclass(frozen=True)
class Signature:
  """A function of a model.

  Attributes:
    name: Name of the signature.
    inputs: Types and shapes of the inputs, by name.
    outputs: Types and shapes of the outputs, by name.
    call: Arrays in, arrays out.
  """

  name: str
  inputs: Mapping[str, Spec]
  outputs: Mapping[str, Spec]
  call: Callable[[Arrays], Arrays]

  @property
  def joins(self) -> bool:
    """Whether rows of several requests may be run together: none of its inputs has a size of its own."""
    return all(spec.shape[:1] == (-1,) for spec in self.inputs.values())


def of_version(
  definitions: Mapping[str, Any],
  functions: Mapping[str, Any],
  export: Export,
  runtime: str,
  encoder_runtime: str,
) -> dict[str, Signature]:
  """The signatures of a model's version, by name.

  Args:
    definitions: Their `SignatureDef`s; loses the outputs that the runtime does not give.
    functions: The same as TensorFlow's functions.
    export: The export that the model is of, whose heads and encoders other runtimes load.
    runtime: As for `models.Version`.
    encoder_runtime: As for `models.Version`.
  """
  head = encoder = scorer = None
  if runtime != 'tensorflow' and 'of_parts' in functions:
    head = runtimes.load_head(export, runtime)
  of_items = {name for name, of in definitions.items() if _encodes_items(of)}
  if encoder_runtime != 'tensorflow' and of_items:
    encoder = runtimes.load_encoder(export, encoder_runtime)
  if _is_online(definitions) and {runtime, encoder_runtime} != {'tensorflow'}:
    if 'tensorflow' in (runtime, encoder_runtime):
      print(
        f'{export.folder}/online: by TensorFlow; --runtime and --encoder_runtime go together here'
      )
    else:
      check_version(export.folder, 'online')
      scorer = PairScorer.load(export.folder, runtime, encoder_runtime=encoder_runtime)
  found: dict[str, Signature] = {}
  for name, definition in definitions.items():
    call = _by_tensorflow(functions[name])
    if head and 'score' in definition.outputs:
      for output in set(definition.outputs) - {'score'}:
        del definition.outputs[output]
      call = _by_head(head, name)
    elif encoder and name in of_items:
      call = _by_encoder(encoder, name, _specs(definition.outputs)['vectors'].shape[1:])
    elif scorer:
      call = _by_scorer(scorer)
    inputs, outputs = (_specs(infos) for infos in (definition.inputs, definition.outputs))
    found[name] = Signature(name, inputs, outputs, call)
  return found


def _specs(tensors: Mapping[str, Any]) -> dict[str, Spec]:
  return {
    name: Spec(tf.as_dtype(info.dtype), tuple(d.size for d in info.tensor_shape.dim))
    for name, info in sorted(tensors.items())
  }


def _by_tensorflow(function: Any) -> Callable[[Arrays], Arrays]:
  def call(inputs: Arrays) -> Arrays:
    outputs = function(**{name: tf.constant(value) for name, value in inputs.items()})
    return {name: value.numpy() for name, value in outputs.items()}

  return call


def _by_head(head: HeadRuntime, signature: str) -> Callable[[Arrays], Arrays]:
  if signature != ONE_TO_MANY_INT8:
    return lambda inputs: {'score': head.run(signature, inputs)}

  def call(inputs: Arrays) -> Arrays:
    """Vectors are widened block by block, as those of a store are."""
    scales = {f'{name}_scale' for name in inputs}
    vectors: dict[str, Vectors] = {
      name: Stored(value, inputs[f'{name}_scale']) if f'{name}_scale' in inputs else value
      for name, value in inputs.items()
      if name not in scales
    }
    return {'score': head.run('one_to_many', vectors)}

  return call


def _by_encoder(
  encoder: EncoderRuntime, slot: str, shape: Sequence[int]
) -> Callable[[Arrays], Arrays]:
  def call(inputs: Arrays) -> Arrays:
    items = _items(inputs)
    vectors = np.zeros([len(items), *shape], np.float32)
    encoder.encode(items, slot, vectors, len(items), lambda count: None)
    return {'vectors': vectors}

  return call


def _items(inputs: Arrays) -> Any:
  """What an encoder takes: texts, or vectors in their place."""
  return inputs['text'].tolist() if 'text' in inputs else inputs['vector']


def _encodes_items(definition: Any) -> bool:
  of_items = {'text', 'vector'} & set(definition.inputs)
  return bool(of_items) and set(definition.outputs) == {'vectors'}


def _is_online(definitions: Mapping[str, Any]) -> bool:
  """Whether a model is an export's online form."""
  return any('candidates' in definition.inputs for definition in definitions.values())


def _by_scorer(scorer: PairScorer) -> Callable[[Arrays], Arrays]:
  """The online form, of an export's encoder and head."""
  left = scorer.slots[0]

  def call(inputs: Arrays) -> Arrays:
    vectors = scorer.encode(_items(inputs), left)
    asked = vectors, scorer.parts(vectors, left), inputs['candidates'], None
    if scorer.outputs > 1:
      return {'scores': scorer.one_to_many(*asked)}
    logits, scores = scorer.one_to_many_scored(*asked)
    return {'scores': scores, 'order': top(logits, len(logits)).astype(np.int32)}

  return call
