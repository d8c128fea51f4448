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
from collections.abc import Callable, Mapping
from typing import Any

from common.errors import InputError
from common.local_server import signatures
from common.local_server.errors import SHOWN, not_found, unavailable
from common.local_server.signatures import Signature
from common.scoring import exported

_DEFAULT = 'serving_default'


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
    self.signatures = signatures.of_version(
      self.definitions, self._loaded.signatures, export, runtime, encoder_runtime
    )

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
