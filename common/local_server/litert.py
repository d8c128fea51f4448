"""LiteRT in TensorFlow's place: heads, encoders, and with both the online form."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from common.local_server.signatures import Arrays, Call, specs
from common.scoring import runtimes
from common.scoring.best import top
from common.scoring.exported import ONE_TO_MANY_INT8, Export, check_version
from common.scoring.runtime import EncoderRuntime, HeadRuntime, Stored, Vectors
from common.scoring.scorer import PairScorer


def calls(
  definitions: Mapping[str, Any], export: Export, runtime: str, encoder_runtime: str
) -> dict[str, Call]:
  """Calls of a model's signatures that LiteRT answers, by name.

  Args:
    definitions: Its `SignatureDef`s; a head's lose the outputs other than its score.
    export: The export that the model is of, which has LiteRT's files.
    runtime: As for `models.Model`.
    encoder_runtime: As for `models.Model`.
  """
  found: dict[str, Call] = {}
  if runtime != 'tensorflow' and 'of_parts' in definitions:
    head = runtimes.load_head(export, runtime)
    for name, definition in definitions.items():
      if 'score' in definition.outputs:
        for output in set(definition.outputs) - {'score'}:
          del definition.outputs[output]
        found[name] = _by_head(head, name)
  of_items = [name for name, definition in definitions.items() if _encodes_items(definition)]
  if encoder_runtime != 'tensorflow' and of_items:
    encoder = runtimes.load_encoder(export, encoder_runtime)
    for name in of_items:
      shape = specs(definitions[name].outputs)['vectors'].shape[1:]
      found[name] = _by_encoder(encoder, name, shape)
  asked = {runtime, encoder_runtime}
  if asked != {'tensorflow'} and any('candidates' in of.inputs for of in definitions.values()):
    if 'tensorflow' in asked:
      print(
        f'{export.folder}/online: by TensorFlow; --runtime and --encoder_runtime go together here'
      )
    else:
      check_version(export.folder, 'online')
      scorer = PairScorer.load(export, runtime, encoder_runtime=encoder_runtime)
      found.update(dict.fromkeys(definitions, _by_scorer(scorer)))
  return found


def _by_head(head: HeadRuntime, signature: str) -> Call:
  if signature != ONE_TO_MANY_INT8:
    return lambda inputs: {'score': head.run(signature, inputs)}

  def call(inputs: Arrays) -> Arrays:
    """Calls the model block by block; int8 vectors are widened, as a store's are."""
    scales = {f'{name}_scale' for name in inputs}
    vectors: dict[str, Vectors] = {
      name: Stored(value, inputs[f'{name}_scale']) if f'{name}_scale' in inputs else value
      for name, value in inputs.items()
      if name not in scales
    }
    return {'score': head.run('one_to_many', vectors)}

  return call


def _by_encoder(encoder: EncoderRuntime, slot: str, shape: Sequence[int]) -> Call:
  def call(inputs: Arrays) -> Arrays:
    items = _items(inputs)
    vectors = np.zeros([len(items), *shape], np.float32)
    encoder.encode(items, slot, vectors, len(items), lambda count: None)
    return {'vectors': vectors}

  return call


def _by_scorer(scorer: PairScorer) -> Call:
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


def _encodes_items(definition: Any) -> bool:
  of_items = {'text', 'vector'} & set(definition.inputs)
  return bool(of_items) and set(definition.outputs) == {'vectors'}


def _items(inputs: Arrays) -> Any:
  """Texts, or vectors in their place."""
  return inputs['text'].tolist() if 'text' in inputs else inputs['vector']
