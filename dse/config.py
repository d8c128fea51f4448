"""Flags of a DSE student: its architecture and its training (§3.4, §3.5)."""

import dataclasses

from common import flags
from common.data.task import Task
from common.errors import InputError
from common.modeling.losses import Loss, LossConfig
from common.training.optimization import PhaseConfig
from dse.similarity import SIMILARITIES


@dataclasses.dataclass(frozen=True)
class StudentConfig:
  """Architecture of the student: encoder, pooling, similarity."""

  pretrained: str = flags.option(
    'minilm',
    'checkpoint of the encoder: a folder, gs://, a hub id, minilm or random-tiny; '
    'bilstm:CHECKPOINT builds a bidirectional LSTM on its vocabulary and word embeddings',
  )
  encoder_layers: int = flags.option(0, "the checkpoint's first layers; 0: all", bounds=(0, 256))
  shared_encoder: bool = flags.option(True, 'one encoder for both texts (psi = phi); false: two')
  max_lengths: tuple[int, ...] = flags.option(
    (128, 128), 'most tokens of each text', bounds=(2, 8192)
  )
  pooled_layers: int = flags.option(
    4, 'number of last layers to pool into a sentence vector', bounds=(1, 256)
  )
  pooling: str = flags.option(
    'mean', "pooling of a layer's tokens; cls: take [CLS] alone", ('mean', 'max', 'cls')
  )
  pool_cls: bool = flags.option(False, 'pool [CLS] too')
  normalize: bool = flags.option(False, "scale a sentence's vector to length one")
  similarity: str = flags.option(
    'dse',
    'function from two vectors to logits: dse (f of Eq. 3), or the concat (W [u, v, |u - v|]) and '
    'cosine of SBERT',
    tuple(SIMILARITIES),
  )
  similarity_dim: int = flags.option(512, "rows of W in DSE's f", bounds=(1, 16_384))
  dropout: float = flags.option(0.1, "dropout of the student's encoder", bounds=(0, 0.99))

  def __post_init__(self):
    if len(self.max_lengths) != 2:
      raise InputError(f'--max_lengths={self.max_lengths}: two numbers are needed')
    if 0 < self.encoder_layers < self.pooled_layers:
      raise InputError(
        f'--pooled_layers={self.pooled_layers}: the last layers of '
        f'--encoder_layers={self.encoder_layers}, so as many at the most'
      )


VARIANTS = ('distilled', 'labels', 'teacher', 'frozen')


@dataclasses.dataclass(frozen=True)
class TrainConfig:
  """Variants to train, and their length of training (§4.1.1)."""

  objective: LossConfig = flags.group(
    LossConfig,
    heading='training',
    loss='squared_error',
    alpha=0.5,
  )
  variants: tuple[str, ...] = flags.option(
    ('distilled',),
    'students to train: distilled (by --alpha), labels (alpha 0), teacher (alpha 1), frozen '
    '(trains f alone, alpha 1); the first is exported and tested against the second',
  )
  cache_gb: float = flags.option(
    8.0,
    "most disk for a frozen encoder's cached vectors, in GB; if they need more, texts are encoded "
    'batch by batch',
    bounds=(0, 10**6),
  )
  phase: PhaseConfig = flags.group(PhaseConfig, heading='training', batch_size=32, steps=2000)
  frozen_phase: PhaseConfig = flags.group(
    PhaseConfig,
    'frozen_',
    'training, frozen variant',
    batch_size=32,
    steps=2000,
    learning_rate=1e-3,
  )

  def __post_init__(self):
    if set(self.variants) - set(VARIANTS):
      raise InputError(f'--variants={",".join(self.variants)}: some of {", ".join(VARIANTS)}')
    if len(set(self.variants)) < len(self.variants):
      raise InputError(f'--variants={",".join(self.variants)}: each once')
    alphas = {}
    for variant in self.variants:
      if (
        variant != 'frozen'
        and (same := alphas.setdefault(self.alpha_of(variant), variant)) != variant
      ):
        raise InputError(
          f'--variants={",".join(self.variants)}: {same} and {variant} are one student, of alpha '
          f'{self.alpha_of(variant):g}; leave one out, or name another --alpha'
        )

  def loss_of(self, variant: str, task: Task) -> Loss:
    """A variant's loss for a task."""
    return dataclasses.replace(self.objective, alpha=self.alpha_of(variant)).build(task)

  def alpha_of(self, variant: str) -> float:
    """A variant's alpha."""
    return {'distilled': self.objective.alpha, 'labels': 0.0}.get(variant, 1.0)

  @property
  def batch_sizes(self) -> dict[str, int]:
    """Tuples of a step, by flag, of the phases that there are."""
    sizes = {'batch_size': self.phase.batch_size} if self.variants != ('frozen',) else {}
    frozen = {'frozen_batch_size': self.frozen_phase.batch_size}
    return sizes | (frozen if 'frozen' in self.variants else {})
