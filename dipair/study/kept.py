"""A student that is trained once, on a finished run's distillation set, and kept in a folder.

A folder is named by the flags that differ from the run's. It holds `done` once the student is trained;
before that, training goes on with what it finds there. Beside the weights are `result.json` and, for
paired tests, the logits of valid and test.
"""

import abc
import hashlib
import os
import shutil
from typing import Any

import numpy as np
import tf_keras

from common import digests
from common.data.records import RecordSet
from common.distillation.evaluation import SetScorer
from common.distillation.results import environment, finite
from common.distillation.trainer import Training
from common.errors import InputError
from common.files import read_json, sync, whole, write_json
from common.training import strategies
from common.training.strategies import DeviceConfig
from dipair import training
from dipair.finished_run import FinishedRun

SETS = ('valid', 'test')
_MOST_NAME = 200  # characters of a folder's name; file systems take 255 bytes
_DONE, _MADE, _RESULT = 'done', 'flags.json', 'result.json'


def folder_name(own: dict[str, Any]) -> str:
  """Name of the folder of a student by its flags; of many, the first ones and a digest of all."""
  name = '-'.join(f'{key}={value}' for key, value in own.items()).replace(' ', '').replace('/', '_')
  digest = hashlib.sha256(name.encode()).hexdigest()[:16]
  return name if len(name) <= _MOST_NAME else f'{name[: _MOST_NAME - 17]}-{digest}'


def teacher_path(root: str, name: str) -> str:
  """File of the teacher's logits of a set."""
  return os.path.join(root, f'teacher-{name}.npy')


class Kept(abc.ABC):
  """A student that is trained once.

  Args:
    run: The run whose distillation set it learns from.
    root: Folder of the students' folders.
    own: Its flags that differ from the run's.
    devices: Arithmetic of its training.
    seed: Seed of its initial weights, dropout and shuffling.

  Attributes:
    name: Its folder's name.
  """

  def __init__(
    self, run: FinishedRun, root: str, own: dict[str, Any], devices: DeviceConfig, seed: int
  ):
    self.run, self.root, self.own = run, root, own
    self.devices, self.seed = devices, seed
    self.name = folder_name(own)
    self._folder = os.path.join(root, self.name)

  @property
  def folder(self) -> str:
    """Its folder."""
    return self._folder

  @property
  @abc.abstractmethod
  def design(self) -> dict[str, Any]:
    """Its architecture, its training, and what it starts from."""

  @property
  @abc.abstractmethod
  def tuples(self) -> dict[str, int]:
    """Tuples that its training takes, by phase."""

  @abc.abstractmethod
  def fit(self, data: Training) -> None:
    """Trains into its folder."""

  @abc.abstractmethod
  def scorer(self) -> tuple[SetScorer, dict[str, Any]]:
    """A function of record sets to logits; and its parameters, and bytes that a text is stored in."""

  @property
  def made_of(self) -> dict[str, Any]:
    """All that its weights depend on: its design, judge, seed and arithmetic, and the distillation set."""
    return {
      **self.design,
      'primary_metric': self.run.metric,
      'seed': self.seed,
      'precision': self.devices.precision,
      'distill': self.run.stage('distill')['fingerprint'],
    }

  @property
  def shared(self) -> list[str]:
    """Folders of frozen encoders' outputs, which students of the same encoders share."""
    return []

  @property
  def trained(self) -> bool:
    """Whether there is nothing left to train; what was made with other flags is refused."""
    path = os.path.join(self.folder, _MADE)
    made = flags_of(self.made_of)
    found = read_json(path) if os.path.exists(path) else made
    if found != made:
      names = [name for name in {**found, **made} if found.get(name) != made.get(name)]
      raise InputError(
        f'{self.folder}: made with other {", ".join(names[:4])}; remove the folder, or study '
        'with the flags that made it'
      )
    return os.path.exists(os.path.join(self.folder, _DONE))

  def train(self) -> None:
    """Trains what is missing."""
    if self.trained:
      return
    os.makedirs(self.folder, exist_ok=True)
    write_json(os.path.join(self.folder, _MADE), flags_of(self.made_of))
    tf_keras.backend.clear_session()  # graphs of the students before
    tf_keras.utils.set_random_seed(self.seed)
    strategy = strategies.create(self.devices)
    self.fit(self.run.training(self.run.table.outputs, strategy, self.seed, self.devices))
    sync(self.folder)
    with whole(os.path.join(self.folder, _DONE)) as path, open(path, 'w', encoding='utf-8'):
      pass
    for stage in ('', *training.STAGES):  # checkpoints are several times the weights
      shutil.rmtree(os.path.join(self.folder, stage, 'checkpoints'), ignore_errors=True)

  def result(self) -> dict[str, Any]:
    """Its metrics on valid and test, parameters, bytes of a text, and the accelerators there were; scored
    once, and judged once by the metrics of the run.
    """
    path = os.path.join(self.folder, _RESULT)
    if os.path.exists(path):
      kept = read_json(path)
      if self.run.results['primary_metric'] not in kept['test']:
        judged = {name: self.run.judged(name).evaluate(self.logits(name)) for name in SETS}
        write_json(path, kept := finite({**kept, **judged}), sealed=True)
      return kept
    os.makedirs(self.folder, exist_ok=True)
    found: dict[str, Any] = {'flags': flags_of(self.own), 'seed': self.seed}
    found['accelerators'] = environment()['accelerators']
    with strategies.precision():
      score, about = self.scorer()
      found |= about
      for name in SETS:
        records = RecordSet(self.run.path(f'data/{name}'))
        logits = score(records)
        with whole(self._logits_path(name)) as temporary, open(temporary, 'wb') as file:
          np.save(file, logits)
        found[name] = self.run.judged(name).evaluate(logits)
    found = finite(found)
    digests.write(self.folder, [f'{name}.npy' for name in SETS])
    write_json(path, found, sealed=True)
    return found

  def logits(self, name: str) -> np.ndarray:
    """Its logits of a set's tuples, [n, outputs], of which `result` was made."""
    return digests.read_arrays(self._logits_path(name), f'delete {self.folder} and study again')

  def _logits_path(self, name: str) -> str:
    return os.path.join(self.folder, f'{name}.npy')


def flags_of(values: dict[str, Any]) -> dict[str, Any]:
  """Flags as JSON keeps them."""
  return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
