"""The whole story of a pretraining.

Corpus, vocabulary, word pieces, training, checkpoint, report.
"""

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras

from common import digests, files, flags
from common.data.tokenization import Tokenizer
from common.data.tokens import TokenTable
from common.distillation import provenance
from common.distillation.run_folder import RunFolder, Stage
from common.distillation.trainer import Trained
from common.errors import InputError, damaged
from common.evaluation import cells, report
from common.evaluation.results import Results
from common.modeling import checkpoints
from common.modeling.bert_network import EncoderConfig
from common.modeling.checkpoints import Pretrained
from common.pretrain import checkpoint, corpus, distilbert, language_model, vocabulary
from common.pretrain.batches import MaskedBatches
from common.pretrain.config import PretrainConfig
from common.pretrain.corpus import SETS, TRAIN, VALID, Counts
from common.pretrain.language_model import LOSS, LanguageModel
from common.pretrain.masking import Masking
from common.pretrain.sequences import NO_PAIRS, FullSentences, SegmentPairs, tokenized
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


class Stages(NamedTuple):
  """Stages of a pretraining, in order."""

  corpus: Stage[Counts]
  vocabulary: Stage[Words]
  pieces: Stage[Tokenized]
  training: Stage[Trained]
  checkpoint: Stage[Written]


def run(config: PretrainConfig) -> None:
  """Runs what is missing of a pretraining and writes its results and report."""
  if not config.run_dir:
    raise InputError('--run_dir is needed: the folder of the run')
  config = dataclasses.replace(config, devices=config.devices.settled())
  strategy = strategies.create(config.devices)  # before anything else runs on the devices
  folder = RunFolder(config.run_dir, config, 'common.pretrain', config.redo)
  stages = declare(folder, config, strategy)
  folder.make()
  results = _results(config, stages)
  report.write_report(results, {}, folder.file('report.html'))
  files.write_json(folder.file('results.json'), results.as_json())
  print(report.summary_table(results))
  valid = stages.checkpoint.result.valid
  print('held out:', ', '.join(f'{cells.label(name)} {value:.4f}' for name, value in valid.items()))
  print(f'report: {folder.file("report.html")}')
  print(f'--pretrained={stages.checkpoint.folder} takes it')


def declare(folder: RunFolder, config: PretrainConfig, strategy: tf.distribute.Strategy) -> Stages:
  """Declares the stages of a pretraining, in order; `folder.make` makes them.

  Raises:
    InputError: The checkpoint that it starts from does not fit.
  """
  start = starting_point(config)
  of_start = {
    'pretrained': config.pretrained,
    'distil_from': config.distil_from,
    **digests.contents(config.start),
  }

  def write_corpus(to: str) -> Counts:
    read = functools.partial(corpus.documents, config.corpus, config.seed)
    counts = corpus.write(read, config.corpus.held_out, to)
    if config.next_sentence and not counts.pairs():
      raise InputError(NO_PAIRS)
    return counts

  documents = folder.stage('corpus', Counts, write_corpus, config.corpus.depends_on(config.seed))

  def write_vocabulary(to: str) -> Words:
    if start:
      print(f'vocabulary and casing are those of {config.start}; --vocab_size learns none')
      found, lower_case = start.vocabulary, start.lower_case
    else:
      texts = itertools.chain.from_iterable(corpus.read_set(documents.folder, TRAIN))
      counts = vocabulary.count(texts, config.vocabulary.lower_case)
      print(f'vocabulary: of {len(counts):,} different words')
      found = vocabulary.learn(counts, config.vocabulary.vocab_size)
      lower_case = config.vocabulary.lower_case
    path = os.path.join(to, _VOCABULARY)
    files.write_json(path, {'vocabulary': found, 'lower_case': lower_case})
    return Words(len(found))

  depends_on = of_start if config.start else flags.flat(config.vocabulary)
  words = folder.stage('vocabulary', Words, write_vocabulary, depends_on, after=[documents])

  @functools.cache
  def tokenizer() -> Tokenizer:
    path = os.path.join(words.folder, _VOCABULARY)
    remedy = f'delete {words.folder} and run again'
    with damaged(path, remedy):
      return Tokenizer(**files.read_json(path, remedy))

  def write_pieces(to: str) -> Tokenized:
    counts, unknown = {}, 0
    for name in SETS:
      of = corpus.read_set(documents.folder, name)
      ids = tokenized(os.path.join(to, name), of, tokenizer()).ids
      counts[name] = len(ids)
      unknown += int(np.count_nonzero(ids == tokenizer().unknown_id))
    return Tokenized(counts, unknown / max(1, sum(counts.values())))

  depends_on = {'documents': 'end with an empty text'}
  pieces = folder.stage('pieces', Tokenized, write_pieces, depends_on, after=[documents, words])

  def batches(name: str) -> MaskedBatches:
    of = TokenTable.open(os.path.join(pieces.folder, name), tokenizer())
    kind = SegmentPairs if config.next_sentence else FullSentences
    mask = Masking(config.masking, tokenizer().vocabulary)
    bucketed = not config.devices.static_shapes
    return MaskedBatches(kind(of, config.max_length), mask, config.seed, bucketed)

  def untrained() -> LanguageModel:
    if start:
      encoder = _encoder(config, start)
    else:
      encoder = config.shape.encoder(len(tokenizer().vocabulary), config.max_length)
    return LanguageModel(encoder, tokenizer().pad_id, config.next_sentence)

  def train(to: str) -> Trained:
    tf_keras.utils.set_random_seed(config.seed)
    of_training, held_out = (batches(name) for name in SETS)
    epoch = len(of_training.sequences) / config.phase.batch_size
    print(
      f'training: {len(of_training.sequences):,} sequences of up to {config.max_length} tokens, an '
      f'epoch is {epoch:,.0f} steps; {len(held_out.sequences):,} held out'
    )
    with strategy.scope():
      model = untrained()
      losses = model.losses
      if start and config.distil_from:
        losses = distilbert.Distillation(model, start).losses
      elif start:
        checkpoint.restore(model, start)
    replicas = strategy.num_replicas_in_sync
    phase = loop.Phase(
      'pretraining',
      model,
      model.used_variables,
      losses,
      lambda step: of_training.training(step, config.phase.batch_size, replicas),
      _judge(model, held_out, strategy),
      f'-{LOSS}',
    )
    jit_compile = config.devices.jit_compile
    return Trained([loop.fit(phase, config.phase, to, strategy=strategy, jit_compile=jit_compile)])

  depends_on = {
    **of_start,
    **({} if config.start else flags.flat(config.shape)),
    **flags.flat(config.masking),
    **flags.flat(config.phase),
    'next_sentence': config.next_sentence,
    'max_length': config.max_length,
    'precision': config.devices.precision,
    'seed': config.seed,
  }
  trained = folder.stage('training', Trained, train, depends_on, after=[pieces])

  def write_checkpoint(to: str) -> Written:
    both_segments = config.next_sentence or (start and checkpoint.tells_segments(start))
    with strategies.precision():  # float32
      best = untrained()
      restore_best(tf.train.Checkpoint(variables=best.variables), trained.folder)
      checkpoint.write(to, best, tokenizer(), one_segment=not both_segments)
      found = checkpoints.read(to)
      again = LanguageModel(found.config, tokenizer().pad_id, config.next_sentence)
    checkpoint.restore(again, found)
    valid = _judge(again, batches(VALID), tf.distribute.get_strategy())()
    parameters = sum(int(np.prod(v.shape)) for v in again.encoder.trainable_variables)
    return Written(valid, parameters)

  written = folder.stage('checkpoint', Written, write_checkpoint, {}, after=[trained])
  return Stages(documents, words, pieces, trained, written)


