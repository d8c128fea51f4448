"""The public BERT recipe (DiPair §4.4): AdamW with linear warm-up and decay, from tf-models."""

import dataclasses

import tf_keras
from official.nlp import optimization

from common import flags
from common.errors import InputError


@dataclasses.dataclass(frozen=True)
class PhaseConfig:
  """Flags of a training phase: the teacher's, or a stage of the student's."""

  learning_rate: float = flags.option(5e-5, 'peak learning rate', bounds=(1e-12, 10))
  batch_size: int = flags.option(32, 'tuples a step, over all replicas', bounds=(1, 10**6))
  steps: int = flags.option(
    1000, 'maximum optimizer steps; -1: by the number of tuples', bounds=(-1, 10**9)
  )
  warmup_steps: int = flags.option(
    -1, 'steps of linear warm-up; -1: a tenth of the steps', bounds=(-1, 10**9)
  )
  eval_every: int = flags.option(
    0,
    'steps between evaluations on the validation set; 0: a tenth of the steps',
    bounds=(0, 10**9),
  )
  patience: int = flags.option(
    5,
    'stop after this many evaluations without improvement; 0: never',
    bounds=(0, 10**9),
  )

  @property
  def warmup(self) -> int:
    """Steps of the warm-up."""
    return self.steps // 10 if self.warmup_steps < 0 else self.warmup_steps

  @property
  def between(self) -> int:
    """Steps between two evaluations."""
    return self.eval_every or max(1, self.steps // 10)


def check(config: PhaseConfig, phase: str, replicas: int) -> None:
  """Refuses steps below 0 and a batch that replicas cannot share evenly; tells of mere warm-up."""
  if config.steps < 0:
    raise InputError(f'{phase}: steps={config.steps}: a number from 0 is needed')
  if config.batch_size % replicas:
    raise InputError(
      f'{phase}: batch_size={config.batch_size}: a multiple of {replicas}, the replicas, is needed'
    )
  if 0 < config.steps <= config.warmup:
    print(
      f'{phase}: all {config.steps:,} steps are of the warm-up, {config.warmup:,} steps: '
      'the learning rate rises to the end; a tenth of the steps is usual'
    )


def create_optimizer(phase: PhaseConfig) -> tf_keras.optimizers.legacy.Optimizer:
  """AdamW: decay 0.01 (none on LayerNorm and biases), betas 0.9 and 0.999, eps 1e-6."""
  return optimization.create_optimizer(
    phase.learning_rate, num_train_steps=max(1, phase.steps), num_warmup_steps=phase.warmup
  )
