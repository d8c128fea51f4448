"""Students of a finished run's distillation set, each trained once and kept in a folder.

A folder is named by the flags that differ from the run's. It holds `done` once the student is trained;
before that, training goes on with what it finds there. Beside the weights are `result.json` and, for
paired tests, the logits of valid and test.
"""

import abc
import hashlib
import os
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from common import digests, flags
from common.data.records import RecordSet
from common.data.tokens import TokenizedTuples
from common.distillation.inference import TupleScorer
from common.distillation.results import SetScorer, finite
from common.errors import InputError
from common.evaluation import calibration
from common.export import student_export
from common.files import read_json, sync, whole, whole_folder, write_json
from common.modeling import encoders
from common.training import strategies
from common.training.strategies import DeviceConfig
from dipair import frozen_right, stages
from dipair.config import NEWER, StudentConfig, TrainConfig
from dipair.finished_run import FinishedRun
from dipair.student import DiPair

SETS = ('valid', 'test')
OWN = 'own'  # name and folder of the run's own student
FEATURES = 'features'  # folder of frozen encoders' outputs
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
    folder: Its folder.
  """

  def __init__(
    self, run: FinishedRun, root: str, own: dict[str, Any], devices: DeviceConfig, seed: int
  ):
    self.run, self.root, self.own = run, root, own
    self.devices, self.seed = devices, seed
    self.name = folder_name(own)
    self.folder = os.path.join(root, self.name)

  @property
  @abc.abstractmethod
  def made_of(self) -> dict[str, Any]:
    """All flags that its weights depend on."""

  @property
  @abc.abstractmethod
  def tuples(self) -> dict[str, int]:
    """Tuples that its training takes, by phase."""

  @abc.abstractmethod
  def fit(self) -> None:
    """Trains into its folder."""

  @abc.abstractmethod
  def scorer(self) -> tuple[SetScorer, dict[str, Any]]:
    """A function of record sets to logits; and its parameters, and bytes that a text is stored in."""

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
    found, made = (flags.without(of, NEWER) for of in (found, made))
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
    self.fit()
    sync(self.folder)
    with whole(os.path.join(self.folder, _DONE)) as path, open(path, 'w', encoding='utf-8'):
      pass
    for stage in ('', *stages.STAGES):  # checkpoints are several times the weights
      shutil.rmtree(os.path.join(self.folder, stage, 'checkpoints'), ignore_errors=True)

  def result(self) -> dict[str, Any]:
    """Its metrics on valid and test, parameters and bytes of a text; scored once, and judged once by
    the metrics of the run.
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


