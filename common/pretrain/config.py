"""Flags of a pretraining."""

import dataclasses

from common import flags
from common.errors import InputError
from common.modeling.bert_network import EncoderConfig
from common.pretrain.corpus import CorpusConfig
from common.pretrain.masking import MaskingConfig
from common.pretrain.vocabulary import VocabularyConfig
from common.training.optimization import PhaseConfig
from common.training.strategies import DeviceConfig

_LEAST_LENGTH = 8  # tokens of a sequence


@dataclasses.dataclass(frozen=True)
class ShapeConfig:
  """Shape of an encoder that starts from random weights."""

  encoder_layers: int = flags.option(4, 'transformer layers', bounds=(1, 256))
  hidden_size: int = flags.option(256, 'width of the layers', bounds=(1, 16_384))
  attention_heads: int = flags.option(4, 'attention heads a layer', bounds=(1, 1024))

  def __post_init__(self):
    self.encoder(1, 1)  # refuses what is out of range

  def encoder(self, vocab_size: int, max_positions: int) -> EncoderConfig:
    """Config of BERT's encoder, dropout included, with as many positions as are trained."""
    return EncoderConfig(
      vocab_size,
      hidden_size=self.hidden_size,
      num_layers=self.encoder_layers,
      num_heads=self.attention_heads,
      inner_dim=4 * self.hidden_size,  # Devlin et al., 2019, Sec. 3
      max_positions=max_positions,
    )

  def check_kept(self, own: EncoderConfig, path: str) -> None:
    """Refuses a flag that is neither its default nor the checkpoint's own value."""
    kept = (own.num_layers, own.hidden_size, own.num_heads)
    for name, value in zip(flags.flat(self), kept, strict=True):
      asked = getattr(self, name)
      if asked not in (getattr(ShapeConfig, name), value):
        raise InputError(
          f'--{name}={asked} needs random weights; {path} has {value}: remove the flag'
        )


@dataclasses.dataclass(frozen=True)
class PretrainConfig:
  """Flags of a pretraining."""

  run_dir: str = flags.option('', 'folder of the run: its stages, results and report')
  title: str = flags.option('', "title of the report; empty: the run folder's name")
  redo: bool = flags.option(False, 'replace stages that were made with other flags', kept=False)
  seed: int = flags.option(
    7, 'seed of initial weights, dropout, shuffling and masks', bounds=(0, 2**31 - 1)
  )
  pretrained: str = flags.option(
    '', 'checkpoint to go on from, with its vocabulary and shape; empty: random weights'
  )
  max_length: int = flags.option(
    128, 'most tokens of a sequence; of random weights, the positions', bounds=(_LEAST_LENGTH, 8192)
  )
  next_sentence: bool = flags.option(
    False, 'pairs of segments, and whether the second follows (BERT), in place of full sentences'
  )
  corpus: CorpusConfig = flags.group(CorpusConfig)
  vocabulary: VocabularyConfig = flags.group(VocabularyConfig)
  shape: ShapeConfig = flags.group(ShapeConfig, heading='shape, of random weights')
  distil_from: str = flags.option(
    '', 'checkpoint with a masked-token head, which teaches a model of every other layer of it'
  )
  masking: MaskingConfig = flags.group(MaskingConfig)
  phase: PhaseConfig = flags.group(
    PhaseConfig,
    heading='training, of sequences as tuples',
    learning_rate=5e-4,
    steps=10_000,
    warmup_steps=1000,
    eval_every=1000,
    patience=0,
  )
  devices: DeviceConfig = flags.group(DeviceConfig)

  def __post_init__(self):
    several = self.corpus.text_columns or self.corpus.documents == 'blocks'
    if self.next_sentence and not (several and self.corpus.input_files):
      raise InputError(
        '--next_sentence needs documents of several passages: --input_files with '
        '--documents=blocks, an empty line after each document'
      )
    if self.distil_from and (self.pretrained or self.next_sentence):
      other = 'pretrained' if self.pretrained else 'next_sentence'
      raise InputError(f'--distil_from or --{other}, not both')

  @property
  def start(self) -> str:
    """The checkpoint that the model starts from; empty: random weights, and a learnt vocabulary."""
    return self.pretrained or self.distil_from
