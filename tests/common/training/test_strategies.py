"""Devices: their arithmetic, and what runs on them."""

import pytest
import tensorflow as tf
import tf_keras

from common.errors import InputError
from common.training import strategies
from common.training.strategies import DeviceConfig


@pytest.mark.parametrize(
  ('cpu', 'chosen'),
  [
    ('flags : fma avx512_bf16 x', 'float32'),
    ('flags : avx512_bf16 amx_bf16 x', 'mixed_bfloat16'),
    ('vendor_id : AuthenticAMD\nflags : avx512_bf16 x', 'mixed_bfloat16'),
    ('vendor_id : AuthenticAMD\nflags : fma x', 'float32'),
  ],
)
def test_auto_is_what_the_cpu_has_and_is_kept(cpu, chosen, tmp_path, monkeypatch):
  (tmp_path / 'cpuinfo').write_text(cpu)
  monkeypatch.setattr(strategies, '_CPU', str(tmp_path / 'cpuinfo'))
  assert DeviceConfig(precision='auto').settled().precision == chosen
  assert DeviceConfig('tpu', precision='auto').settled().precision == 'mixed_bfloat16'
  assert DeviceConfig().precision == 'float32'


def test_what_is_set_for_a_run_ends_with_it():
  def found():
    generators = tf_keras.backend.experimental.is_tf_random_generator_enabled()
    return tf_keras.mixed_precision.global_policy().name, generators

  before = found()
  with pytest.raises(InputError), strategies.settings_restored():
    strategies.create(DeviceConfig(precision='mixed_bfloat16'))
    assert found() == ('mixed_bfloat16', True)
    raise InputError('no such file')
  assert found() == before


def test_a_process_has_one_mirrored_strategy():
  first, second = (strategies.create(DeviceConfig('mirrored')) for _ in range(2))
  assert first is second  # TensorFlow refuses the collectives of another
  assert isinstance(first, tf.distribute.MirroredStrategy)


def test_a_tpu_is_this_machines(monkeypatch):
  asked = []
  resolver = tf.distribute.cluster_resolver.TPUClusterResolver
  monkeypatch.setattr(resolver, 'connect', asked.append)
  monkeypatch.setattr(tf.distribute, 'TPUStrategy', lambda resolver: 'strategy')
  with strategies.settings_restored():
    assert strategies.create(DeviceConfig('tpu')) == 'strategy'
  assert asked == ['local'] and DeviceConfig('tpu').static_shapes


def test_a_tpu_of_one_chip_computes_in_its_replica(monkeypatch):
  class Chip(tf.distribute.OneDeviceStrategy):
    """Stands for a `TPUStrategy`, whose computations are those that go through `run`."""

  monkeypatch.setattr(tf.distribute, 'TPUStrategy', Chip)
  contexts = []

  @tf.function(autograph=False)
  def doubled(x):
    contexts.append(tf.distribute.get_strategy())
    return 2 * x

  chip = Chip('CPU:0')
  batches = [(rows, (tf.fill([rows], float(rows)),)) for rows in (3, 1)]
  found = [
    (rows, values.tolist()) for rows, values in strategies.map_batches(chip, doubled, batches)
  ]
  assert found == [(3, [6.0] * 3), (1, [2.0])]
  assert set(contexts) == {chip}
