"""Two stages: cached equals live, XLA and Mirrored equal plain."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common import flags
from common.distillation.trainer import Trainer, Training
from common.errors import InputError
from common.modeling.losses import CrossEntropy
from common.training import strategies
from common.training.optimization import PhaseConfig
from dipair import training
from dipair.config import TrainConfig

PHASE = PhaseConfig(learning_rate=1e-2, batch_size=20, steps=3, warmup_steps=1, eval_every=1)
PHASES = TrainConfig(stage1=PHASE, stage2=dataclasses.replace(PHASE, learning_rate=1e-3))


def train(config, folder, distill, phases=PHASES, **devices):
  devices = strategies.DeviceConfig(**devices)
  strategy = strategies.create(devices)
  tf_keras.utils.set_random_seed(3)
  return training.train(
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


def test_no_stage_is_no_student():
  none = dataclasses.replace(PHASE, steps=0)
  with pytest.raises(InputError, match='^--stage1_steps=0 and --stage2_steps=0 train nothing; one'):
    TrainConfig(stage1=none, stage2=none)


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
from test_training import PHASES, losses, train
from common import flags
from common.training import strategies
from dipair.config import StudentConfig
config = flags.build(StudentConfig, json.loads(sys.argv[4]))
mirrored = strategies.create(strategies.DeviceConfig('mirrored'))
found = {'replicas': mirrored.num_replicas_in_sync}
for name in ('one_device', 'mirrored'):
  folder = f'{sys.argv[2]}/{name}'
  found[name] = losses(train(config, folder, sys.argv[3], distribution_strategy=name))
print(json.dumps(found))
"""


def test_two_mirrored_devices_give_one_devices_loss_curve(tiny, distill, tmp_path, request, python):
  here, config = str(request.path.parent), json.dumps(flags.flat(tiny()[0].config))
  command = ['-c', _MIRRORED, here, str(tmp_path), distill, config]
  done = python(*command)
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
