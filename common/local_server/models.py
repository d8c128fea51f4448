"""Models that are served: the highest version of each, loaded at the start."""

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from common.errors import InputError
from common.local_server import litert
from common.local_server.signatures import Arrays, Call, Signature, specs
from common.scoring import exported

_DEFAULT = 'serving_default'


class NotFoundError(InputError):
  """There is no such model, version or signature."""


class Model:
  """A loaded SavedModel; requests are run one at a time.

  Args:
    name: Name of the model.
    folder: Folder of its version folders, such as `1/`.
    runtime: Runtime of heads: 'tensorflow', or another one, which gives scores alone.
    encoder_runtime: Runtime of encoders, for their texts. If neither is TensorFlow's, the two
      answer for the online form too.

  Raises:
    InputError: If it cannot be loaded.

  Attributes:
    definitions: `SignatureDef`s by name.
    signatures: Signatures by name.
  """

  def __init__(self, name: str, folder: str, runtime: str, encoder_runtime: str):
    path = exported.latest(folder)
    self.name, self.version = name, int(os.path.basename(path))
    self.definitions = exported.signature_definitions(path)
    self._loaded = exported.load_version(path)  # kept alive: its functions hold it weakly
    export = exported.Export(os.path.dirname(os.path.abspath(folder)))
    faster = litert.calls(self.definitions, export, runtime, encoder_runtime)
    self.signatures: dict[str, Signature] = {}
    for key, definition in self.definitions.items():
      call = faster.get(key) or _by_tensorflow(self._loaded.signatures[key])
      inputs, outputs = specs(definition.inputs), specs(definition.outputs)
      self.signatures[key] = Signature(name, key, inputs, outputs, call)
    self._lock = threading.Lock()

  def signature(self, name: str) -> Signature:
    """A signature by name; the empty one is `serving_default`."""
    found = self.signatures.get(name or _DEFAULT)
    if found is None:
      known, asked = ', '.join(self.signatures), (name or _DEFAULT)[:100]
      raise NotFoundError(f'model {self.name!r}: no signature {asked!r}; it has {known}')
    return found

  def predict(self, signature: Signature, inputs: Arrays, wanted: Sequence[str] = ()) -> Arrays:
    """Outputs of a signature: those `wanted`, or all; raises InputError where it refuses."""
    signature.check(inputs)
    for name in wanted:
      if name not in signature.outputs:
        known = ', '.join(signature.outputs)
        raise InputError(f'{signature.where}: no output {name[:100]!r}; it has {known}')
    try:
      with self._lock:
        outputs = signature.call(inputs)
    except Exception as error:
      reason = _reason(error)
      raise InputError(f'{signature.where}: the model refuses it: {reason}') from error
    return {name: outputs[name] for name in wanted or signature.outputs}


class Models:
  """Models that are served.

  Args:
    folders: Folders of the models, by name.
    runtime: As for `Model`.
    encoder_runtime: As for `Model`.

  Raises:
    InputError: If a model cannot be loaded.
  """

  def __init__(self, folders: Mapping[str, str], runtime: str, encoder_runtime: str):
    self._models = {
      name: Model(name, folder, runtime, encoder_runtime) for name, folder in folders.items()
    }

  def find(self, name: str, version: int | None = None) -> Model:
    """The model of a name; raises NotFoundError where it, or the version, is not served."""
    found = self._models.get(name)
    if found is None:
      raise NotFoundError(f'no model {name[:100]!r}; there are {", ".join(self._models)}')
    if version not in (None, found.version):
      raise NotFoundError(f'model {name!r}: version {version} is not served; {found.version} is')
    return found


def _by_tensorflow(function: Any) -> Call:
  def call(inputs: Arrays) -> Arrays:
    outputs = function(**{name: tf.constant(value) for name, value in inputs.items()})
    return {name: value.numpy() for name, value in outputs.items()}

  return call


def _reason(error: Exception) -> str:
  """An operation's error in one line, without TensorFlow's account of where the graph was made."""
  said = str(error).split('<stack traces unavailable>')[-1].split('[[{{node')[0]
  return ' '.join(said.split())[:500]
