"""Models as they are served: version folders watched, loaded, and swapped between two requests.

A model is a folder of version folders (`1/`, `2/`, …), each a SavedModel; the highest is served. A new
one is loaded beside the old once its files rest, then takes its place: requests that have begun end on
the old one. One whose files change again is loaded again.
"""

import contextlib
import dataclasses
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.errors import InputError
from common.local_server.errors import SHOWN, not_found, unavailable
from common.scoring import exported, runtimes
from common.scoring.best import top
from common.scoring.runtime import EncoderRuntime, HeadRuntime, Stored, Vectors
from common.scoring.scorer import PairScorer

Arrays = dict[str, np.ndarray]
_DEFAULT = 'serving_default'


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


class Version:
  """A loaded version of a model.

  Args:
    model: Name of the model.
    folder: Folder of the model.
    number: Number of the version.
    runtime: Runtime of heads: 'tensorflow', or another one, which gives scores alone.
    encoder_runtime: Runtime of encoders, for their texts; with a `runtime` that is not TensorFlow's,
      of the online form too.
  """

  def __init__(self, model: str, folder: str, number: int, runtime: str, encoder_runtime: str):
    self.model, self.number = model, number
    path = os.path.join(folder, str(number))
    self.definitions = exported.signature_definitions(path)
    self._loaded = exported.load_version(path)  # kept alive: the signatures hold it weakly
    export = exported.Export(os.path.dirname(os.path.abspath(folder)))
    signatures = self._loaded.signatures
    head = encoder = scorer = None
    if runtime != 'tensorflow' and 'of_parts' in signatures:
      head = runtimes.load_head(export, runtime)
    of_items = {name for name, of in self.definitions.items() if _encodes_items(of)}
    if encoder_runtime != 'tensorflow' and of_items:
      encoder = runtimes.load_encoder(export, encoder_runtime)
    if 'tensorflow' not in (runtime, encoder_runtime) and _is_online(self.definitions):
      scorer = PairScorer.load(export.folder, runtime, encoder_runtime=encoder_runtime)
    self.signatures: dict[str, Signature] = {}
    for name, definition in self.definitions.items():
      call = _by_tensorflow(signatures[name])
      if head and 'score' in definition.outputs:
        for output in set(definition.outputs) - {'score'}:
          del definition.outputs[output]
        call = _by_head(head, name)
      elif encoder and name in of_items:
        call = _by_encoder(encoder, name, _specs(definition.outputs)['vectors'].shape[1:])
      elif scorer:
        call = _by_scorer(scorer)
      inputs, outputs = (_specs(infos) for infos in (definition.inputs, definition.outputs))
      self.signatures[name] = Signature(name, inputs, outputs, call)

  def signature(self, name: str) -> Signature:
    """A signature by name; the empty one is `serving_default`."""
    found = self.signatures.get(name or _DEFAULT)
    if found is None:
      known = ', '.join(self.signatures)
      asked = (name or _DEFAULT)[:SHOWN]
      raise not_found(f'model {self.model!r}: no signature {asked!r}; it has {known}')
    return found


@dataclasses.dataclass
class _Model:
  folder: str
  serving: Version | None = None
  seen: tuple[Any, ...] = ()  # the version folder that was last looked at, and its files
  tried: tuple[Any, ...] = ()  # the same of the one that was last tried
  loaded: tuple[Any, ...] = ()  # the same of the one that is served
  failed: tuple[int, str] | None = None  # version, why