class Student(Kept):
  """A DiPair student; without flags of its own it is the run's.

  Args:
    run: As for `Kept`, likewise the next two.
    root: Folder of the students' folders.
    own: Its flags that differ from the run's; its seed may be one.
    devices: Arithmetic of its training.
    longer: Of one of stage 1 alone, the student of both: where that one is trained, this is what it
      was between the two.
  """

  def __init__(
    self,
    run: FinishedRun,
    root: str,
    own: dict[str, Any],
    devices: DeviceConfig | None = None,
    longer: 'Student | None' = None,
  ):
    self.longer = longer
    self.config = run.config(StudentConfig, **_of(StudentConfig, own))
    self.phases = run.config(TrainConfig, **_of(TrainConfig, own))
    self.phases.objective.check(run.table.task, run.table.outputs)
    seed = own.get('seed', run.flags['seed'])
    super().__init__(run, root, own, devices or DeviceConfig(), seed)
    self.weights = self.folder if own else run.path('student')
    if not own:
      self.name, self.folder = OWN, os.path.join(root, OWN)

  @property
  def made_of(self) -> dict[str, Any]:
    """Architecture, training, seed and arithmetic, and the distillation set."""
    made = read_json(self.run.path('distill/stage.json'))['fingerprint']
    own = {**flags.flat(self.config), **flags.flat(self.phases)}
    own |= encoders.contents(self.config.pretrained) | frozen_right.contents(self.config)
    return {**own, 'seed': self.seed, 'precision': self.devices.precision, 'distill': made}

  @property
  def tuples(self) -> dict[str, int]:
    """Of each stage."""
    phases = {'stage 1': self.phases.stage1, 'stage 2': self.phases.stage2}
    return {name: phase.steps * phase.batch_size for name, phase in phases.items() if phase.steps}

  @property
  def shared(self) -> list[str]:
    """Named by all that the outputs depend on, but for how many first tokens are kept."""
    config, folders = self.config, []
    for slot, layers in enumerate(config.depths):
      about = [slot, config.pretrained.replace('/', '_')]
      about += [*encoders.contents(config.pretrained).values(), layers, config.max_lengths[slot]]
      about += [config.token_selection, self.devices.precision]
      about += frozen_right.contents(config).values() if slot == 1 else ()
      if config.token_selection == 'last':
        about.append(config.output_tokens[slot])
      if encoders.is_random(config.pretrained):
        about += [self.seed, config.one_encoder]
      folders.append(os.path.join(self.root, FEATURES, '-'.join(map(str, about))))
    return folders if self.phases.stage1.steps else []

  @property
  def trained(self) -> bool:
    """The run's own is, and one that another one was between its stages."""
    return not self.own or self._between is not None or super().trained

  def fit(self) -> None:
    """In two stages."""
    training = self.run.training(
      self.run.table.outputs, strategies.create(self.devices), self.seed, self.devices
    )
    stages.train(self.config, self.phases, self.folder, training, self.shared)

  def model(self) -> tuple[Any, Any]:
    """The trained student and its tokenizer."""
    longer = self._between
    found = DiPair.load(longer.weights if longer else self.weights)
    if longer:
      stages.restore(os.path.join(longer.weights, 'stage1'), found[0])
    return found

  def scorer(self) -> tuple[SetScorer, dict[str, Any]]:
    """By the live model."""
    model, tokenizer = self.model()
    scorer = TupleScorer(model, tokenizer, tf.distribute.get_strategy())

    def of_set(records: RecordSet) -> np.ndarray:
      return scorer.head_logits(*self.gather(scorer, records))

    shapes = [model.vector_shape(slot) for slot in range(model.slots)]
    about = {
      'head_parameters': _count(model.head.trainable_variables),
      'bytes': [4 * int(np.prod(shape)) for shape in shapes],
    }
    return of_set, about

  def gather(self, live: TupleScorer, records: RecordSet) -> tuple[list[np.ndarray], np.ndarray]:
    """As of `TupleScorer`, a set's, from `shared` where these are there and its encoders as they were."""
    frozen = not self.phases.stage2.steps and self.devices.precision == 'float32'  # as here
    folders = self.shared if frozen and all(map(os.path.isdir, self.shared)) else []
    of = [os.path.join(folder, os.path.basename(records.folder)) for folder in folders]
    return live.gather(TokenizedTuples.of_set(records, live.tokenizer), of)

  def head(self) -> str:
    """Folder of its exported head, made where there is none; the run's own is in its export.

    But for a calibrated one: the others' scores are as trained, and so are the metrics beside them.
    """
    if not self.own and self.run.flags.get('calibration', calibration.NONE) == calibration.NONE:
      return self.run.path('export')
    folder = os.path.join(self.folder, 'head')
    if not os.path.exists(folder):
      with whole_folder(folder) as part, strategies.precision():
        student_export.write_head(part, self.model()[0], self.run.slots)
    return folder

  @property
  def _between(self) -> 'Student | None':
    """`longer`, where it is trained and has kept what it was between its stages."""
    if self.longer is None or not self.longer.trained:
      return None
    there = os.path.isdir(os.path.join(self.longer.weights, 'stage1', 'best'))
    return self.longer if there else None


def flags_of(values: dict[str, Any]) -> dict[str, Any]:
  """Flags as JSON keeps them."""
  return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def _of(cls: type, own: dict[str, Any]) -> dict[str, Any]:
  """Those that are flags of a config class."""
  known = flags.flat(cls())
  return {name: value for name, value in own.items() if name in known}


def _count(variables: Sequence[tf.Variable]) -> int:
  return int(sum(np.prod(variable.shape) for variable in variables))
