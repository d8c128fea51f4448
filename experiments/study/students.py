"""Students of a study, and its teacher: each is trained, scored and judged by a stage."""

import dataclasses
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
from common.distillation import measure, teacher
from common.distillation.inference import TupleScorer
from common.distillation.provenance import environment
from common.distillation.run_folder import Stage
from common.distillation.student import check_set
from common.distillation.teacher import Teacher
from common.distillation.trainer import Training
from common.errors import InputError
from common.evaluation.evaluation import SetScorer
from common.evaluation.results import finite
from common.modeling import checkpoints, encoders
from common.modeling.checkpoints import Pretrained
from common.modeling.losses import CrossEntropy
from common.training import strategies
from common.training.optimization import PhaseConfig
from dipair import frozen_right, training
from dipair.config import StudentConfig, TrainConfig
from dipair.scorer import Scorer
from dipair.student import DiPair
from experiments.finished_run import FinishedRun
from experiments.study.rows import CROSS, TINY

SETS = ('valid', 'test')
RUNTIMES = ('tensorflow', 'litert', 'litert-int8')
OWN = 'own'  # the run's own student
TEACHER = 'teacher'
_TINY_SHAPE: dict[str, Any] = {
  'hidden_size': 128,
  'num_layers': 2,
  'num_heads': 2,
  'inner_dim': 512,
}
_MOST_NAME = 200  # characters of a folder's name; file systems take 255 bytes


@dataclasses.dataclass(frozen=True)
class CrossConfig:
  """Training of cross-attention students. With no steps, tables and figures leave them out."""

  tiny_pretrained: str = flags.option(
    '',
    'checkpoint of BERT-Tiny, a folder or hub id; empty: random weights of its shape, with the '
    "words of the run's teacher",
  )
  tiny_learning_rate: float = flags.option(
    5e-4, "peak learning rate of BERT-Tiny's shape", bounds=(1e-12, 10)
  )
  phase: PhaseConfig = flags.group(
    PhaseConfig,
    'cross_',
    'cross-attention students',
    learning_rate=1e-4,
    batch_size=128,
    steps=6000,
    warmup_steps=300,
    eval_every=1000,
    patience=0,
  )


@dataclasses.dataclass(frozen=True)
class Judged:
  """A model's metrics by set, and its sizes.

  Attributes:
    flags: Flags that differ from the run's.
    accelerators: Accelerators that trained it.
    valid, test: Metrics by name; empty where there is no model.
    head_parameters: Parameters of the head; None for cross-attention.
    bytes: Bytes that a text's vectors take, a number a text; empty for cross-attention.
  """

  flags: dict[str, Any]
  seed: int
  accelerators: str
  valid: dict[str, Any]
  test: dict[str, Any]
  head_parameters: int | None = None
  bytes: Sequence[int] = ()


@dataclasses.dataclass(frozen=True)
class Worth:
  """The primary metric of an exported student by runtime of its head and by set."""

  by_runtime: dict[str, dict[str, float]]


