"""Models that are served: the highest version of each, loaded at the start."""

import dataclasses
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.errors import InputError
from common.scoring import exported

Arrays = dict[str, np.ndarray]
_DEFAULT = 'serving_default'
_ROWS = 1024  # of texts or word ids: an encoder makes a thousand times as much of them
_IDS = 512  # word ids of a row: BERT's positions


class NotFoundError(InputError):
  """There is no such model, version or signature."""


@dataclasses.dataclass(frozen=True)
class Spec:
  """A tensor's type and shape, with -1 where any size goes."""

  dtype: tf.DType
  shape: tuple[int, ...]

  def __str__(self) -> str:
    return f'{self.dtype.name} [{", ".join("?" if n < 0 else str(n) for n in self.shape)}]'


class Model:
  """A loaded SavedModel.

  Args:
    name: Name of the model.
    folder: Folder of its version folders, such as `1/`.

  Raises:
    InputError: If it cannot be loaded.

  Attributes:
    name: Name of the model.
    version: Number of the version.
    definitions: `SignatureDef`s by name.
  """

  def __init__(self, name: str, folder: str):
    path = exported.latest(folder)
    self.name, self.version = name, int(os.path.basename(path))
    self.definitions = exported.signature_definitions(path)
    self._loaded = exported.load_version(path)  # kept alive: its functions hold it weakly
    lock = threading.Lock()  # one request at a time: each takes memory
    self._signatures = {
      key: Signature(name, key, definition, self._loaded.signatures[key], lock)
      for key, definition in self.definitions.items()
    }

  def signature(self, name: str) -> 'Signature':
    """A signature by name; the empty one is `serving_default`."""
    name = name or _DEFAULT
    if name not in self._signatures:
      known = ', '.join(self._signatures)
      raise NotFoundError(f'model {self.name!r}: no signature {name[:100]!r}; it has {known}')
    return self._signatures[name]


class Signature:
  """A function of a model.

  Args:
    model: Name of the model.
    name: Its name.
    definition: Its `SignatureDef`.
    function: Tensors in, tensors out.
    lock: Held while it runs.

  Attributes:
    where: Start of each refusal.
    inputs: Types and shapes of the inputs, by name.
  """

  def __init__(self, model: str, name: str, definition: Any, function: Any, lock: threading.Lock):
    self.name, self.where = name, f'model {model!r}, signature {name!r}'
    self.inputs = {
      key: Spec(tf.as_dtype(info.dtype), tuple(dim.size for dim in info.tensor_shape.dim))
      for key, info in sorted(definition.inputs.items())
    }
    self._outputs = sorted(definition.outputs)
    self._function, self._lock = function, lock

  def predict(self, inputs: Arrays, wanted: Sequence[str] = ()) -> Arrays:
    """Outputs by name: those `wanted`, or all; raises InputError where it refuses."""
    self._check(inputs)
    for name in wanted:
      if name not in self._outputs:
        known = ', '.join(self._outputs)
        raise InputError(f'{self.where}: no output {name[:100]!r}; it has {known}')
    try:
      with self._lock:
        found = self._function(**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: found[name].numpy() for name in wanted or self._outputs}
    except Exception as error:  # of an operation, in one line, without where the graph was made
      said = str(error).split('<stack traces unavailable>')[-1].split('[[{{node')[0]
      reason = ' '.join(said.split())[:500]
      raise InputError(f'{self.where}: the model refuses it: {reason}') from error

  def _check(self, inputs: Arrays) -> None:
    """Refuses the first input that is not as the signature takes it."""
    takes = ', '.join(f'{name}: {spec}' for name, spec in self.inputs.items())
    if missing := [name for name in self.inputs if name not in inputs]:
      raise InputError(f'{self.where}: input {missing[0]!r} is missing; it takes {takes}')
    if more := [name for name in inputs if name not in self.inputs]:
      raise InputError(f'{self.where}: there is no input {more[0][:100]!r}; it takes {takes}')
    for name, spec in self.inputs.items():
      value, where = inputs[name], f'{self.where}: input {name!r}'
      shape = list(value.shape)
      dtype = 'string' if value.dtype == object else value.dtype.name
      if dtype != spec.dtype.name:
        raise InputError(f'{where} is {dtype}, not {spec}')
      fits = len(shape) == len(spec.shape)
      if not fits or any(n not in (-1, m) for n, m in zip(spec.shape, shape, strict=True)):
        raise InputError(f'{where} has the shape {shape}, not {spec}')
      if not value.size:
        raise InputError(f'{where} is empty')
      if dtype in ('string', 'int32') and shape:  # texts, word ids
        if len(value) > _ROWS:
          raise InputError(f'{where} has {len(value):,} rows; {_ROWS:,} are the most')
        if value.size > _IDS * len(value):
          raise InputError(f'{where} has the shape {shape}; a row has {_IDS} ids at the most')


def find(models: Mapping[str, Model], name: str, version: int | None) -> Model:
  """The model of a name; raises NotFoundError where it, or the version, is not served."""
  found = models.get(name)
  if found is None:
    raise NotFoundError(f'no model {name[:100]!r}; there are {", ".join(models)}')
  if version not in (None, found.version):
    raise NotFoundError(f'model {name!r}: version {version} is not served; {found.version} is')
  return found
