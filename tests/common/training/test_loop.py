"""Resumption, patience and the best checkpoint, on a two-weight model."""

import dataclasses
import functools
import itertools
import json
import os
import signal
import types

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common import termination
from common.errors import InputError
from common.training import checkpoints, loop, strategies
from common.training.optimization import PhaseConfig

PHASE = PhaseConfig(learning_rate=0.1, batch_size=4, steps=12, warmup_steps=2, eval_every=4)


class Line(tf_keras.layers.Layer):
  """A dense layer behind dropout."""

  def __init__(self):
    super().__init__()
    self.dropout = tf_keras.layers.Dropout(0.5)
    self.dense = tf_keras.layers.Dense(1)
    self(tf.zeros([1, 3]))

  def call(self, x, training=None):
    return self.dense(self.dropout(x, training=training))


def batches(start=0):
  rng = np.random.default_rng(0)
  x = rng.normal(size=[64, 3]).astype(np.float32)
  data = {'x': x, 'y': x.sum(1, keepdims=True)}
  return tf.data.Dataset.from_tensor_slices(data).shuffle(64, seed=1).repeat().batch(4).skip(start)


def task(evaluate=None, batches=batches):
  strategies.create(strategies.DeviceConfig())
  tf_keras.utils.set_random_seed(5)
  model = Line()

  def loss(batch):
    return tf.reduce_sum((model(batch['x'], training=True) - batch['y']) ** 2, -1)

  def distance():
    return {'goodness': -float(tf.reduce_sum((model.dense.kernel - 1) ** 2))}

  return loop.Phase(
    'line', model, model.trainable_variables, loss, batches, evaluate or distance, 'goodness'
  )


def fit(what, folder, phase=PHASE):
  result = loop.fit(what, phase, str(folder), strategy=tf.distribute.get_strategy())
  return result, [v.numpy() for v in what.model.trainable_variables]


def ticking():
  """A clock by which a step takes one tick."""
  return types.SimpleNamespace(monotonic=functools.partial(next, itertools.count(0.0)))


@pytest.fixture(scope='module')
def whole(tmp_path_factory, last_step):
  """An unbroken run's result, its weights, and all numbers of its last step."""
  folder = tmp_path_factory.mktemp('whole')
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(loop, 'time', ticking())
    return *fit(task(), folder), last_step(folder)


def assert_ends_as(whole, folder, last_step):
  """Goes on with a broken run, which ends as the unbroken one did; its result."""
  unbroken, weights, expected = whole
  resumed, weights_resumed = fit(task(), folder)
  for one, other in zip(weights, weights_resumed, strict=True):
    np.testing.assert_array_equal(one, other)
  found = last_step(folder)
  assert found.keys() == expected.keys()
  for name, values in expected.items():
    np.testing.assert_array_equal(found[name], values, err_msg=name)
  curves = [
    [(e['step'], e['loss'], e['valid']) for e in of['history']] for of in (unbroken, resumed)
  ]
  assert curves[0] == curves[1]
  return resumed


def test_a_batch_that_replicas_cannot_share_is_refused(tmp_path):
  three = types.SimpleNamespace(num_replicas_in_sync=3)
  error = 'line: batch_size=4: a multiple of 3, the replicas, is needed'
  with pytest.raises(InputError, match=error):
    loop.fit(task(), PHASE, str(tmp_path), strategy=three)


class Killed(Exception):
  """Stands for the end of a process."""


@pytest.mark.parametrize('killed_at', [3, 7, 10])
def test_a_resumed_run_ends_with_the_weights_of_an_unbroken_one(
  whole, tmp_path, monkeypatch, last_step, killed_at
):
  monkeypatch.setattr(loop, 'time', ticking())
  monkeypatch.setattr(loop, '_CHECKPOINT_SECONDS', -1)  # a checkpoint at every step

  def until_killed(start):
    def fail(step):
      if step == killed_at:
        raise Killed
      return np.int64(0)

    steps = tf.data.Dataset.range(100).map(lambda i: tf.numpy_function(fail, [i], tf.int64))
    return tf.data.Dataset.zip(batches(start), steps).map(lambda batch, _: batch)

  with pytest.raises(tf.errors.UnknownError, match='Killed'):
    fit(task(batches=until_killed), tmp_path)
  for result in (whole[0], assert_ends_as(whole, tmp_path, last_step)):
    assert [entry['step'] for entry in result['history']] == [0, 4, 8, 12]
    assert [entry['seconds'] for entry in result['history']] == [0, 4, 8, 12]


@pytest.fixture(name='terminated')
def _terminated():
  """A function that sends this process a signal, which the commands' handler receives."""
  numbers = (signal.SIGTERM, signal.SIGINT)
  before = [signal.signal(number, termination._terminate) for number in numbers]
  yield lambda number: os.kill(os.getpid(), number)
  for number, handler in zip(numbers, before, strict=True):
    signal.signal(number, handler)
  termination._asked.clear()