class Model:
  """A model of a study: trained, scored and judged in the folder of its stage.

  Args:
    source: The run that it stands on.
    name: Name of the stage.
    own: Flags that differ from the run's; its seed and arithmetic may be among them.
    depends_on: Further values that the weights depend on.

  Attributes:
    tuples: Tuples that training takes, by a phase of the run that is as fast or slower.
    stage: The stage that makes it, once it is declared.
  """

  stage: Stage[Judged]

  def __init__(
    self, source: FinishedRun, name: str, own: dict[str, Any], depends_on: dict[str, Any]
  ):
    self.source, self.name, self.own = source, name, own
    self.seed = own.get('seed', source.flags['seed'])
    self.precision = own.get('precision', source.flags['precision'])
    self.depends_on = {
      **depends_on,
      'primary_metric': source.metric,
      'seed': self.seed,
      'precision': self.precision,
      'distill': source.stage('distill')['fingerprint'],
    }
    self.tuples: dict[str, int] = {}

  def check(self) -> None:
    """Refuses what could only fail after the hours of other students."""

  def train(self, folder: str) -> None:
    """Trains into a folder, or goes on there; nothing for a model that is trained already."""

  def scorer(self, folder: str) -> tuple[SetScorer | None, dict[str, Any]]:
    """A function of record sets to logits, None for no model; and sizes for `Judged`."""
    raise NotImplementedError

  def make(self, folder: str) -> Judged:
    """Trains, writes the logits of valid and test, and judges them."""
    clear(os.path.dirname(folder))
    self.train(folder)
    found: dict[str, dict[str, float]] = {name: {} for name in SETS}
    with strategies.precision():
      score, sizes = self.scorer(folder)
      if score:
        for name in SETS:
          logits = score(RecordSet(self.source.path(f'data/{name}')))
          np.save(os.path.join(folder, f'{name}.npy'), logits)
          found[name] = finite(self.source.judged(name).evaluate(logits))
        digests.write(folder, [f'{name}.npy' for name in SETS])
    accelerators = environment()['accelerators']
    return Judged(self.own, self.seed, accelerators, found['valid'], found['test'], **sizes)

  def logits(self) -> np.ndarray:
    """The logits on test's tuples: [n, outputs]."""
    folder = self.stage.folder
    return digests.read_arrays(os.path.join(folder, 'test.npy'), f'delete {folder} and study again')

  def training(self) -> Training:
    """Training on the run's distillation set, from this model's seed."""
    tf_keras.backend.clear_session()  # graphs of the students before
    tf_keras.utils.set_random_seed(self.seed)
    devices = strategies.DeviceConfig(precision=self.precision)
    strategy = strategies.create(devices)
    return self.source.training(strategy, self.seed, devices)


def clear(study: str) -> None:
  """Removes checkpoints, several times the weights, of students that are made; others go on."""
  for name in os.listdir(study):
    if not name.endswith('.part'):
      for stage in ('', *training.STAGES):
        shutil.rmtree(os.path.join(study, name, stage, 'checkpoints'), ignore_errors=True)


class TeacherScores(Model):
  """The teacher's scores: those in the record sets, or else those of the run's teachers, if any."""

  def __init__(self, source: FinishedRun):
    super().__init__(source, TEACHER, {}, {})

  def scorer(self, folder: str) -> tuple[SetScorer | None, dict[str, Any]]:
    sets = [RecordSet(self.source.path(f'data/{name}')) for name in SETS]
    if all(records.tuples().teacher_logits is not None for records in sets):
      return lambda records: np.asarray(records.tuples().teacher_logits), {}
    if teachers := self.source.teachers():
      return teacher.scorer_of(teachers, tf.distribute.get_strategy()), {}
    return None, {}


class Student(Model):
  """A DiPair student; without flags of its own it is the run's.

  Args:
    source: The run that it stands on.
    own: Flags that differ from the run's; its seed and arithmetic may be among them.

  Attributes:
    exported: The stage of its export, if its speeds are measured.
  """

  exported: Stage[Worth]

  def __init__(self, source: FinishedRun, own: dict[str, Any]):
    self.config = source.config(StudentConfig, **_of(StudentConfig, own))
    self.phases = source.config(TrainConfig, **_of(TrainConfig, own))
    made_of = {
      **flags.flat(self.config),
      **flags.flat(self.phases),
      **encoders.contents(self.config.pretrained),
      **frozen_right.contents(self.config),
    }
    if not own:
      made_of['student'] = source.stage('student')['fingerprint']
    super().__init__(source, folder_name(own) or OWN, own, made_of)
    if own:
      phases = {'stage 1': self.phases.stage1, 'stage 2': self.phases.stage2}
      self.tuples = {name: of.steps * of.batch_size for name, of in phases.items() if of.steps}

  def check(self) -> None:
    if not self.own:
      return
    try:
      task, objective = self.source.task, self.phases.objective
      self.config.check_texts(self.source.table)
      training.check(self.config, task.outputs)
      if 'loss_temperature' in self.own:
        objective.check_settings()
      objective.check(task)
      losses = [objective.build(task)]
      check_set(RecordSet(self.source.path('distill')), losses, self.phases.batch_sizes)
    except InputError as error:
      raise InputError(f'{self.name}: {error}') from error

  def train(self, folder: str) -> None:
    if self.own:
      training.train(self.config, self.phases, folder, self.training())

  def model(self, folder: str) -> tuple[Any, Any]:
    """The student that was trained into a folder, and its tokenizer."""
    return DiPair.load(folder if self.own else self.source.path('student'))

  def export(self, to: str) -> Worth:
    """Exports the student, which is made, and judges the export."""
    source = self.source
    with strategies.precision():
      source.export(to, self.model(self.stage.folder))
      scorers = {name: Scorer.load(to, name) for name in RUNTIMES}
      first = {name: scorers[name] for name in RUNTIMES[:1]}
      of_heads, *_ = measure.compare(scorers, first, source.task, source.path('data'))
    named = zip(RUNTIMES, of_heads, strict=True)
    return Worth(finite({name: {s: row[s] for s in SETS} for name, row in named}))

  def scorer(self, folder: str) -> tuple[SetScorer | None, dict[str, Any]]:
    model, tokenizer = self.model(folder)
    shapes = [model.vector_shape(slot) for slot in range(model.slots)]
    sizes = {
      'head_parameters': int(sum(np.prod(v.shape) for v in model.head.trainable_variables)),
      'bytes': [4 * int(np.prod(shape)) for shape in shapes],
    }
    return TupleScorer(model, tokenizer, tf.distribute.get_strategy()).of_set, sizes


