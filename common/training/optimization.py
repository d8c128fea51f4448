"""The public BERT recipe (DiPair §4.4): AdamW with linear warm-up and decay, from tf-models."""

import dataclasses

import tf_keras
from official.nlp import optimization

from common import flags
from common.errors import InputError


@dataclasses.dataclass(frozen=True)
class PhaseConfig:
  """One phase of training: the teacher's, or a stage of the student's."""

  learning_rate: float = flags.option(5e-5, 'peak learning rate')
  batch_size: int = flags.option(32, 'tuples a step, over all replicas')
  steps: int = flags.option(1000, 'optimizer steps at the most')
  warmup_steps: int = flags.option(100, 'steps of linear warm-up')
  eval_every: int = flags.option(200, 'steps between evaluations on the validation set')
  patience: int = flags.option(5, 'evaluations without a better one that end the phase; 0: none')

  def __post_init__(self):
    for name in ('learning_rate', 'batch_size', 'eval_every'):
      if getattr(self, name) <= 0:
        raise InputError(f'{name}={getattr(self, name)}: must be above 0')
    for name in ('steps', 'warmup_steps', 'patience'):
      if getattr(self, name) < 0:
        raise InputError(f'{name}={getattr(self, name)}: must be 0 or more')


def create_optimizer(phase: PhaseConfig) -> tf_keras.optimizers.legacy.Optimizer:
  """AdamW: decay 0.01 (none on LayerNorm and biases), betas 0.9 and 0.999, eps 1e-6."""
  return optimization.create_optimizer(
    phase.learning_rate, num_train_steps=max(1, phase.steps), num_warmup_steps=phase.warmup_steps
  )
