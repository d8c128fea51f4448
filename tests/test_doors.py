"""Enters a source, metric, runtime, student, loss and stage where CONTRIBUTING.md says."""

import dataclasses
import os
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common import flags
from common.data.examples import Example
from common.data.records import RecordSet
from common.data.tokens import TokenizedTuples
from common.distillation import dataset, run
from common.distillation.config import ExperimentConfig
from common.distillation.dataset import DataConfig
from common.distillation.inference import TupleScorer
from common.distillation.run_folder import RunFolder
from common.distillation.sources.source import Source, UnlabelledSet, write_examples
from common.distillation.trainer import Trainer
from common.errors import InputError
from common.evaluation import metrics, tables
from common.evaluation.results import Results
from common.modeling import encoders
from common.modeling.head import Head
from common.modeling.student import Student
from common.scoring import runtimes
from common.scoring.scorer import PairScorer
from common.training import strategies
from common.training.optimization import PhaseConfig

COLOURS = ['red', 'blue', 'black', 'wide']
PHASE = PhaseConfig(learning_rate=1e-2, batch_size=8, steps=2, warmup_steps=0, eval_every=1)


class Colours(Source):
  """Every colour with every one; alike is 1. The unlabelled tuples bring logits."""

  named, brings_tuples, brings_logits = '--colours', True, True

  def labelled_inputs(self):
    return {'colours': COLOURS}

  def write_labelled(self, folder, seed):
    sets = {
      name: [Example('', (a + mark, b), float(a == b)) for a in COLOURS for b in COLOURS]
      for name, mark in (('train', ''), ('valid', '!'), ('test', '!'))
    }
    return write_examples(folder, sets, 2)

  def write_unlabelled(self, data, folder, seed, labels):
    rows = [Example('', (a, b), None, (4.0 * (a == b) - 2,)) for a in COLOURS for b in COLOURS]
    return UnlabelledSet(write_examples(folder, {'': iter(rows)}, 2)[''].count)


class Dot(Head):
  """The weighed inner product of two vectors, by their width."""

  def __init__(self, dim):
    super().__init__('dot')
    self.weights_ = self.add_weight('w', [dim], initializer='ones')

  def part(self, vectors, slot):
    return vectors * self.weights_ if slot else vectors

  def logits(self, parts, vectors=(), training=None):
    return tf.reduce_mean(parts[0] * parts[1], -1, keepdims=True)


class FirstWord(tf_keras.layers.Layer):
  def __init__(self, config, pad_id):
    super().__init__()
    self.encoder = encoders.build(config, pad_id, 2)

  def call(self, ids, training=None):
    return tf.cast(self.encoder(ids, training=training).tokens[:, 1], tf.float32)


@dataclasses.dataclass(frozen=True)
class ToyConfig:
  pretrained: str = flags.option('random-tiny', 'checkpoint')
  encoder_layers: int = flags.option(1, 'layers')
  max_lengths: tuple[int, ...] = flags.option((8, 8), 'tokens')
  dropout: float = flags.option(0.0, 'rate')


class Toy(Student):
  kind, config_class = 'toy', ToyConfig

  def __init__(self, config, encoder, outputs, pad_id):
    super().__init__(config, encoder, outputs, pad_id)
    self.encoders = [FirstWord(encoder, pad_id)]
    self.make_head(Dot(encoder.hidden_size))

  def feature_shape(self, slot):
    return (self.encoder_config.hidden_size,)

  def features(self, ids, slot, training=None):
    return self.encoder(slot)(ids, training=training)


class SquaredError:
  """Of the teacher's logits."""

  needs: ClassVar = ('teacher_logits',)

  def __call__(self, tuples, logits):
    return tf.reduce_sum((tuples['teacher_logits'] - logits) ** 2, 1)


class ToyStudent:
  """What `toy/run.py` would bring to an experiment."""

  name, title, scorer = 'toy', 'Toy', PairScorer
  depends_on: ClassVar = {}
  losses = (SquaredError(),)
  batch_sizes: ClassVar = {'batch_size': PHASE.batch_size}

  def check(self):
    Toy.read_pretrained(ToyConfig())

  def train(self, folder, training):
    with training.strategy.scope():
      model, tokenizer = Toy.from_pretrained(ToyConfig(), training.task.outputs)
    trainer = Trainer(model, tokenizer, training, SquaredError())
    history = trainer.fit('toy', PHASE, os.path.join(folder, 'phase'), frozen=False)
    model.save(folder, tokenizer)
    return [history]

  def models(self, folder):
    return {'student': Toy.load(folder)}


@dataclasses.dataclass(frozen=True)
class Weight:
  bytes: int