class CrossStudent(Model):
  """A cross-attention student (§4.2), fine-tuned as a teacher is, on the soft labels.

  Args:
    source: The run that it stands on.
    own: 'cross_attention', BERT-Tiny's shape or a number of layers; maybe a seed, a precision.
    config: Training.
  """

  def __init__(self, source: FinishedRun, own: dict[str, Any], config: CrossConfig):
    tiny = own[CROSS] == TINY
    rate = config.tiny_learning_rate if tiny else config.phase.learning_rate
    self.phase = dataclasses.replace(config.phase, learning_rate=rate)
    given = config.tiny_pretrained if tiny else ''
    start = given or source.flags['teacher_pretrained']
    self.pretrained = _pretrained(own[CROSS], given, start, source)
    self.max_length = source.flags['teacher_max_length']
    made_of = {
      **dataclasses.asdict(self.pretrained.config),
      **flags.flat(self.phase),
      **digests.contents(start),
      'pretrained': self.pretrained.path,
      'max_length': self.max_length,
    }
    super().__init__(source, folder_name(own), own, made_of)
    self.tuples = {'teacher': self.phase.steps * self.phase.batch_size}

  def train(self, folder: str) -> None:
    teacher.fine_tune(
      self.pretrained,
      self.max_length,
      self.phase,
      self.training(),
      folder,
      criterion=CrossEntropy(),
      name='cross-attention student',
    )

  def scorer(self, folder: str) -> tuple[SetScorer | None, dict[str, Any]]:
    return teacher.scorer_of([Teacher.load(folder)], tf.distribute.get_strategy()), {}


def folder_name(own: dict[str, Any]) -> str:
  """Name of the folder of a student by its flags; of many, the first ones and a digest of all."""
  name = '-'.join(f'{key}={value}' for key, value in own.items()).replace(' ', '').replace('/', '_')
  digest = hashlib.sha256(name.encode()).hexdigest()[:16]
  return name if len(name) <= _MOST_NAME else f'{name[: _MOST_NAME - 17]}-{digest}'


def _of(cls: type, own: dict[str, Any]) -> dict[str, Any]:
  """Flags that belong to a config class."""
  known = flags.flat(cls())
  return {name: value for name, value in own.items() if name in known}


def _pretrained(cross: str, given: str, start: str, source: FinishedRun) -> Pretrained:
  """Checkpoint of a cross-attention student, at the run's dropout."""
  found = checkpoints.read(start)
  config = dataclasses.replace(found.config, dropout=source.flags['dropout'])
  if given:
    checkpoints.check_length(found, '--tiny_pretrained', source.flags['teacher_max_length'])
  elif cross == TINY:
    config = dataclasses.replace(config, **_TINY_SHAPE)
    found = dataclasses.replace(found, path=TINY, format='random')
  elif not 0 < int(cross) <= config.num_layers:
    raise InputError(f'--{CROSS}={cross}: {start} has {config.num_layers} layers')
  else:
    config = dataclasses.replace(config, num_layers=int(cross))
  return dataclasses.replace(found, config=config)