@pytest.mark.parametrize(
  ('within', 'saved', 'by'),
  [
    ('a step', 6, signal.SIGTERM),
    ('a step', 6, signal.SIGINT),
    ('an evaluation', 8, signal.SIGTERM),
  ],
)
def test_a_signal_saves_the_step_and_the_same_call_goes_on_from_it(
  whole, tmp_path, monkeypatch, terminated, last_step, within, saved, by
):
  what, make, calls = task(), loop.train_step, {'a step': 0, 'an evaluation': 0}

  def come(kind, number):
    calls[kind] += 1
    if (kind, calls[kind]) == (within, number):
      terminated(by)

  def evaluate():
    come('an evaluation', 3)  # of steps 0, 4 and 8
    return what.evaluate()

  def train_step(*arguments):
    step = make(*arguments)

    def run(batch):
      come('a step', 6)
      step(batch)

    return run

  write = loop.files.write_json

  def write_json(*arguments, **options):
    if termination.asked():
      terminated(signal.SIGTERM)  # as a parent hands on, which had the terminal's too
    write(*arguments, **options)

  with monkeypatch.context() as patch, pytest.raises(SystemExit) as left:
    patch.setattr(loop, 'train_step', train_step)
    patch.setattr(loop.files, 'write_json', write_json)
    fit(dataclasses.replace(what, evaluate=evaluate), tmp_path)
  assert left.value.code == 128 + by
  termination._asked.clear()
  state = (tmp_path / 'checkpoints' / 'checkpoint').read_text()
  assert f'model_checkpoint_path: "ckpt-{saved}"' in state
  assert_ends_as(whole, tmp_path, last_step)


def test_of_checkpoints_that_a_killed_process_was_removing_the_last_is_left_alone(tmp_path):
  what = tf.train.Checkpoint(weight=tf.Variable(1.0))
  killed = tf.train.CheckpointManager(what, str(tmp_path), max_to_keep=2)
  killed.save(2), killed.save(4)
  (tmp_path / 'ckpt-2.index').unlink()
  (tmp_path / 'checkpoint.tmp1').touch()  # where TensorFlow was writing their list
  (tmp_path / 'ckpt-3_temp').mkdir()  # and one of them
  (tmp_path / 'ckpt-3_temp' / 'part').touch()
  checkpoints.clear(checkpoints.manager(what, str(tmp_path)))
  names = sorted(path.name for path in tmp_path.iterdir())
  assert names == ['checkpoint', 'ckpt-4.data-00000-of-00001', 'ckpt-4.index']
  assert str(tmp_path) not in (tmp_path / 'checkpoint').read_text()  # the folder may be renamed
  again = checkpoints.manager(what, str(tmp_path))
  again.save(6)
  assert sorted(path.stem for path in tmp_path.glob('*.index')) == ['ckpt-6']


def test_a_finished_phase_reads_no_data_and_gives_the_same_weights(tmp_path):
  _, weights = fit(task(), tmp_path)
  _, again = fit(task(batches=lambda start: pytest.fail('data read again')), tmp_path)
  for one, other in zip(weights, again, strict=True):
    np.testing.assert_array_equal(one, other)


def test_a_phase_that_only_loses_leaves_the_weights_as_they_were(tmp_path):
  values = iter([0.9, 0.5, 0.6, 0.7])
  what = task(evaluate=lambda: {'goodness': next(values)})
  before = [v.numpy() for v in what.model.trainable_variables]
  result, after = fit(what, tmp_path)
  assert result['best_step'] == 0
  for one, other in zip(before, after, strict=True):
    np.testing.assert_array_equal(one, other)


def test_patience_ends_a_phase_and_nan_is_never_the_best(tmp_path):
  values = iter([float('nan'), 0.5, 0.4, 0.3])
  phase = PhaseConfig(batch_size=4, steps=100, warmup_steps=0, eval_every=2, patience=2)
  result, _ = fit(task(evaluate=lambda: {'goodness': next(values)}), tmp_path, phase)
  assert result['best_step'] == 2
  assert result['history'][-1]['step'] == 6


@pytest.mark.parametrize('by', ['its loss', 'a gradient alone'])
def test_a_phase_that_diverges_ends_with_its_best_weights(tmp_path, capsys, by):
  what, kept = task(), []

  def numbered(start):  # `one` is 0 at the last step before the third evaluation
    ones = tf.data.Dataset.range(start, 100).map(lambda step: tf.cast(step != 7, tf.float32))
    return tf.data.Dataset.zip(batches(start), ones).map(lambda batch, one: {**batch, 'one': one})

  def loss(batch):
    one = batch['one']
    if by == 'its loss':
      return what.loss(batch) / one
    return what.loss(batch) + tf.sqrt(one + 0 * tf.reduce_sum(what.model.dense.kernel))

  def judge():
    kernel = what.model.dense.kernel.numpy()
    if not np.isfinite(kernel).all():
      raise InputError('3 of 3 logits are not finite')
    kept.append(kernel)
    return what.evaluate()

  result, weights = fit(
    dataclasses.replace(what, evaluate=judge, loss=loss, batches=numbered), tmp_path
  )
  assert [entry['step'] for entry in result['history']] == [0, 4, 8]
  assert result['best_step'] == 4
  np.testing.assert_array_equal(weights[0], kept[1])
  assert 'line: the loss is not finite by step 8: training ends with the weights of step 4' in (
    capsys.readouterr().out
  )
  again, weights = fit(task(batches=lambda start: pytest.fail('data read again')), tmp_path)
  assert again['best_step'] == 4
  np.testing.assert_array_equal(weights[0], kept[1])


