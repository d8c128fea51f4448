"""Eq. 2 by hand, and the two ways of training: end to end, and on frozen encoders."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common.data import records
from common.data.examples import Example
from common.training import strategies
from common.training.optimization import PhaseConfig
from dse import model as models
from dse import training
from dse.config import StudentConfig, TrainConfig

TINY = StudentConfig(
  pretrained='random-tiny', max_lengths=(16, 16), pooled_layers=2, similarity_dim=6, dropout=0.0
)
PHASE = PhaseConfig(learning_rate=1e-2, batch_size=8, steps=30, warmup_steps=2, eval_every=15)


@pytest.mark.parametrize(
  ('alpha', 'targets', 'logits', 'expected'),
  [
    (1.0, [[2.0, 0.25]], [[-1.0]], 9.0),
    (0.0, [[2.0, 0.25]], [[0.0]], 0.0625),
    (0.5, [[2.0, 0.25]], [[0.0]], 2.03125),
    (0.5, [[1.0, 3.0, 0.0, 1.0]], [[1.0, 1.0]], 0.5 * 4 + 0.5 * math.log(2)),
  ],
)
def test_equation_2_by_hand(alpha, targets, logits, expected):
  value = training.loss(alpha)(tf.constant(targets), tf.constant(logits))
  np.testing.assert_allclose(value, [expected], rtol=1e-6)


@pytest.fixture(name='distill')
def _distill(tmp_path):
  words = ['red', 'blue', 'green', 'black']
  examples = [
    Example(f'{a}-{b}', (a, b), float(a == b), (2.0, -2.0) if a != b else (-2.0, 2.0))
    for a in words
    for b in words
  ]
  records.write(str(tmp_path / 'distill'), examples, block=len(examples))
  return str(tmp_path / 'distill')


def train(folder, distill, **changes):
  devices = strategies.DeviceConfig()
  strategy = strategies.create(devices)
  tf_keras.utils.set_random_seed(3)
  (history,) = training.train(
    TINY,
    dataclasses.replace(TrainConfig(phase=PHASE), **changes),
    str(folder),
    outputs=2,
    strategy=strategy,
    distill=distill,
    valid=distill,
    task='multiclass',
    devices=devices,
    seed=1,
  )
  return [entry['loss'] for entry in history['history'][1:]]


def test_a_student_learns_and_its_folder_holds_it(distill, tmp_path):
  losses = train(tmp_path / 'student', distill)
  assert losses[-1] < losses[0]
  assert models.load(str(tmp_path / 'student'))[0].outputs == 2


def test_frozen_encoders_stay_and_cached_vectors_equal_live_ones(distill, tmp_path):
  whole = dataclasses.replace(PHASE, batch_size=16)  # every step sees all pairs, in any order
  cached = train(tmp_path / 'a', distill, frozen=True, phase=whole)
  live = train(tmp_path / 'b', distill, frozen=True, phase=whole, cache_gb=0.0)
  np.testing.assert_allclose(cached, live, rtol=1e-3)
  trained = models.load(str(tmp_path / 'a'))[0].encoders[0]
  tf_keras.utils.set_random_seed(3)
  fresh = models.from_pretrained(TINY, 2)[0].encoders[0]
  for found, expected in zip(trained.variables, fresh.variables, strict=True):
    np.testing.assert_array_equal(found, expected)
