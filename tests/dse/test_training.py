"""The two ways of training: end to end, and on frozen encoders."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common.data import record_writer
from common.data.examples import Example
from common.data.records import RecordSet
from common.data.task import Task
from common.distillation.trainer import Trainer, Training
from common.modeling.losses import LossConfig
from common.training import strategies
from common.training.optimization import PhaseConfig
from dse import training
from dse.config import TrainConfig
from dse.student import DSE

PHASE = PhaseConfig(learning_rate=1e-2, batch_size=8, steps=30, warmup_steps=2, eval_every=15)


@pytest.fixture(name='distill')
def _distill(tmp_path):
  words = ['red', 'blue', 'green', 'black']
  examples = [
    Example(f'{a}-{b}', (a, b), float(a == b), (2.0, -2.0) if a != b else (-2.0, 2.0))
    for a in words
    for b in words
  ]
  groups = record_writer.of_examples(examples, len(examples))
  record_writer.write_sets(str(tmp_path / 'distill'), {'': groups}, 2)
  return str(tmp_path / 'distill')


@pytest.fixture(name='small')
def _small(tiny):
  """Config of a student of few layers, which trains sooner."""
  return tiny(encoder_layers=1, pooled_layers=1)[0].config


def train(config, folder, distill, valid='', **changes):
  devices = strategies.DeviceConfig()
  strategy = strategies.create(devices)
  histories = training.train(
    config,
    TrainConfig(**{'phase': PHASE, 'frozen_phase': PHASE, **changes}),
    str(folder),
    Training(distill, valid or distill, Task('multiclass', ('a', 'b')), devices, strategy, seed=1),
  )
  return [[entry['loss'] for entry in history['history'][1:]] for history in histories]


def test_each_variant_learns_alone_and_the_teachers_reads_no_label(small, distill, tmp_path):
  both = train(small, tmp_path / 'both', distill, variants=('labels', 'teacher'))
  assert all(losses[-1] < losses[0] for losses in both)
  for folder in ('both', 'both/teacher'):
    assert DSE.load(str(tmp_path / folder))[0].outputs == 2
  groups = [dataclasses.replace(group, label=None) for group in RecordSet(distill).groups()]
  unlabelled = str(tmp_path / 'unlabelled')
  record_writer.write(unlabelled, groups, record_writer.tables_from(RecordSet(distill), unlabelled))
  teacher = LossConfig('squared_error', alpha=1.0)
  (alone,) = train(small, tmp_path / 'alone', unlabelled, valid=distill, objective=teacher)
  np.testing.assert_allclose(alone, both[1], rtol=1e-3)


def test_frozen_encoders_stay_and_cached_vectors_equal_live_ones(
  small, distill, tmp_path, monkeypatch
):
  cached_batches, calls = Trainer.cached_batches, []

  def spy(*arguments):
    calls.append(arguments)
    return cached_batches(*arguments)

  monkeypatch.setattr(Trainer, 'cached_batches', spy)
  whole = dataclasses.replace(PHASE, batch_size=16)  # every step sees all pairs, in any order
  frozen = {'variants': ('frozen',), 'frozen_phase': whole}
  cached = train(small, tmp_path / 'a', distill, **frozen)
  assert len(calls) == 1
  live = train(small, tmp_path / 'b', distill, **frozen, cache_gb=0.0)
  assert len(calls) == 1
  np.testing.assert_allclose(cached, live, rtol=1e-3)
  tf_keras.utils.set_random_seed(1)
  fresh = DSE.from_pretrained(small, 2)[0]
  for name in ('a', 'b'):
    trained = DSE.load(str(tmp_path / name))[0]
    latest = tf.train.latest_checkpoint(str(tmp_path / name / 'phase' / 'checkpoints'))
    assert latest.endswith('-30')  # the weights of the last step, whatever was the best
    tf.train.Checkpoint(variables=trained.variables).restore(latest).expect_partial()
    for found, expected in zip(trained.new_variables, fresh.new_variables, strict=True):
      assert not np.array_equal(found, expected)
    encoders = trained.encoders[0].variables, fresh.encoders[0].variables
    for found, expected in zip(*encoders, strict=True):
      np.testing.assert_array_equal(found, expected)


def test_a_cosine_starts_where_random_pairs_have_a_logit_of_zero(tiny, distill, tmp_path):
  config = tiny(similarity='cosine')[0].config
  one = dataclasses.replace(PHASE, steps=1, warmup_steps=0, eval_every=1)
  train(config, tmp_path / 'a', distill, variants=('frozen',), frozen_phase=one)
  model, tokenizer = DSE.load(str(tmp_path / 'a'))
  texts = list(RecordSet(distill).items(0).texts())
  vectors = model.features(tokenizer.encode(texts, 16).to_tensor(tokenizer.pad_id), 0)
  left, right = (tf.repeat(vectors, 4, 0), tf.tile(vectors, [4, 1]))
  assert abs(np.mean(model([left, right]))) < 0.5 and np.abs(model.head.scale - 5.0).min() > 0.5


def test_a_bilstms_vectors_are_the_live_ones_in_every_runtime(export, load):
  made = export('dse', pretrained='bilstm:random-tiny', pooled_layers=1, max_lengths=(8, 8))
  texts = ['red', '', 'black nike shoes for boys']
  ids = made.tokenizer.encode(tf.constant(texts), 8)
  alone = [made.model.encode(ids[i : i + 1].to_tensor(), 0)[0] for i in range(len(texts))]
  for runtime, tolerance in (('tensorflow', 1e-5), ('litert', 1e-5), ('litert-int8', 0.1)):
    found = load(made.folder, encoder_runtime=runtime).encode(texts, 'left')
    np.testing.assert_allclose(found, alone, atol=tolerance)
