"""TensorFlow checkpoints of a phase's folder; errors name damaged ones."""

import os

import tensorflow as tf
import tf_keras

from common.errors import InputError, damaged


def manager(what: tf.train.Checkpoint, folder: str) -> tf.train.CheckpointManager:
  """Keeps the last checkpoint in a folder of the phase's folder."""
  with damaged(f'{folder}/checkpoint', remedy(os.path.dirname(folder))):
    return tf.train.CheckpointManager(what, folder, max_to_keep=1)


class States:
  """States of a phase's training: the last one, and that of a step which is still to be evaluated.

  None is written over itself, as a kill would leave half of it and no other.

  Args:
    what: All that a state is of.
    folder: The phase's.
  """

  def __init__(self, what: tf.train.Checkpoint, folder: str):
    self._what, self._folder = what, folder
    self._last, self._unjudged = (
      manager(what, f'{folder}/{of}') for of in ('checkpoints', 'unjudged')
    )

  def save(self, step: int, judged: bool) -> None:
    """Saves the state of a step, unless it is there; `judged`: no evaluation of it is to come."""
    kept = self._last if judged else self._unjudged
    if _step(kept) != step:
      kept.save(step)
    if judged:
      self._remove_unjudged()

  def restore(self) -> tuple[int, int] | None:
    """Reads the newest checkpoint; returns its step and the last step that may have been evaluated.

    Returns None if there is no checkpoint.
    """
    kept = max(self._last, self._unjudged, key=_step)
    if (step := _step(kept)) < 0:
      return None
    restore(self._what, kept.latest_checkpoint, self._folder)
    clear(self._last)
    clear(self._unjudged)
    if kept is self._last:
      self._remove_unjudged()
    return step, step if kept is self._last else step - 1

  def _remove_unjudged(self) -> None:
    if tf.io.gfile.exists(self._unjudged.directory):
      tf.io.gfile.rmtree(self._unjudged.directory)


def _step(manager: tf.train.CheckpointManager) -> int:
  path = manager.latest_checkpoint
  return int(path.rsplit('-', 1)[1]) if path else -1


def clear(manager: tf.train.CheckpointManager) -> None:
  """Removes what a process left that was killed while it wrote or removed a checkpoint."""
  last = manager.latest_checkpoint
  if not last or not tf.io.gfile.exists(f'{last}.index'):
    return
  for path in tf.io.gfile.glob(f'{manager.directory}/ckpt-*.*'):
    if os.path.basename(path).split('.')[0] != os.path.basename(last):
      tf.io.gfile.remove(path)


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
