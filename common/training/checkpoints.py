"""TensorFlow checkpoints of a phase's folder; errors name damaged ones."""

import os

import tensorflow as tf
import tf_keras

from common.errors import InputError, damaged


def manager(what: tf.train.Checkpoint, folder: str) -> tf.train.CheckpointManager:
  """Keeps the last checkpoint in a folder of the phase's folder."""
  for left in tf.io.gfile.glob(f'{folder}/checkpoint.tmp*'):  # by a process that was killed
    tf.io.gfile.remove(left)
  with damaged(f'{folder}/checkpoint', remedy(os.path.dirname(folder))):
    return tf.train.CheckpointManager(what, folder, max_to_keep=1)


def save(manager: tf.train.CheckpointManager, step: int) -> None:
  """Saves the state of a step, unless it is there.

  None is written over itself, as a kill would leave half of it and no other.
  """
  if step_of(manager) != step:
    manager.save(step)


def step_of(manager: tf.train.CheckpointManager) -> int:
  """The step of the last checkpoint; -1 if there is none."""
  path = manager.latest_checkpoint
  return int(path.rsplit('-', 1)[1]) if path else -1


def clear(manager: tf.train.CheckpointManager) -> None:
  """Removes what a process left that was killed while it wrote or removed a checkpoint."""
  last = manager.latest_checkpoint
  if not last or not tf.io.gfile.exists(f'{last}.index'):
    return
  for path in tf.io.gfile.glob(f'{manager.directory}/ckpt-*'):
    if os.path.basename(path).split('.')[0] != os.path.basename(last):
      remove = tf.io.gfile.rmtree if tf.io.gfile.isdir(path) else tf.io.gfile.remove
      remove(path)


def restore_best(what: tf.train.Checkpoint, folder: str) -> None:
  """Reads the best weights that a phase left in its folder."""
  named = f'{folder}/best/checkpoint'
  with damaged(named, remedy(folder)):
    state = tf.train.get_checkpoint_state(os.path.dirname(named))
  if not state or not state.model_checkpoint_path:
    raise InputError(f'{named}: missing or damaged: it names no checkpoint; {remedy(folder)}')
  restore(what, state.model_checkpoint_path, folder)


def restore(what: tf.train.Checkpoint, path: str, folder: str) -> None:
  """Reads a checkpoint of a phase's folder, all of it, into `what`."""
  with damaged(path, remedy(folder)):
    what.restore(path).assert_consumed()


def remedy(folder: str) -> str:
  """Advice about damage in a phase's folder."""
  return f'delete {folder} and run again'


def dropout_states(model: tf_keras.layers.Layer) -> list[tf.Variable]:
  """The states of the model's dropout generators (see `strategies.create`)."""
  found = (getattr(layer, '_random_generator', None) for layer in model.submodules)
  generators = [generator for generator in found if generator is not None]
  for generator in generators:
    generator._maybe_init()  # a layer that was not called has none yet, and it would not be saved
  states = (getattr(generator, '_generator', None) for generator in generators)
  return [state.state for state in states if state is not None]