class Halved:
  """A runtime, of half the scores."""

  def __init__(self, export, threads):
    self.head = export.head

  def inputs(self, signature):
    return self.head.signatures[signature].structured_input_signature[1]

  def run(self, signature, inputs):
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    found = self.head.signatures[signature](**tensors)
    return {name: value.numpy() / 2 for name, value in found.items()}


@pytest.fixture(name='made', scope='module')
def _made(tmp_path_factory):
  """The stages of a run of toys by name, one of them new, without the benchmark."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(dataset, 'SOURCES', [lambda data: Colours(), *dataset.SOURCES])
    wrong = metrics.Metric(lambda labels, logits: float(np.mean((labels > 0.5) != (logits > 0))))
    patch.setitem(metrics.METRICS, 'regression', {**metrics.METRICS['regression'], 'error': wrong})
    plain = runtimes.RUNTIMES['tensorflow']
    patch.setitem(runtimes.RUNTIMES, 'halved', plain._replace(head=Halved))
    run_dir = str(tmp_path_factory.mktemp('toys') / 'run')
    config = ExperimentConfig(run_dir=run_dir, devices=strategies.DeviceConfig())
    strategy = strategies.create(config.devices)
    folder = RunFolder(config.run_dir, config, 'toy.run', redo=False)
    export = run.declare(folder, config, ToyStudent(), strategy).export
    folder.stages.pop()

    def weigh(to):
      return Weight(os.path.getsize(os.path.join(export.folder, 'encoder/1/saved_model.pb')))

    folder.stage('weigh', Weight, weigh, {}, after=[export])
    folder.make()
    yield {stage.name: stage for stage in folder.stages}


def test_a_source_enters_by_its_list(made):
  assert made['data'].result.counts == {'train': 16, 'valid': 16, 'test': 16}
  records = RecordSet(os.path.join(made['data'].folder, 'train'))
  assert records.texts()[:2] == [('red', 'red'), ('red', 'blue')]
  assert 'teacher' not in made and made['distill'].result.count == 16
  assert RecordSet(made['distill'].folder).tuples().teacher_logits[:2].tolist() == [[2], [-2]]
  with pytest.raises(InputError, match='--colours or files of your own, not both'):
    DataConfig(files=dataclasses.replace(DataConfig().files, valid_file='v.tsv'))


def test_a_student_and_its_loss_train_and_export(made):
  (history,) = made['student'].result.phases
  folder = made['student'].folder
  model, tokenizer = Toy.load(folder)
  last = tf.train.latest_checkpoint(os.path.join(folder, 'phase', 'checkpoints'))
  assert history['history'][-1]['step'] == 2 and last.endswith('-2')
  tf.train.Checkpoint(variables=model.variables).restore(last).expect_partial()
  assert (model.head.weights_.numpy() != 1).all()
  model, _ = Toy.load(folder)  # the best, which may be the first
  pairs = [(a, b) for a in COLOURS for b in COLOURS]
  live = TupleScorer(model, tokenizer, tf.distribute.get_strategy())
  logits = live.logits(TokenizedTuples.of_texts(pairs, tokenizer))[:, 0]
  scorer = PairScorer.load(made['export'].folder)
  scores = scorer.score(*map(list, zip(*pairs, strict=True)))
  np.testing.assert_allclose(scores, 1 / (1 + np.exp(-logits)), atol=1e-5)
  assert np.ptp(scores) > 1e-4


def test_a_metric_enters_by_its_list(made):
  for model in made['evaluation'].result.models:
    assert list(model['valid']) == ['pearson', 'spearman', 'log_loss', 'error']
    assert 0 <= model['valid']['error'] <= 1


def test_a_runtime_enters_by_its_list(made):
  folder = made['export'].folder
  plain, halved = (PairScorer.load(folder, name) for name in ('tensorflow', 'halved'))
  texts = COLOURS, COLOURS[::-1]
  np.testing.assert_allclose(halved.score(*texts), plain.score(*texts) / 2, atol=1e-6)
  with pytest.raises(InputError, match="threads=2 has no effect on runtime='halved' with "):
    PairScorer.load(folder, 'halved', threads=2)


def test_a_stage_stands_in_the_run_folder_and_its_result_in_the_report(made):
  found, models = made['weigh'].result, made['evaluation'].result.models
  assert found.bytes > 1000
  results = Results('Toys', 'toy', 'regression', 'pearson', models, sections={'weigh': found})
  ((name, _),) = tables.tables(results)['Weigh'].rows
  assert name == 'Bytes' and results.as_json()['weigh'] == {'bytes': found.bytes}
  assert os.path.exists(os.path.join(made['weigh'].folder, 'stage.json'))
  assert made['weigh'].description['after'] == {'export': made['export'].fingerprint}
