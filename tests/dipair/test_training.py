"""Two stages: cached equals live, XLA and Mirrored equal plain."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common import flags
from common.data.task import Task
from common.distillation.trainer import Trainer, Training
from common.errors import InputError
from common.modeling.losses import CrossEntropy
from common.training import strategies
from dipair import training
from dipair.config import TrainConfig
from dipair.student import DiPair
from tests.conftest import write_distill
from tests.dipair.two_stages import PHASE, losses, train


@pytest.fixture(name='small', scope='module')
def _small(tiny):
  """Config of a student of few layers, which trains sooner."""
  return tiny(encoder_layers=1, head_layers=1)[0].config


@pytest.fixture(name='trained', scope='module')
def _trained(small, tmp_path_factory):
  """Folder of a set `distill`, a `student` trained on it in two stages, and its `losses`."""
  folder = tmp_path_factory.mktemp('trained')
  made = train(small, folder / 'student', write_distill(f'{folder}/distill'))
  (folder / 'losses').write_text(json.dumps(losses(made)))
  return folder


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


def moved(student, start, stage):
  """Whether each variable is another than at the start: (the encoders', all others).

  The student gets the weights of its stage's last step, in place of its best.
  """
  latest = tf.train.latest_checkpoint(str(stage / 'checkpoints'))
  assert latest.endswith('-3')
  tf.train.Checkpoint(variables=student.variables).restore(latest).expect_partial()
  encoders, found = {v.ref() for v in student.encoders[0].variables}, ([], [])
  for own, before in zip(student.variables, start.variables, strict=True):
    if 'pooler' not in own.name:  # which no logit depends on
      found[own.ref() not in encoders].append(not np.array_equal(own, before))
  return [set(of) for of in found]


def test_stage_1_moves_no_encoder_and_on_cached_tokens_equals_itself_on_live_ones(
  small, distill, tmp_path, monkeypatch
):
  cached_batches, calls = Trainer.cached_batches, []

  def spy(*arguments):
    calls.append(arguments)
    return cached_batches(*arguments)

  monkeypatch.setattr(Trainer, 'cached_batches', spy)
  whole, none = (
    dataclasses.replace(PHASE, patience=0, **changes) for changes in ({}, {'steps': 0})
  )
  only_first = TrainConfig(head_start='random', stage1=whole, stage2=none)
  cached = train(small, tmp_path / 'a', distill, only_first)
  assert len(calls) == 1
  no_cache = dataclasses.replace(only_first, stage1_cache_gb=0.0)
  live = train(small, tmp_path / 'b', distill, no_cache)
  assert len(calls) == 1
  # One group is the whole set, so both forms see the same tuples in each step.
  np.testing.assert_allclose(losses(cached), losses(live), rtol=1e-4)
  assert not (tmp_path / 'a' / 'stage1' / 'cache').exists()
  tf_keras.utils.set_random_seed(3)  # as `train` does
  start = DiPair.from_pretrained(small, 1)[0]
  for folder in (tmp_path / 'a', tmp_path / 'b'):
    assert moved(DiPair.load(str(folder))[0], start, folder / 'stage1') == [{False}, {True}]


def test_stage_2_moves_all(trained):
  student, start = (DiPair.load(str(trained / 'student'))[0] for _ in range(2))
  training.restore(str(trained / 'student' / 'stage1'), start)
  assert moved(student, start, trained / 'student' / 'stage2') == [{True}, {True}]


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


def test_the_train_steps_compile_under_xla_with_static_shapes(small, trained, tmp_path):
  distill = str(trained / 'distill')
  compiled = train(small, tmp_path / 'xla', distill, jit_compile=True)
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


def test_two_mirrored_devices_give_one_devices_loss_curve(small, trained, tmp_path, python):
  config = json.dumps(flags.flat(small))
  done = python('-c', _MIRRORED, str(tmp_path), str(trained / 'distill'), config)
  assert done.returncode == 0, done.stderr[-3000:]
  replicas, found = json.loads(done.stdout.splitlines()[-1])
  assert replicas == 2
  assert len(found) == 6
  expected = json.loads((trained / 'losses').read_text())
  np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_bfloat16_trains_nearly_alike(small, trained, tmp_path):
  expected = json.loads((trained / 'losses').read_text())
  try:
    found = losses(train(small, tmp_path, str(trained / 'distill'), precision='mixed_bfloat16'))
  finally:
    strategies.create(strategies.DeviceConfig())
  np.testing.assert_allclose(found, expected, rtol=0.05)
  assert found[:3] != expected[:3] and found[3:] != expected[3:]
