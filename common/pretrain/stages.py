"""The stages of a pretraining: texts, vocabulary, word pieces, training, and the checkpoint."""

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from common import digests, files, flags
from common.data.tokenization import Tokenizer
from common.distillation import run_folder
from common.distillation.run_folder import RunFolder
from common.distillation.shared import Trained
from common.errors import InputError, damaged
from common.modeling import checkpoints
from common.modeling.checkpoints import Pretrained
from common.modeling.encoders import EncoderConfig
from common.pretrain import checkpoint, corpus, distilbert, language_model, vocabulary
from common.pretrain.batches import Batch, MaskedBatches
from common.pretrain.config import PretrainConfig
from common.pretrain.corpus import SETS, TRAIN, VALID, Counts, Document
from common.pretrain.language_model import LOSS, LanguageModel
from common.pretrain.masking import Masking
from common.pretrain.sequences import NO_PAIRS, FullSentences, Pieces, SegmentPairs
from common.training import loop, strategies
from common.training.checkpoints import restore_best

_BATCH = 64  # held-out sequences at a time
_VOCABULARY = 'vocabulary.json'


class Stage:
  """A stage whose work is its `run`; `declare` enters it into a run's folder."""

  name: str
  result: type

  def __init__(self, run_dir: str, inputs: Sequence['Stage'], depends_on: dict[str, Any]):
    self.folder, self.inputs = os.path.join(run_dir, self.name), inputs
    self.depends_on = depends_on

  def run(self, folder: str) -> Any:
    """Fills the folder."""
    raise NotImplementedError

  def declare(self, run: RunFolder) -> run_folder.Stage[Any]:
    """Declares the stage in a run, after its inputs."""
    after = [stage for stage in run.stages if stage.name in {one.name for one in self.inputs}]
    return run.stage(self.name, self.result, self.run, self.depends_on, after=after)


class Corpus(Stage):
  """The documents that are trained on and those that are held out, each once."""

  name, result = 'corpus', Counts

  def __init__(self, config: PretrainConfig):
    seed = {} if config.corpus.input_files else {'seed': config.seed}
    super().__init__(config.run_dir, [], {**config.corpus.depends_on(), **seed})
    self.config = config

  def run(self, folder: str) -> Counts:
    config = self.config
    counts = corpus.write(
      lambda: corpus.documents(config.corpus, config.seed), config.corpus.held_out, folder
    )
    if config.next_sentence and not counts.pairs():
      raise InputError(NO_PAIRS)
    return counts

  def documents(self, name: str) -> Iterator[Document]:
    """The documents of a set."""
    return corpus.plain(os.path.join(self.folder, f'{name}.txt'))


@dataclasses.dataclass(frozen=True)
class Words:
  """Word pieces in a vocabulary."""

  pieces: int


class Vocabulary(Stage):
  """The word pieces: learnt from the texts that are trained on, or a checkpoint's."""

  name, result = 'vocabulary', Words

  def __init__(self, config: PretrainConfig, corpus: Corpus):
    own = flags.flat(config.vocabulary)
    kept = config.kept_vocabulary
    own = (
      {'vocabulary': kept, **digests.contents(kept)}
      if kept
      else {n: own[n] for n in ('vocab_size', 'lower_case')}
    )
    super().__init__(config.run_dir, [corpus], own)
    self.config, self.corpus, self.kept = config, corpus, kept

  def run(self, folder: str) -> Words:
    path = os.path.join(folder, _VOCABULARY)
    if self.kept:
      found = checkpoints.read(self.kept)
      print(f'vocabulary and casing are those of {self.kept}; --vocab_size learns none')
      files.write_json(path, {'vocabulary': found.vocabulary, 'lower_case': found.lower_case})
      return Words(len(found.vocabulary))
    config = self.config.vocabulary
    texts = (passage for document in self.corpus.documents(TRAIN) for passage in document)
    counts = vocabulary.count(texts, config.lower_case)
    print(f'vocabulary: of {len(counts):,} different words')
    pieces = vocabulary.learn(counts, config.vocab_size)
    files.write_json(path, {'vocabulary': pieces, 'lower_case': config.lower_case})
    return Words(len(pieces))

  def tokenizer(self) -> Tokenizer:
    """A tokenizer of it."""
    path, remedy = os.path.join(self.folder, _VOCABULARY), f'delete {self.folder} and run again'
    with damaged(path, remedy):
      return Tokenizer(**files.read_json(path, remedy))