def starting_point(config: PretrainConfig) -> Pretrained | None:
  """The checkpoint that a pretraining starts from, which is refused if it does not fit.

  None where it starts from random weights.
  """
  if not (path := config.start):
    return None
  found = checkpoints.read(path)
  (distilbert if config.distil_from else checkpoint).check(found)
  checkpoints.check_length(found, '--max_length', config.max_length)
  config.shape.check_kept(_encoder(config, found), path)
  if config.next_sentence and found.config.type_vocab_size < 2:
    raise InputError(f'--next_sentence takes two segments; {path} has one (type_vocab_size)')
  if vocabulary.MASK not in found.vocabulary:
    raise InputError(f'{path}: its vocabulary has no {vocabulary.MASK}')
  if found.lower_case and not config.vocabulary.lower_case:
    raise InputError(f'--lower_case=False: the vocabulary of {path} is lower-cased; leave it out')
  return found


def _encoder(config: PretrainConfig, start: Pretrained) -> EncoderConfig:
  """Shape of the encoder that starts from a checkpoint."""
  return distilbert.student_config(start.config) if config.distil_from else start.config


def _judge(
  model: LanguageModel, batches: MaskedBatches, strategy: tf.distribute.Strategy
) -> Callable[[], dict[str, float]]:
  """A function to the model's metrics on all sequences, always with the same masks."""
  sums = tf.function(model.sums, autograph=False, reduce_retracing=True)

  def evaluate() -> dict[str, float]:
    parts = [part for _, part in strategies.map_batches(strategy, sums, batches.each(_BATCH))]
    return language_model.metrics(np.sum(parts, 0, dtype=np.float64))

  return evaluate


def _results(config: PretrainConfig, stages: Stages) -> Results:
  """Results of the finished stages."""
  texts, pieces = stages.corpus.result, stages.pieces.result
  phases, written = stages.training.result.counted('sequences'), stages.checkpoint.result
  start = phases[0]['history'][0]['valid']
  return Results(
    title=f'BERT on {config.title or os.path.basename(os.path.normpath(config.run_dir))}',
    student='bert',
    task='masked language model',
    primary_metric=LOSS,
    models=[{'name': 'start', 'valid': start}, {'name': 'checkpoint', 'valid': written.valid}],
    commit=provenance.commit(),
    command=flags.command_line('common.pretrain', flags.changed(config)),
    flags=flags.kept(config),
    training=phases,
    sections={
      'corpus': {
        'documents': texts.documents,
        'repeated documents': texts.repeated,
        'held out': texts.held_out,
        'passages': texts.passages,
        'word pieces': pieces.pieces,
        'share of unknown pieces': pieces.unknown,
        'vocabulary': stages.vocabulary.result.pieces,
      },
      'export': {'parameters': written.parameters},
      'environment': provenance.environment(),
    },
  )
