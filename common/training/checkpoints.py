"""TensorFlow checkpoints of a phase's folder, of which damaged ones are refused by their names."""

import os

import tensorflow as tf
import tf_keras
from google.protobuf import text_format

from common import files, weights
from common.errors import InputError, damaged


def manager(what: tf.train.Checkpoint, folder: str) -> tf.train.CheckpointManager:
  """Keeps the last checkpoint in a folder of the phase's folder."""
  with damaged(f'{folder}/checkpoint', remedy(os.path.dirname(folder))):
    return tf.train.CheckpointManager(what, folder, max_to_keep=1)


def clear(manager: tf.train.CheckpointManager) -> None:
  """Leaves the last checkpoint alone, of what a process left that was killed while it wrote or removed some."""
  last = manager.latest_checkpoint
  if not last or not tf.io.gfile.exists(f'{last}.index'):
    return
  for path in tf.io.gfile.glob(f'{manager.directory}/ckpt-*.*'):
    if os.path.basename(path).split('.')[0] != os.path.basename(last):
      tf.io.gfile.remove(path)
  if len(manager.checkpoints) > 1:
    state = tf.train.get_checkpoint_state(manager.directory)
    del state.all_model_checkpoint_paths[:-1], state.all_model_checkpoint_timestamps[:-1]
    state.model_checkpoint_path = state.all_model_checkpoint_paths[0] = os.path.basename(last)
    path = f'{manager.directory}/checkpoint'
    with files.whole(path) as temporary, tf.io.gfile.GFile(temporary, 'w') as file:
      file.write(text_format.MessageToString(state))


def restore_best(what: tf.train.Checkpoint, folder: str) -> None:
  """Reads the best weights that a phase left in its folder."""
  named = f'{folder}/best/checkpoint'
  with damaged(named, remedy(folder)):
    state = tf.train.get_checkpoint_state(os.path.dirname(named))
  if not state or not state.model_checkpoint_path:
    raise InputError(f'{named}: missing or damaged: it names no checkpoint; {remedy(folder)}')
  restore(what, state.model_checkpoint_path, folder)


def restore(what: tf.train.Checkpoint, path: str, folder: str) -> None:
  """Reads a checkpoint of a phase's folder, all of it, into `what.variables` and whatever else it has."""
  every = what.variables
  with damaged(path, remedy(folder)):
    what.variables = weights.in_checkpoint(every, path)
    what.restore(path).assert_consumed()
  what.variables = every


def remedy(folder: str) -> str:
  """What to do about damage in a phase's folder."""
  return f'delete {folder} and run again'


def dropout_states(model: tf_keras.layers.Layer) -> list[tf.Variable]:
  """The states of the model's dropout generators (see `strategies.create`)."""
  found = (getattr(layer, '_random_generator', None) for layer in model.submodules)
  generators = [generator for generator in found if generator is not None]
  for generator in generators:
    generator._maybe_init()  # a layer that was not called has none yet, and it would not be saved
  states = (getattr(generator, '_generator', None) for generator in generators)
  return [state.state for state in states if state is not None]