@dataclasses.dataclass(frozen=True)
class Tokenized:
  """Word pieces of each set, and the share of them that the vocabulary does not know."""

  pieces: dict[str, int]
  unknown: float


class Tokenization(Stage):
  """The texts as word ids."""

  name, result = 'pieces', Tokenized

  def __init__(self, config: PretrainConfig, corpus: Corpus, vocabulary: Vocabulary):
    super().__init__(config.run_dir, [corpus, vocabulary], {})
    self.corpus, self.vocabulary = corpus, vocabulary

  def run(self, folder: str) -> Tokenized:
    tokenizer, counts, unknown = self.vocabulary.tokenizer(), {}, 0
    for name in SETS:
      documents = self.corpus.documents(name)
      pieces = Pieces.write(os.path.join(folder, name), documents, tokenizer)
      counts[name] = len(pieces.table.ids)
      unknown += int(np.count_nonzero(pieces.table.ids == tokenizer.unknown_id))
    return Tokenized(counts, unknown / max(1, sum(counts.values())))

  def batches(self, config: PretrainConfig, name: str) -> MaskedBatches:
    """Masked batches of a set."""
    tokenizer = self.vocabulary.tokenizer()
    pieces = Pieces.open(os.path.join(self.folder, name), tokenizer)
    kind = SegmentPairs if config.next_sentence else FullSentences
    mask = Masking(config.masking, tokenizer.vocabulary)
    bucketed = not config.devices.static_shapes
    return MaskedBatches(kind(pieces, config.max_length), mask, config.seed, bucketed)


class Training(Stage):
  """The language model's training, judged on the held-out documents."""

  name, result = 'training', Trained

  def __init__(
    self, config: PretrainConfig, pieces: Tokenization, strategy: tf.distribute.Strategy
  ):
    own = {**flags.flat(config.phase), **flags.flat(config.masking), 'seed': config.seed}
    own |= {'precision': config.devices.precision, 'max_length': config.max_length}
    own |= {'next_sentence': config.next_sentence}
    shape = {'pretrained': config.pretrained} if config.pretrained else flags.flat(config.shape)
    if config.distil.distil_from:
      shape = flags.flat(config.distil)
    start = digests.contents(config.pretrained, config.distil.distil_from)
    super().__init__(config.run_dir, [pieces], {**own, **shape, **start})
    self.config, self.pieces, self.strategy = config, pieces, strategy

  def run(self, folder: str) -> Trained:
    config, strategy = self.config, self.strategy
    tf_keras.utils.set_random_seed(config.seed)
    train, valid = (self.pieces.batches(config, name) for name in SETS)
    epoch = len(train.sequences) / config.phase.batch_size
    print(
      f'training: {len(train.sequences):,} sequences of up to {config.max_length} tokens, an epoch '
      f'is {epoch:,.0f} steps; {len(valid.sequences):,} held out'
    )
    with strategy.scope():
      model = self.model()
      losses = self._started(model)
    phase = loop.Phase(
      'pretraining',
      model,
      model.used_variables,
      losses,
      lambda start: train.training(start, config.phase.batch_size, strategy.num_replicas_in_sync),
      judge(model, valid, strategy),
      f'-{LOSS}',
    )
    jit_compile = config.devices.jit_compile
    return Trained(
      [loop.fit(phase, config.phase, folder, strategy=strategy, jit_compile=jit_compile)]
    )

  def _started(self, model: LanguageModel) -> Callable[[Batch], tf.Tensor]:
    """Starts a new model as the flags say; returns its losses."""
    config = self.config
    if teacher := config.distil.distil_from:
      return distilbert.Distillation(model, checkpoints.read(teacher), config.distil).losses
    if config.pretrained:
      checkpoint.restore(model, checkpoints.read(config.pretrained))
    return model.losses

  def encoder(self) -> EncoderConfig:
    """Architecture of the encoder."""
    if teacher := self.config.distil.distil_from:
      return distilbert.student_config(checkpoints.read(teacher).config)
    if self.config.pretrained:
      return checkpoints.read(self.config.pretrained).config
    size = len(self.pieces.vocabulary.tokenizer().vocabulary)
    return self.config.shape.encoder(size, self.config.max_length)

  def model(self) -> LanguageModel:
    """An untrained model."""
    pad_id = self.pieces.vocabulary.tokenizer().pad_id
    return LanguageModel(self.encoder(), pad_id, self.config.next_sentence)

  def trained(self) -> LanguageModel:
    """The model of the best evaluation, in float32."""
    with strategies.precision():
      model = self.model()
    restore_best(tf.train.Checkpoint(variables=model.variables), self.folder)
    return model


