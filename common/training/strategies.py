"""Devices of training and inference: one, several of one machine, or TPUs."""

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from common import flags
from common.errors import InputError

_CPU, _AMPERE = '/proc/cpuinfo', (8, 0)
STRATEGIES = ('one_device', 'mirrored', 'tpu')


@dataclasses.dataclass(frozen=True)
class DeviceConfig:
  """Devices and arithmetic of training."""

  distribution_strategy: str = flags.option(
    'one_device', "devices that training runs on; tpu: this machine's", STRATEGIES
  )
  precision: str = flags.option(
    'float32',
    'arithmetic of training and annotation; auto: mixed_bfloat16 if the devices have units for '
    'it; variables, the final evaluation and exports stay float32',
    ('float32', 'mixed_bfloat16', 'auto'),
  )
  jit_compile: bool = flags.option(
    False, 'compile train steps with XLA, with static shapes (a TPU always does)'
  )

  def settled(self) -> 'DeviceConfig':
    """The devices with the arithmetic that auto stands for."""
    if self.precision != 'auto':
      return self
    chosen = 'mixed_bfloat16' if self._has_bfloat16() else 'float32'
    return dataclasses.replace(self, precision=chosen)

  @property
  def accelerated(self) -> bool:
    """Whether they are other than this machine's CPUs."""
    return self.distribution_strategy == 'tpu' or bool(tf.config.list_physical_devices('GPU'))

  def _has_bfloat16(self) -> bool:
    """Whether the devices have units that multiply matrices in bfloat16."""
    if self.distribution_strategy == 'tpu':
      return True
    if gpus := tf.config.list_physical_devices('GPU'):
      found = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
      return all(one.get('compute_capability', (0, 0)) >= _AMPERE for one in found)
    try:
      with open(_CPU, encoding='utf-8') as file:
        words = set(file.read().split())
    except OSError:
      return False
    # Without AMX Intel's avx512_bf16 is slower than float32, AMD's faster: benchmarks.training.
    return 'amx_bf16' in words or words >= {'AuthenticAMD', 'avx512_bf16'}

  @property
  def static_shapes(self) -> bool:
    """Whether every batch has the same shapes, as XLA wants it."""
    return self.jit_compile or self.distribution_strategy == 'tpu'


def create(config: DeviceConfig) -> tf.distribute.Strategy:
  """The strategy; also sets the precision of layers made from now on."""
  tf_keras.mixed_precision.set_global_policy(config.settled().precision)
  # Dropout draws from generators with a state that checkpoints hold, so a resumed run is the same.
  tf_keras.backend.experimental.enable_tf_random_generator()
  match config.distribution_strategy:
    case 'mirrored':
      return _mirrored()
    case 'tpu':
      try:  # another machine's cannot run the input pipeline's Python
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect('local')
      except (ValueError, tf.errors.OpError) as error:
        raise InputError(f'--distribution_strategy=tpu: cannot connect: {error}') from error
      return tf.distribute.TPUStrategy(resolver)
  return tf.distribute.get_strategy()


@functools.cache  # a second one in a process is refused by the first one's collectives
def _mirrored() -> tf.distribute.Strategy:
  devices = tf.config.list_logical_devices('GPU') or tf.config.list_logical_devices('CPU')
  return tf.distribute.MirroredStrategy([device.name for device in devices])


@contextlib.contextmanager
def settings_restored() -> Iterator[None]:
  """Undoes the process settings of `create` at the end: the caller's layers are made as before."""
  generators = tf_keras.backend.experimental
  had = generators.is_tf_random_generator_enabled()
  try:
    with precision():
      yield
  finally:
    if not had:
      generators.disable_tf_random_generator()


@contextlib.contextmanager
def precision(name: str = 'float32') -> Iterator[None]:
  """Layers made inside compute in this, whatever the precision of training."""
  policy = tf_keras.mixed_precision.global_policy()
  tf_keras.mixed_precision.set_global_policy(name)
  try:
    yield
  finally:
    tf_keras.mixed_precision.set_global_policy(policy)


def distribute(batches: tf.data.Dataset, steps: int, strategy: tf.distribute.Strategy) -> Any:
  """Each replica's share of so many steps of the stream; one element of it a replica."""
  replicas = strategy.num_replicas_in_sync
  batches = batches.take(steps * replicas)
  if replicas == 1:
    return batches.prefetch(2)

  def of_host(context: tf.distribute.InputContext) -> tf.data.Dataset:
    del context
    return batches.prefetch(2 * replicas)

  return strategy.distribute_datasets_from_function(of_host)


def map_batches(
  strategy: tf.distribute.Strategy,
  function: Callable[..., tf.Tensor],
  batches: Iterable[tuple[Any, tuple]],
) -> Iterator[tuple[Any, np.ndarray]]:
  """Runs `function` over batches, one a replica at a time.

  Args:
    strategy: Its replicas share the work.
    function: A `tf.function` of a batch's tensors; returns one tensor, rows first.
    batches: (what names a batch, such as its row numbers; its tensors).

  Yields:
    (the batch's name, the function's output), in order.
  """
  replicas = strategy.num_replicas_in_sync
  # A TPU computes what goes through `strategy.run` alone, its one chip too.
  if replicas == 1 and not isinstance(strategy, tf.distribute.TPUStrategy):
    for rows, tensors in batches:
      yield rows, function(*tensors).numpy()
    return

  @tf.function(autograph=False, reduce_retracing=True)
  def step(*tensors: Any) -> Any:
    return strategy.run(lambda *args: function(*args), args=tensors)

  stream = iter(batches)
  while group := list(itertools.islice(stream, replicas)):
    padded = group + [group[-1]] * (replicas - len(group))
    tensors = zip(*(tensors for _, tensors in padded), strict=True)  # by input, then by replica
    columns = [_per_replica(strategy, values) for values in tensors]
    results = strategy.experimental_local_results(step(*columns))
    for (rows, _), result in zip(group, results, strict=False):
      yield rows, result.numpy()


def _per_replica(strategy: tf.distribute.Strategy, values: Sequence[tf.Tensor]) -> Any:
  return strategy.experimental_distribute_values_from_function(
    lambda context: values[context.replica_id_in_sync_group]
  )
