"""Flags of a DiPair student: its architecture and its training (§3, §4.4)."""

import dataclasses

from common import flags
from common.data import vector_cells
from common.data.examples import TableConfig
from common.distillation.config import AUTO
from common.errors import InputError
from common.modeling.losses import LossConfig
from common.training.optimization import PhaseConfig
from dipair.heads import HEADS, HeadsConfig

STARTS = ('tailored', 'random')  # of --head_start: by `Head.start`, or as a head is made


@dataclasses.dataclass(frozen=True)
class StudentConfig:
  """Architecture of the student: encoders, truncation, projection, head."""

  pretrained: str = flags.option(
    'minilm',
    'checkpoint of the encoders: a folder, gs://, a hub id, minilm or random-tiny; '
    'bilstm:CHECKPOINT builds a bidirectional LSTM on its vocabulary and word embeddings',
  )
  encoder_layers: int = flags.option(
    0, "K: the encoders are the checkpoint's first K layers; 0: all", bounds=(0, 256)
  )
  left_encoder_layers: int = flags.option(
    0,
    "K of a pair's left text; 0: --encoder_layers; two depths make two encoders, which share "
    'no layers',
    bounds=(0, 256),
  )
  right_encoder_layers: int = flags.option(
    0, "K of a pair's right text; 0: --encoder_layers", bounds=(0, 256)
  )
  shared_encoder: bool = flags.option(True, 'one encoder for all texts; false: one per column')
  freeze_right: str = flags.option(
    '',
    'folder of a finished dipair.run; keeps its right encoder, so that stored vectors of right '
    'texts stay valid; projections and head start from this run',
  )
  max_lengths: tuple[int, ...] = flags.option(
    (), 'most tokens of each text; empty: by their lengths, 128 at most', bounds=(1, 8192)
  )
  output_tokens: tuple[int, ...] = flags.option(
    (), 'N,M: output tokens kept of each text; empty: by their lengths', bounds=(1, 8192)
  )
  token_selection: str = flags.option(
    'mean',
    'output tokens to keep; mean: the first ones, with the mean of all in place of [CLS]',
    ('mean', 'first', 'last'),
  )
  projection_dim: int = flags.option(
    256, "D: width of the kept tokens; 0: the encoder's width", bounds=(0, 16_384)
  )
  head: str = flags.option(
    'transformer',
    'head that scores the kept tokens; auto: lite for pairs, else transformer',
    (AUTO, *HEADS),
  )
  heads: HeadsConfig = flags.group(HeadsConfig)
  dropout: float = flags.option(0.0, "dropout of the student's encoders and head", bounds=(0, 0.99))

  def __post_init__(self):
    both = self.max_lengths and self.output_tokens
    if both and len(self.max_lengths) != len(self.output_tokens):
      raise InputError(
        f'--max_lengths={self.max_lengths} and --output_tokens={self.output_tokens}: '
        'one number a text column each'
      )
    for length, tokens in zip(self.max_lengths, self.output_tokens, strict=bool(both)):
      if tokens > length:
        raise InputError(f'--output_tokens: {tokens} kept of {length} tokens')
    of_pairs = {
      '--left_encoder_layers and --right_encoder_layers need': self.left_encoder_layers
      or self.right_encoder_layers,
      '--freeze_right needs': self.freeze_right,
      f'--head={self.head} scores': getattr(HEADS.get(self.head), 'pairs_only', False),
    }
    for needs, given in of_pairs.items():
      if given and len(self.output_tokens or (1, 1)) != 2:
        raise InputError(f'{needs} pairs; --output_tokens names {len(self.output_tokens)} texts')

  def check_texts(self, table: TableConfig) -> None:
    """Refuses a table of another number of texts, and a length that leaves no tokens of a text."""
    columns, texts = table.text_columns, len(self.output_tokens or self.max_lengths)
    if texts and len(columns) != texts:
      raise InputError(
        f'--text_columns names {len(columns)} texts, --output_tokens and --max_lengths {texts}'
      )
    vectors = {vector_cells.parse(flag)[0] for flag in table.vector_columns}
    least = 2  # [CLS] and [SEP]
    for column, most in zip(columns, self.max_lengths, strict=bool(self.max_lengths)):
      if most < least and column not in vectors:
        raise InputError(
          f'--max_lengths={",".join(map(str, self.max_lengths))}: a text takes {least} '
          'or more, [CLS] and [SEP]'
        )

  @property
  def depths(self) -> tuple[int, ...]:
    """K of each text's encoder; 0: all of the checkpoint's layers, but a made student's has K."""
    if len(self.output_tokens) != 2:
      return (self.encoder_layers,) * len(self.output_tokens)
    depths = (self.left_encoder_layers, self.right_encoder_layers)
    return tuple(layers or self.encoder_layers for layers in depths)

  @property
  def one_encoder(self) -> bool:
    """Whether all texts have the same encoder."""
    return self.shared_encoder and len(set(self.depths)) == 1 and not self.freeze_right


@dataclasses.dataclass(frozen=True)
class TrainConfig:
  """The two stages (§3.7). `--stage1_steps=0` trains in one stage, as Figure 3a compares."""

  objective: LossConfig = flags.group(LossConfig, heading='training, both stages', alpha=-1.0)
  head_start: str = flags.option(
    STARTS[0],
    "first weights of projections and head: tailored to the encoder's tokens, so that like words "
    'match from the start; or random, as in the paper',
    STARTS,
  )
  stage1: PhaseConfig = flags.group(
    PhaseConfig,
    'stage1_',
    'training, stage 1',
    batch_size=256,
    steps=-1,
    learning_rate=2e-3,
  )
  stage2: PhaseConfig = flags.group(
    PhaseConfig,
    'stage2_',
    'training, stage 2',
    batch_size=256,
    steps=-1,
    patience=3,
  )
  stage1_cache_gb: float = flags.option(
    8.0,
    "most disk for stage 1's cached encoder outputs, in GB; if they need more, texts are encoded "
    'batch by batch',
    bounds=(0, 10**6),
  )

  def __post_init__(self):
    if not self.stage1.steps and not self.stage2.steps:
      raise InputError(
        '--stage1_steps=0 and --stage2_steps=0 train nothing; set one of them above 0'
      )

  @property
  def batch_sizes(self) -> dict[str, int]:
    """Tuples of a step, by flag, of the stages that there are."""
    phases = {'stage1_batch_size': self.stage1, 'stage2_batch_size': self.stage2}
    return {flag: phase.batch_size for flag, phase in phases.items() if phase.steps}