def test_what_a_judge_refuses_after_some_steps_names_phase_and_step(tmp_path):
  values = iter([{'goodness': 0.5}])

  def judge():
    for value in values:
      return value
    raise InputError('64 of 64 logits are not finite')

  with pytest.raises(InputError, match=r'^line, step 4: 64 of 64 logits are not finite$'):
    fit(task(evaluate=judge), tmp_path)


@pytest.mark.parametrize('before', [True, False], ids=['before', 'after'])
@pytest.mark.parametrize(('number', 'best_step'), [(3, 0), (4, 4)], ids=['state', 'best'])
def test_killed_at_a_save_the_best_weights_are_those_of_the_best_step(
  tmp_path, monkeypatch, number, best_step, before
):
  save, calls, seen = tf.train.CheckpointManager.save, itertools.count(1), {}

  def until_killed(manager, step):
    last = next(calls) == number  # of the states and the best weights of steps 0 and 4, in turn
    if not (last and before):
      seen[step] = manager.checkpoint.variables[0].numpy()
      save(manager, step)
    if last:
      raise Killed

  def judged(*values):
    found = iter(values)
    return task(evaluate=lambda: {'goodness': next(found)})

  with monkeypatch.context() as patch, pytest.raises(Killed):
    patch.setattr(tf.train.CheckpointManager, 'save', until_killed)
    fit(judged(0.1, 0.5), tmp_path)
  expected = best_step if before else 4
  result, weights = fit(judged(0.0, 0.0, 0.0), tmp_path)
  assert result['best_step'] == expected
  assert [path.stem for path in (tmp_path / 'best').glob('*.index')] == [f'ckpt-{expected}']
  np.testing.assert_array_equal(weights[0], seen[expected])


def test_a_state_is_saved_once_and_no_step_is_in_two_losses(
  whole, tmp_path, monkeypatch, last_step
):
  what, evaluations, seen = task(), itertools.count(1), []

  def evaluate():
    if next(evaluations) == 2:
      raise SystemExit  # of a signal: the state of step 4 is saved before its evaluation
    return what.evaluate()

  def until_killed(manager, step):
    seen.append((os.path.basename(manager.directory), step))
    raise Killed

  with pytest.raises(SystemExit):
    fit(dataclasses.replace(what, evaluate=evaluate), tmp_path)
  with monkeypatch.context() as patch, pytest.raises(Killed):
    patch.setattr(tf.train.CheckpointManager, 'save', until_killed)
    fit(task(), tmp_path)
  assert seen == [('best', 4)]  # a kill while a state is written over itself would leave none
  assert_ends_as(whole, tmp_path, last_step)


_REPLICAS = """
import json, sys
import tensorflow as tf
import tf_keras
(cpu,) = tf.config.list_physical_devices('CPU')
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from common.training import loop
from tests.common.training import test_loop

def sgd(phase):
  constant = tf_keras.optimizers.schedules.ExponentialDecay(0.01, 1, 1)
  optimizer = tf_keras.optimizers.legacy.SGD(constant)
  optimizer.gradient_clip_norm = 1e6
  return optimizer

loop.create_optimizer = sgd  # AdamW's steps are nearly the same for a gradient of any size
for replicas in (1, 2):
  with tf.distribute.MirroredStrategy([f'CPU:{i}' for i in range(replicas)]).scope():
    halves = lambda start: test_loop.batches(start).unbatch().batch(4 // replicas)
    what = test_loop.task(batches=halves)
    what.model.dropout.rate = 0.0
    _, weights = test_loop.fit(what, f'{sys.argv[1]}/{replicas}')
    print(json.dumps([values.tolist() for values in weights]))
"""


def test_two_replicas_sum_their_gradients(tmp_path, python):
  done = python('-c', _REPLICAS, str(tmp_path))
  assert done.returncode == 0, done.stderr[-3000:]
  one, two = map(json.loads, done.stdout.splitlines()[-2:])
  for values, expected in zip(two, one, strict=True):
    np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_the_recipe_is_berts_warm_up_and_linear_decay(tmp_path):
  result, _ = fit(task(), tmp_path, dataclasses.replace(PHASE, eval_every=1, patience=0))
  rates = [e['learning_rate'] for e in result['history']]
  # 2 of 12 steps warm up to 0.1; then 0.1 * (1 - step / 12).
  assert rates[:2] == pytest.approx([0.0, 0.05])
  assert rates[2:] == pytest.approx([0.1 * (1 - step / 12) for step in range(2, 13)], abs=1e-8)


def test_a_warm_up_that_is_all_of_a_phase_is_told(tmp_path, capsys):
  fit(task(), tmp_path, dataclasses.replace(PHASE, warmup_steps=12))
  assert 'line: all 12 steps are of the warm-up, 12 steps' in capsys.readouterr().out