@dataclasses.dataclass(frozen=True)
class Written:
  """Metrics of the checkpoint as it was read back, on the held-out documents, and its parameters."""

  valid: dict[str, float]
  parameters: int


class Checkpoint(Stage):
  """The folder that `--pretrained` takes; it is read back before it counts."""

  name, result = 'checkpoint', Written

  def __init__(self, config: PretrainConfig, training: Training):
    super().__init__(config.run_dir, [training], {})
    self.config, self.training = config, training

  def run(self, folder: str) -> Written:
    config, pieces = self.config, self.training.pieces
    model = self.training.trained()
    start = config.pretrained or config.distil.distil_from
    before = checkpoint.segments(checkpoints.read(start)) if start else 1
    segments = 2 if config.next_sentence else before
    tokenizer = pieces.vocabulary.tokenizer()
    checkpoint.write(folder, model, self.training.encoder(), tokenizer, segments)
    found = checkpoints.read(folder)
    with strategies.precision():
      again = LanguageModel(found.config, tokenizer.pad_id, config.next_sentence)
    checkpoint.restore(again, found)
    valid = judge(again, pieces.batches(config, VALID), tf.distribute.get_strategy())()
    parameters = sum(int(np.prod(v.shape)) for v in again.encoder.trainable_variables)
    return Written(valid, parameters)


def judge(
  model: LanguageModel, batches: MaskedBatches, strategy: tf.distribute.Strategy
) -> Callable[[], dict[str, float]]:
  """A function to the model's metrics on all sequences, always with the same masks."""
  sums = tf.function(model.sums, autograph=False, reduce_retracing=True)

  def evaluate() -> dict[str, float]:
    parts = [part for _, part in strategies.map_batches(strategy, sums, batches.each(_BATCH))]
    return language_model.metrics(np.sum(parts, 0, dtype=np.float64))

  return evaluate


def check(config: PretrainConfig) -> None:
  """Refuses a checkpoint that does not fit, before the first stage."""
  found: Pretrained | None = None
  if start := config.pretrained or config.distil.distil_from:
    found = checkpoints.read(start)
    (checkpoint if config.pretrained else distilbert).check(found)
    checkpoints.check_length(found, '--max_length', config.max_length)
    own = found.config if config.pretrained else distilbert.student_config(found.config)
    config.shape.check_kept(own, start)
    if config.next_sentence and found.config.type_vocab_size < 2:
      raise InputError(f'--next_sentence takes two segments; {start} has one (type_vocab_size)')
  if kept := config.kept_vocabulary:
    found = found or checkpoints.read(kept)
    if vocabulary.MASK not in found.vocabulary:
      raise InputError(f'{kept}: its vocabulary has no {vocabulary.MASK}')
    if found.lower_case and not config.vocabulary.lower_case:
      raise InputError(f'--lower_case=False: the vocabulary of {kept} is lower-cased; leave it out')
