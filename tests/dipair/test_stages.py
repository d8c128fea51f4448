"""Two stages: once per text equals once per pair, cached equals live, XLA and Mirrored equal plain."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common.data.tuples import Tuples
from common.distillation.trainer import Trainer, Training, most_items
from common.modeling.losses import CrossEntropy, cross_entropy
from common.training import strategies
from common.training.optimization import PhaseConfig
from dipair import stages
from dipair.config import TrainConfig

PHASE = PhaseConfig(learning_rate=1e-2, batch_size=20, steps=3, warmup_steps=1, eval_every=1)
PHASES = TrainConfig(stage1=PHASE, stage2=dataclasses.replace(PHASE, learning_rate=1e-3))


def train(config, folder, distill, phases=PHASES, **devices):
  devices = strategies.DeviceConfig(**devices)
  strategy = strategies.create(devices)
  tf_keras.utils.set_random_seed(3)
  return stages.train(
    config,
    phases,
    str(folder),
    Training(distill, distill, 'regression', 1, devices, strategy, seed=1),
  )


def losses(histories):
  return [entry['loss'] for history in histories for entry in history['history'][1:]]


def trainer(model, tokenizer, distill, **devices):
  devices = strategies.DeviceConfig(**devices)
  strategy = tf.distribute.get_strategy()
  training = Training(distill, distill, 'regression', 1, devices, strategy, seed=1)
  return Trainer(model, tokenizer, training, CrossEntropy())


def first_batch(one):
  return next(iter(one.batches_by_item(PHASE, one.distill.tuples())))


@pytest.mark.parametrize('static', [False, True])
@pytest.mark.parametrize('shared', [False, True])
def test_encoding_each_text_once_gives_the_plain_forms_gradients(tiny, distill, shared, static):
  model, tokenizer = tiny(shared_encoder=shared)
  one = trainer(model, tokenizer, distill, jit_compile=static)
  by_item = first_batch(one)
  texts = [list(one.distill.items(slot).texts()) for slot in range(2)]

  def plain_loss():
    tokens = []
    for slot, items in enumerate(by_item['items'].numpy().T):
      own = [texts[slot][item] for item in items]
      ids = tokenizer.encode(own, model.config.max_lengths[slot]).to_tensor(tokenizer.pad_id)
      tokens.append(model.encode(ids, slot, training=True))
    return cross_entropy(by_item['soft_labels'], model.score_vectors(tokens, training=True))

  results = []
  for loss in (plain_loss, lambda: one.loss_of(by_item, frozen=False)):
    with tf.GradientTape() as tape:
      value = tf.reduce_mean(loss())
    gradients = tape.gradient(value, model.used_variables)
    results.append((value, [tf.convert_to_tensor(g) for g in gradients]))
  (plain, plain_gradients), (fast, fast_gradients) = results
  assert float(plain) == pytest.approx(float(fast), abs=1e-6)
  assert any(np.abs(g).max() > 1e-4 for g in plain_gradients)
  for expected, found in zip(plain_gradients, fast_gradients, strict=True):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_each_distinct_text_is_encoded_once(tiny, distill):
  batch = first_batch(trainer(*tiny(), distill))
  assert [sum(len(ids) for ids in slot) for slot in batch['ids']] == [5, 4]  # of 20 pairs


def test_the_most_items_that_a_static_batch_can_hold():
  items = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [3, 1]], np.int32)
  tuples = Tuples(items, groups=np.array([0, 2, 4, 6]))  # one, one and two lefts; two rights each
  assert most_items(tuples, 2) == [2, 2]
  assert most_items(tuples, 4) == [4, 4]
  assert most_items(tuples, 3) == [3, 3]  # may touch three groups
  aligned = Tuples(items[:4], groups=np.array([0, 2, 4]))
  assert most_items(aligned, 4) == [2, 4]


def test_stage_1_on_cached_tokens_equals_stage_1_on_live_ones(tiny, distill, tmp_path, monkeypatch):
  config, cached_batches, calls = tiny()[0].config, Trainer.cached_batches, []

  def spy(*arguments):
    calls.append(arguments)
    return cached_batches(*arguments)

  monkeypatch.setattr(Trainer, 'cached_batches', spy)
  only_first = dataclasses.replace(PHASES, stage2=dataclasses.replace(PHASE, steps=0))
  cached = train(config, tmp_path / 'a', distill, only_first)
  assert len(calls) == 1
  no_cache = dataclasses.replace(only_first, stage1_cache_gb=0.0)
  live = train(config, tmp_path / 'b', distill, no_cache)
  assert len(calls) == 1
  # One group is the whole set, so both forms see the same tuples in each step.
  np.testing.assert_allclose(losses(cached), losses(live), rtol=1e-4)
  assert not (tmp_path / 'a' / 'stage1' / 'cache').exists()


def at_the_last_step(model, folder):
  """Puts the weights that a phase ended with into its model, in place of its best."""
  latest = tf.train.latest_checkpoint(str(folder / 'checkpoints'))
  assert latest.endswith('-3')
  tf.train.Checkpoint(variables=model.variables).restore(latest).expect_partial()


@pytest.mark.parametrize('cache_gb', [0.0, 1.0], ids=['live', 'cached'])
def test_stage_1_leaves_the_encoders_and_stage_2_moves_them(tiny, distill, tmp_path, cache_gb):
  model, tokenizer = tiny()
  variables = [v for v in model.variables if 'pooler' not in v.name]  # which no logit depends on
  encoders = {v.ref() for v in model.encoders[0].variables}
  one = trainer(model, tokenizer, distill)
  phase = dataclasses.replace(PHASE, patience=0)

  def moved(stage, **options):
    """Whether each variable is another at the stage's end: (the encoders', all others)."""
    before = [v.numpy() for v in variables]
    one.fit(stage, phase, str(tmp_path / stage), **options)
    at_the_last_step(model, tmp_path / stage)
    found = [not np.array_equal(x, v.numpy()) for x, v in zip(before, variables, strict=True)]
    return [
      {other for other, v in zip(found, variables, strict=True) if (v.ref() in encoders) == own}
      for own in (True, False)
    ]

  assert moved('stage1', frozen=True, cache_gb=cache_gb) == [{False}, {True}]
  assert moved('stage2', frozen=False) == [{True}, {True}]


def test_the_train_steps_compile_under_xla_with_static_shapes(tiny, distill, tmp_path):
  config = tiny()[0].config
  plain = train(config, tmp_path / 'plain', distill)
  compiled = train(config, tmp_path / 'xla', distill, jit_compile=True)
  np.testing.assert_allclose(losses(compiled), losses(plain), rtol=1e-4)


_MIRRORED = """
import dataclasses, json, sys
import tensorflow as tf
cpu = tf.config.list_physical_devices('CPU')[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
sys.path.insert(0, sys.argv[1])
from test_stages import PHASES, losses, train
from conftest import tiny_config
from common.training import strategies
mirrored = strategies.create(strategies.DeviceConfig('mirrored'))
found = {'replicas': mirrored.num_replicas_in_sync}
for name in ('one_device', 'mirrored'):
  folder = f'{sys.argv[2]}/{name}'
  found[name] = losses(train(tiny_config(), folder, sys.argv[3], distribution_strategy=name))
print(json.dumps(found))
"""


def test_two_mirrored_devices_give_one_devices_loss_curve(distill, tmp_path, request):
  here = str(request.path.parent)
  command = [sys.executable, '-c', _MIRRORED, here, str(tmp_path), distill]
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  assert done.returncode == 0, done.stderr[-3000:]
  found = json.loads(done.stdout.splitlines()[-1])
  assert found['replicas'] == 2
  assert len(found['one_device']) == 6
  np.testing.assert_allclose(found['mirrored'], found['one_device'], rtol=1e-4)


def test_bfloat16_trains_nearly_alike(tiny, distill, tmp_path):
  config = tiny()[0].config
  last = dataclasses.replace(PHASES, stage1=dataclasses.replace(PHASE, steps=0))
  plain = losses(train(config, tmp_path / 'plain', distill, last))
  precision = {'precision': 'mixed_bfloat16'}
  try:
    found = losses(train(config, tmp_path / 'bfloat16', distill, last, **precision))
  finally:
    strategies.create(strategies.DeviceConfig())
  np.testing.assert_allclose(found, plain, rtol=0.05)
  assert found != plain


def test_a_batch_larger_than_the_distillation_set_is_refused(tiny, distill, tmp_path):
  large = dataclasses.replace(PHASES, stage1=dataclasses.replace(PHASE, batch_size=21))
  with pytest.raises(
    ValueError, match='stage 1: batch_size=21, and the distillation set has 20 tuples'
  ):
    train(tiny()[0].config, tmp_path, distill, large)