class ModelStore:
  """All models that are served.

  Args:
    folders: Folders of the models, by name.
    runtime: As for `Version`.
    encoder_runtime: As for `Version`.
    loaded: Called with each version that has taken its place.

  Raises:
    InputError: If a model has no version that can be loaded.
  """

  def __init__(
    self,
    folders: Mapping[str, str],
    runtime: str,
    encoder_runtime: str,
    loaded: Callable[[Version], None] = lambda version: None,
  ):
    self._models = {name: _Model(folder) for name, folder in folders.items()}
    self._runtimes, self._loaded = (runtime, encoder_runtime), loaded
    self._stop = threading.Event()
    self._watcher: threading.Thread | None = None
    self.poll()
    for name, model in self._models.items():
      if model.serving is None:
        why = model.failed[1] if model.failed else 'no version folder such as 1/ in it'
        raise InputError(f'{model.folder}: model {name!r} cannot be served: {why}')

  def watch(self, seconds: float) -> None:
    """Looks for new versions every so often, until `close`."""

    def run() -> None:
      while not self._stop.wait(seconds):
        self.poll()

    self._watcher = threading.Thread(target=run, daemon=True, name='versions')
    self._watcher.start()

  def close(self) -> None:
    """Stops watching."""
    self._stop.set()
    if self._watcher:
      self._watcher.join()

  def poll(self) -> None:
    """Loads versions that are new, and swaps them in."""
    for name, model in self._models.items():
      number = max(_versions(model.folder), default=None)
      if number is None:  # nothing to change to
        continue
      folder = os.path.join(model.folder, str(number))
      last, model.seen = model.seen, (number, _files(folder))
      if model.seen == model.loaded:
        model.failed = None
      settled = model.seen == last or not model.serving  # else still being copied
      if model.seen in (model.tried, model.loaded) or not settled:
        continue
      model.tried = model.seen
      try:
        version = Version(name, model.folder, number, *self._runtimes)
      except Exception as error:  # no model, or not all of it: the old one is served on
        model.failed = number, ' '.join(str(error).split())[:500]
        continue
      if model.serving and model.tried[1] != _files(folder):  # changed while it was read
        continue
      model.serving, model.failed, model.loaded = version, None, model.tried
      self._loaded(version)

  def names(self) -> list[str]:
    """Names of the models."""
    return list(self._models)

  def find(self, name: str, number: int | None = None) -> Version:
    """The version of a model that is served; raises ServingError where there is none such."""
    model = self._model(name)
    if model.serving is None:
      raise unavailable(f'model {name!r}: no version is loaded')
    if number is not None and number != model.serving.number:
      raise not_found(f'model {name!r}: version {number} is not served; {model.serving.number} is')
    return model.serving

  def status(self, name: str) -> list[tuple[int, str]]:
    """(version, '' or why it could not be loaded) of a model, the newest first."""
    model = self._model(name)
    served = [(model.serving.number, '')] if model.serving else []
    return ([model.failed] if model.failed else []) + served

  def _model(self, name: str) -> _Model:
    if name not in self._models:
      raise not_found(f'no model {name!r}; there are {", ".join(self._models)}')
    return self._models[name]


def _versions(folder: str) -> list[int]:
  """Numbers of the version folders that hold a SavedModel."""
  try:
    names = os.listdir(folder)
  except OSError:  # gone, or not there yet
    return []
  numbers = [name for name in names if re.fullmatch('0|[1-9][0-9]{0,17}', name)]
  return [int(n) for n in numbers if os.path.exists(os.path.join(folder, n, exported.SAVED_MODEL))]


def _files(folder: str) -> tuple[tuple[str, int, int], ...]:
  """Names, sizes and times: a version's files that are still being copied change."""
  found = []
  for base, _, names in os.walk(folder):
    for path in (os.path.join(base, name) for name in names):
      with contextlib.suppress(OSError):  # gone since it was listed
        status = os.stat(path)
        found.append((path, status.st_size, status.st_mtime_ns))
  return tuple(sorted(found))


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
  if signature != exported.ONE_TO_MANY_INT8:
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
    scores = scorer.one_to_many(vectors, scorer.parts(vectors, left), inputs['candidates'], None)
    if scores.ndim > 1:
      return {'scores': scores}
    return {'scores': scores, 'order': top(scores, 0).astype(np.int32)}

  return call
