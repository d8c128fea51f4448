"""Cross-attention students (§4.2), distilled on the same soft labels: BERT-Tiny's shape, first layers."""

import dataclasses
from typing import Any

import tensorflow as tf

from common import digests, flags
from common.distillation import teacher
from common.distillation.evaluation import SetScorer
from common.distillation.teacher import Teacher
from common.distillation.trainer import Training
from common.modeling import checkpoints
from common.modeling.checkpoints import Pretrained
from common.modeling.encoders import EncoderConfig
from common.modeling.losses import CrossEntropy
from common.training.optimization import PhaseConfig
from common.training.strategies import DeviceConfig
from dipair.finished_run import FinishedRun
from dipair.study.kept import Kept
from dipair.study.rows import CROSS, TINY

_TINY_SHAPE: dict[str, Any] = {
  'hidden_size': 128,
  'num_layers': 2,
  'num_heads': 2,
  'inner_dim': 512,
}


@dataclasses.dataclass(frozen=True)
class CrossConfig:
  """Training of cross-attention students; without steps, they are left out of tables and figures."""

  tiny_pretrained: str = flags.option(
    '',
    "checkpoint of BERT-Tiny, a folder or hub id; empty: its shape, random weights, the run's words",
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

  def of(self, cross: str) -> PhaseConfig:
    """The phase of a student: BERT-Tiny's shape has a learning rate of its own."""
    rate = self.tiny_learning_rate if cross == TINY else self.phase.learning_rate
    return dataclasses.replace(self.phase, learning_rate=rate)


class CrossStudent(Kept):
  """One of them.

  Args:
    run: As for `Kept`, likewise the next ones.
    root: Folder of the students' folders.
    own: Flags of `rows.Row`, and maybe a seed and arithmetic.
    config: Their training.
    devices: Arithmetic.

  Attributes:
    source: Checkpoint that it starts from, or that has its vocabulary.
  """

  def __init__(
    self,
    run: FinishedRun,
    root: str,
    own: dict[str, Any],
    config: CrossConfig,
    devices: DeviceConfig,
  ):
    self.phase = config.of(own[CROSS])
    given = config.tiny_pretrained if own[CROSS] == TINY else ''
    self.source = given or run.flags['teacher_pretrained']
    self.pretrained = _pretrained(own[CROSS], config, run)
    self.max_length = run.flags['teacher_max_length']
    named = {
      **own,
      'learning_rate': self.phase.learning_rate,
      'batch_size': self.phase.batch_size,
      'steps': self.phase.steps,
    }
    if own[CROSS] == TINY and config.tiny_pretrained:
      named['pretrained'] = config.tiny_pretrained
    super().__init__(run, root, named, devices, own.get('seed', run.flags['seed']))

  @property
  def design(self) -> dict[str, Any]:
    """Shape and training; the checkpoint and its contents."""
    own = {**dataclasses.asdict(self.pretrained.config), **flags.flat(self.phase)}
    own |= {'pretrained': self.pretrained.path, 'max_length': self.max_length}
    return {**own, **digests.contents(self.source)}

  @property
  def tuples(self) -> dict[str, int]:
    """Of its one phase."""
    return {'cross-attention': self.phase.steps * self.phase.batch_size}

  @property
  def work(self) -> int:
    """Multiplications a token, about."""
    return work(self.pretrained.config)

  def fit(self, data: Training) -> None:
    """As a teacher is fine-tuned, on soft labels."""
    name, loss = 'cross-attention student', CrossEntropy()
    teacher.fine_tune(
      self.pretrained, self.max_length, self.phase, data, self.folder, criterion=loss, name=name
    )

  def model(self) -> Teacher:
    """The trained student."""
    return Teacher.load(self.folder)

  def scorer(self) -> tuple[SetScorer, dict[str, Any]]:
    """By the live model; nothing is stored of a text."""
    return teacher.scorer_of([self.model()], tf.distribute.get_strategy()), {}


def work(config: EncoderConfig) -> int:
  """Multiplications that an encoder's dense layers take for a token."""
  return config.num_layers * config.hidden_size * (4 * config.hidden_size + 2 * config.inner_dim)


def _pretrained(cross: str, config: CrossConfig, run: FinishedRun) -> Pretrained:
  """What a student starts from; the run's dropout."""
  dropout = run.flags['dropout']
  if cross == TINY and config.tiny_pretrained:
    found = checkpoints.read(config.tiny_pretrained)
    checkpoints.check_length(found, '--tiny_pretrained', run.flags['teacher_max_length'])
    return dataclasses.replace(found, config=dataclasses.replace(found.config, dropout=dropout))
  found = checkpoints.read(run.flags['teacher_pretrained'])
  if cross == TINY:
    shape = dataclasses.replace(found.config, **_TINY_SHAPE, dropout=dropout)
    return dataclasses.replace(found, path=TINY, format='random', config=shape)
  layers = dataclasses.replace(found.config, num_layers=int(cross), dropout=dropout)
  return dataclasses.replace(found, config=layers)
