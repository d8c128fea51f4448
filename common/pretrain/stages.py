"""The stages of a pretraining, in order, and the work of each."""

import dataclasses
import functools
import os
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras

from common import digests, files, flags
from common.data.tokenization import Tokenizer
from common.distillation.run_folder import RunFolder
from common.distillation.shared import Trained
from common.errors import InputError, damaged
from common.modeling import checkpoints
from common.modeling.checkpoints import Pretrained
from common.modeling.encoders import EncoderConfig
from common.pretrain import checkpoint, corpus, distilbert, language_model, vocabulary
from common.pretrain.batches import MaskedBatches
from common.pretrain.config import PretrainConfig
from common.pretrain.corpus import SETS, TRAIN, VALID, Counts
from common.pretrain.language_model import LOSS, LanguageModel
from common.pretrain.masking import Masking
from common.pretrain.sequences import NO_PAIRS, FullSentences, Pieces, SegmentPairs
from common.training import loop, strategies
from common.training.checkpoints import restore_best

_BATCH = 64  # held-out sequences at a time
_VOCABULARY = 'vocabulary.json'


@dataclasses.dataclass(frozen=True)
class Words:
  """Word pieces in a vocabulary."""

  pieces: int


@dataclasses.dataclass(frozen=True)
class Tokenized:
  """Word pieces of each set, and the share of them that the vocabulary does not know."""

  pieces: dict[str, int]
  unknown: float


@dataclasses.dataclass(frozen=True)
class Written:
  """Held-out metrics of the checkpoint as it was read back, and its parameters."""

  valid: dict[str, float]
  parameters: int


class Pretraining:
  """The stages of a pretraining, declared in a run.

  Args:
    config: The flags.
    strategy: Made from its devices.
    run: The run's folder.

  Raises:
    InputError: The checkpoint that it starts from does not fit.
  """

  def __init__(self, config: PretrainConfig, strategy: tf.distribute.Strategy, run: RunFolder):
    self.config, self.strategy = config, strategy
    self.start = starting_point(config)
    start = {
      'pretrained': config.pretrained,
      'distil_from': config.distil.distil_from,
      **digests.contents(config.start),
    }
    trained = {
      **start,
      **flags.flat(config.distil),
      **({} if config.start else flags.flat(config.shape)),
      **flags.flat(config.masking),
      **flags.flat(config.phase),
      'next_sentence': config.next_sentence,
      'max_length': config.max_length,
      'precision': config.devices.precision,
      'seed': config.seed,
    }
    words = start if config.start else flags.flat(config.vocabulary)
    self.corpus = run.stage(
      'corpus', Counts, self._write_corpus, config.corpus.depends_on(config.seed)
    )
    self.vocabulary = run.stage(
      'vocabulary', Words, self._write_vocabulary, words, after=[self.corpus]
    )
    self.pieces = run.stage(
      'pieces', Tokenized, self._write_pieces, {}, after=[self.corpus, self.vocabulary]
    )
    self.training = run.stage('training', Trained, self._train, trained, after=[self.pieces])
    self.checkpoint = run.stage(
      'checkpoint', Written, self._write_checkpoint, {}, after=[self.training]
    )

  def _write_corpus(self, folder: str) -> Counts:
    """Writes the documents that are trained on and those that are held out, each once."""
    config = self.config
    counts = corpus.write(
      lambda: corpus.documents(config.corpus, config.seed), config.corpus.held_out, folder
    )
    if config.next_sentence and not counts.pairs():
      raise InputError(NO_PAIRS)
    return counts

  def _write_vocabulary(self, folder: str) -> Words:
    """Learns the word pieces of the texts that are trained on, or takes the checkpoint's."""
    if self.start:
      print(f'vocabulary and casing are those of {self.config.start}; --vocab_size learns none')
      found, lower_case = self.start.vocabulary, self.start.lower_case
    else:
      config = self.config.vocabulary
      texts = (text for document in corpus.read_set(self.corpus.folder, TRAIN) for text in document)
      counts = vocabulary.count(texts, config.lower_case)
      print(f'vocabulary: of {len(counts):,} different words')
      found, lower_case = vocabulary.learn(counts, config.vocab_size), config.lower_case
    path = os.path.join(folder, _VOCABULARY)
    files.write_json(path, {'vocabulary': found, 'lower_case': lower_case})
    return Words(len(found))

  def _write_pieces(self, folder: str) -> Tokenized:
    """Writes the texts as word ids."""
    counts, unknown = {}, 0
    for name in SETS:
      documents = corpus.read_set(self.corpus.folder, name)
      pieces = Pieces.write(os.path.join(folder, name), documents, self.tokenizer)
      counts[name] = len(pieces.table.ids)
      unknown += int(np.count_nonzero(pieces.table.ids == self.tokenizer.unknown_id))
    return Tokenized(counts, unknown / max(1, sum(counts.values())))

  def _train(self, folder: str) -> Trained:
    """Trains the language model, judged on the held-out documents."""
    config, strategy = self.config, self.strategy
    tf_keras.utils.set_random_seed(config.seed)
    train, valid = (self._batches(name) for name in SETS)
    epoch = len(train.sequences) / config.phase.batch_size
    print(
      f'training: {len(train.sequences):,} sequences of up to {config.max_length} tokens, an epoch '
      f'is {epoch:,.0f} steps; {len(valid.sequences):,} held out'
    )
    with strategy.scope():
      model = self._model(self._encoder())
      losses = model.losses
      if self.start and config.distil.distil_from:
        losses = distilbert.Distillation(model, self.start, config.distil).losses
      elif self.start:
        checkpoint.restore(model, self.start)
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

  def _write_checkpoint(self, folder: str) -> Written:
    """Writes the folder that `--pretrained` takes, of the best evaluation; reads and judges it."""
    both = self.config.next_sentence or (self.start and checkpoint.tells_segments(self.start))
    with strategies.precision():  # float32
      model = self._model(self._encoder())
      restore_best(tf.train.Checkpoint(variables=model.variables), self.training.folder)
      checkpoint.write(folder, model, self.tokenizer, one_segment=not both)
      found = checkpoints.read(folder)
      again = self._model(found.config)
    checkpoint.restore(again, found)
    valid = judge(again, self._batches(VALID), tf.distribute.get_strategy())()
    parameters = sum(int(np.prod(v.shape)) for v in again.encoder.trainable_variables)
    return Written(valid, parameters)

  @functools.cached_property
  def tokenizer(self) -> Tokenizer:
    """Tokenizer of the vocabulary, once it is written."""
    folder = self.vocabulary.folder
    path, remedy = os.path.join(folder, _VOCABULARY), f'delete {folder} and run again'
    with damaged(path, remedy):
      return Tokenizer(**files.read_json(path, remedy))

  def _batches(self, name: str) -> MaskedBatches:
    """Masked batches of a set."""
    config = self.config
    pieces = Pieces.open(os.path.join(self.pieces.folder, name), self.tokenizer)
    kind = SegmentPairs if config.next_sentence else FullSentences
    mask = Masking(config.masking, self.tokenizer.vocabulary)
    bucketed = not config.devices.static_shapes
    return MaskedBatches(kind(pieces, config.max_length), mask, config.seed, bucketed)

  def _encoder(self) -> EncoderConfig:
    """Shape of the encoder."""
    if self.start:
      return _shape(self.config, self.start)
    return self.config.shape.encoder(len(self.tokenizer.vocabulary), self.config.max_length)

  def _model(self, encoder: EncoderConfig) -> LanguageModel:
    """An untrained model."""
    return LanguageModel(encoder, self.tokenizer.pad_id, self.config.next_sentence)


