"""Two stages: cached equals live, XLA and Mirrored equal plain."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from common import flags
from common.data.task import Task
from common.distillation.trainer import Trainer, Training
from common.errors import InputError
from common.modeling.losses import CrossEntropy
from common.training import strategies
from dipair import training
from dipair.config import TrainConfig
from tests.dipair.two_stages import PHASE, PHASES, losses, train


def trainer(model, tokenizer, distill, **devices):
  devices = strategies.DeviceConfig(**devices)
  strategy = tf.distribute.get_strategy()
  of_set = Training(distill, distill, Task(), devices, strategy, seed=1)
  return Trainer(model, tokenizer, of_set, CrossEntropy())


def test_no_stage_is_no_student():
  none = dataclasses.replace(PHASE, steps=0)
  with pytest.raises(
    InputError, match='^--stage1_steps=0 and --stage2_steps=0 train nothing; set one'
  ):
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


@pytest.mark.parametrize('head', ['transformer', 'max_sim'])
def test_a_random_start_leaves_the_weights_and_a_tailored_one_does_not(tiny, distill, head):
  model, tokenizer = tiny(head=head)
  new, one = model.new_variables, trainer(model, tokenizer, distill)
  drawn = [v.numpy() for v in new]
  training.start(model, one, 'random')
  assert all(np.array_equal(v, before) for v, before in zip(new, drawn, strict=True))
  training.start(model, one)
  moved = {v.ref() for v, old in zip(new, drawn, strict=True) if not np.array_equal(v, old)}
  for layer in (*model.projections, model.head):
    assert moved & {v.ref() for v in layer.variables}


def at_the_last_step(model, folder):
  """Puts the weights that a phase ended with into its model, in place of its best."""
  latest = tf.train.latest_checkpoint(str(folder / 'checkpoints'))
  assert latest.endswith('-3')
  tf.train.Checkpoint(variables=model.variables).restore(latest).expect_partial()


def test_stage_1_leaves_the_encoders_and_stage_2_moves_them(tiny, distill, tmp_path):
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

  assert moved('live', frozen=True, cache_gb=0.0) == [{False}, {True}]
  assert moved('cached', frozen=True, cache_gb=1.0) == [{False}, {True}]
  assert moved('stage2', frozen=False) == [{True}, {True}]


def test_the_train_steps_compile_under_xla_with_static_shapes(tiny, trained, tmp_path):
  config, distill = tiny()[0].config, str(trained / 'distill')
  compiled = train(config, tmp_path / 'xla', distill, jit_compile=True)
  expected = json.loads((trained / 'losses').read_text())
  np.testing.assert_allclose(losses(compiled), expected, rtol=1e-4)


_MIRRORED = """
import json, sys
import tensorflow as tf
cpu = tf.config.list_physical_devices('CPU')[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tests.dipair.two_stages import losses, train
from common import flags
from common.training import strategies
from dipair.config import StudentConfig
config = flags.build(StudentConfig, json.loads(sys.argv[3]))
replicas = strategies.create(strategies.DeviceConfig('mirrored')).num_replicas_in_sync
found = losses(train(config, sys.argv[1], sys.argv[2], distribution_strategy='mirrored'))
print(json.dumps([replicas, found]))
"""


def test_two_mirrored_devices_give_one_devices_loss_curve(tiny, trained, tmp_path, python):
  config = json.dumps(flags.flat(tiny()[0].config))
  done = python('-c', _MIRRORED, str(tmp_path), str(trained / 'distill'), config)
  assert done.returncode == 0, done.stderr[-3000:]
  replicas, found = json.loads(done.stdout.splitlines()[-1])
  assert replicas == 2
  assert len(found) == 6
  expected = json.loads((trained / 'losses').read_text())
  np.testing.assert_allclose(found, expected, rtol=1e-4)


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