def judge(
  model: LanguageModel, batches: MaskedBatches, strategy: tf.distribute.Strategy
) -> Callable[[], dict[str, float]]:
  """A function to the model's metrics on all sequences, always with the same masks."""
  sums = tf.function(model.sums, autograph=False, reduce_retracing=True)

  def evaluate() -> dict[str, float]:
    parts = [part for _, part in strategies.map_batches(strategy, sums, batches.each(_BATCH))]
    return language_model.metrics(np.sum(parts, 0, dtype=np.float64))

  return evaluate


def starting_point(config: PretrainConfig) -> Pretrained | None:
  """The checkpoint that a pretraining starts from, which is refused if it does not fit.

  None where it starts from random weights.
  """
  if not (path := config.start):
    return None
  found = checkpoints.read(path)
  (distilbert if config.distil.distil_from else checkpoint).check(found)
  checkpoints.check_length(found, '--max_length', config.max_length)
  config.shape.check_kept(_shape(config, found), path)
  if config.next_sentence and found.config.type_vocab_size < 2:
    raise InputError(f'--next_sentence takes two segments; {path} has one (type_vocab_size)')
  if vocabulary.MASK not in found.vocabulary:
    raise InputError(f'{path}: its vocabulary has no {vocabulary.MASK}')
  if found.lower_case and not config.vocabulary.lower_case:
    raise InputError(f'--lower_case=False: the vocabulary of {path} is lower-cased; leave it out')
  return found


def _shape(config: PretrainConfig, start: Pretrained) -> EncoderConfig:
  """Shape of the encoder that starts from a checkpoint."""
  return distilbert.student_config(start.config) if config.distil.distil_from else start.config
