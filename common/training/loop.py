"""The training loop: any strategy, exact resumption, the best checkpoint on validation.

A phase lives in a folder: `checkpoints/` (variables, optimizer, dropout generators, step),
`best/` (variables alone), `history.json` and TensorBoard logs. Killed at any moment, the same call
goes on from the last checkpoint and ends with the weights of an unbroken run: batches are a
function of the step, and dropout's generators are restored. SIGTERM saves the step that it came in.
"""

import dataclasses
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from common import files, termination
from common.errors import InputError, damaged
from common.training import checkpoints, strategies
from common.training.forecast import Forecast
from common.training.optimization import PhaseConfig, create_optimizer

_CHECKPOINT_SECONDS = 60
Callback = Callable[[str, int, dict[str, float]], Any]  # the phase's name, its step, metrics


@dataclasses.dataclass(frozen=True)
class Phase:
  """Model, data and judge of a phase.

  Attributes:
    name: Shown at the progress bar.
    model: Its variables are saved and restored.
    variables: Variables that are trained.
    loss: Maps a replica's batch to losses [batch], one a tuple.
    batches: Makes the endless dataset of batches from a step on, one a replica.
    evaluate: Returns metrics on the validation set.
    metric: The one that decides; a leading '-' means less is better.
    callbacks: Called at each evaluation with the validation metrics, the learning rate and, from the
      second on, the mean training loss since the one before.
  """

  name: str
  model: tf_keras.layers.Layer
  variables: list[tf.Variable]
  loss: Callable[[Any], tf.Tensor]
  batches: Callable[[int], tf.data.Dataset]
  evaluate: Callable[[], dict[str, float]]
  metric: str
  callbacks: Sequence[Callback] = ()


def fit(
  phase: Phase,
  config: PhaseConfig,
  folder: str,
  *,
  strategy: tf.distribute.Strategy,
  jit_compile: bool = False,
) -> dict[str, Any]:
  """Trains until `config.steps`, or until `config.patience` evaluations brought nothing better.

  The model is evaluated before the first step too: a phase that only loses changes nothing.

  Args:
    phase: Model, data and judge.
    config: Rates and lengths.
    folder: Working folder; created or resumed.
    strategy: Under whose scope the model was made.
    jit_compile: Whether the step is compiled with XLA.

  Returns:
    {'name', 'history', 'best_step', 'seconds', 'tuples_per_second'}; the model holds the best
    variables.

  Raises:
    InputError: If replicas cannot share a batch evenly.
  """
  if config.batch_size % (replicas := strategy.num_replicas_in_sync):
    raise InputError(
      f'{phase.name}: batch_size={config.batch_size}: a multiple of {replicas}, the replicas, is needed'
    )
  if 0 < config.steps <= config.warmup_steps:
    print(
      f'{phase.name}: all {config.steps:,} steps are of the warm-up, {config.warmup_steps:,} steps: '
      'the learning rate rises to the end; a tenth of the steps is usual'
    )
  with strategy.scope():
    run = Run(phase, config, folder, strategies.is_chief(strategy))
  run.restore()
  if run.finished():
    return _finish(run, strategy)
  dataset = strategies.distribute(phase.batches(run.step), config.steps - run.step, strategy)
  step = train_step(phase, config, run, strategy, dataset.element_spec, jit_compile)
  batches = iter(dataset)
  writer = tf.summary.create_file_writer(os.path.join(folder, 'logs'))
  sizes = {'total': config.steps, 'initial': run.step, 'tuples': config.batch_size}
  with writer.as_default(), Forecast(desc=phase.name, mininterval=0.5, **sizes) as bar:
    while not run.finished():
      if run.is_due():
        run.evaluate()
        bar.set_postfix_str(run.text())
        continue
      with termination.held():
        started = time.monotonic()
        step(next(batches))
        run.step += 1
        run.seconds += time.monotonic() - started
        bar.update(beside=run.evaluating * -(-(config.steps - run.step) // config.eval_every))
        if time.monotonic() - run.saved_at > _CHECKPOINT_SECONDS or termination.asked():
          run.save()
  return _finish(run, strategy)


def _finish(run: 'Run', strategy: tf.distribute.Strategy) -> dict[str, Any]:
  strategies.wait_for_all(strategy)  # the best weights are on disk
  run.restore_best()
  strategies.wait_for_all(strategy)  # and read by all, before the chief moves the folder
  return run.result()


class Run:
  """The state of a phase and its folder."""

  def __init__(self, phase: Phase, config: PhaseConfig, folder: str, chief: bool):
    self.phase, self.config, self.folder, self.chief = phase, config, folder, chief
    self.optimizer = create_optimizer(config)
    self.optimizer._create_all_weights(phase.variables)  # slots, before the first restore
    self.loss_sum = tf.Variable(0.0, trainable=False, dtype=tf.float32)  # since last evaluation
    self.history: list[dict[str, Any]] = []
    self.step = 0
    self.seconds = self.evaluating = 0.0  # of all steps, and of the last evaluation
    self.saved_at = time.monotonic()
    weights = tf.train.Checkpoint(variables=phase.model.variables)
    state = tf.train.Checkpoint(
      variables=phase.model.variables,
      optimizer=self.optimizer,
      loss_sum=self.loss_sum,
      generators=checkpoints.dropout_states(phase.model),
    )
    self.best = checkpoints.manager(weights, f'{folder}/best')
    self.latest = checkpoints.manager(state, f'{folder}/checkpoints')

  def restore(self) -> None:
    path, remedy = self.latest.latest_checkpoint, checkpoints.remedy(self.folder)
    with damaged(self._history_path, remedy):
      there = os.path.exists(self._history_path)
      read = files.read_json(self._history_path, remedy) if there else []
      saved: dict[str, Any] = read if isinstance(read, dict) else {'history': read}  # before seals
      history, seconds = saved['history'], saved.get('seconds')
      steps = [entry['step'] for entry in history]
    if not path:
      if any(steps):  # a checkpoint is there before the next step's history
        raise InputError(f'{self.latest.directory}/checkpoint: names no checkpoint; {remedy}')
      return
    checkpoints.restore(self.latest.checkpoint, path, self.folder)
    for kept in (self.best, self.latest) if self.chief else ():
      checkpoints.clear(kept)
    self.step = int(path.rsplit('-', 1)[1])
    if min(steps, default=math.inf) > self.step:
      raise InputError(f'{self._history_path}: damaged: nothing of step {self.step}; {remedy}')
    self.history = [entry for entry in history if entry['step'] <= self.step]
    self.seconds = self.history[-1]['seconds'] if seconds is None else seconds
    if not self.finished():
      print(f'{self.phase.name}: goes on from step {self.step}')

  def evaluate(self) -> None:
    """Evaluates, keeps the weights where they are the best so far, and saves the state."""
    since = self.step - (self.history[-1]['step'] if self.history else 0)
    started = time.monotonic()
    try:
      valid = self.phase.evaluate()
    except SystemExit:  # of SIGTERM: the same evaluation comes first when it goes on
      if self.history:
        self.save()
      raise
    self.evaluating = time.monotonic() - started
    entry: dict[str, Any] = {
      'step': self.step,
      'seconds': round(self.seconds, 1),
      'loss': float(self.loss_sum.numpy()) / since if since else None,
      'learning_rate': float(self.optimizer.learning_rate(self.step)),
      'valid': valid,
    }
    self.loss_sum.assign(0.0)
    self.history.append(entry)
    for name, value in {**entry['valid'], 'loss': entry['loss'] or 0.0}.items():
      tf.summary.scalar(name, value, self.step)
    if self._best() is entry and self.chief:
      self.best.save(self.step)
    self.save()
    logged = {name: entry[name] for name in ('loss', 'learning_rate') if entry[name] is not None}
    for callback in self.phase.callbacks if self.chief else ():
      callback(self.phase.name, self.step, {**entry['valid'], **logged})

  def save(self) -> None:
    self.saved_at = time.monotonic()
    if not self.chief:
      return
    state = {'history': self.history, 'seconds': self.seconds}
    files.write_json(self._history_path, state, sealed=True)
    self.latest.save(self.step)

  def restore_best(self) -> None:
    checkpoints.restore_best(self.best.checkpoint, self.folder)  # of whichever worker wrote it

  def is_due(self) -> bool:
    """Whether the step is one to evaluate at, and has not been."""
    if not self.history:
      return True
    at = self.step % self.config.eval_every == 0 or self.step == self.config.steps
    return at and self.history[-1]['step'] < self.step

  def finished(self) -> bool:
    """Whether all steps are done, or patience is at its end."""
    if self.is_due():
      return False
    since = len(self.history) - 1 - self.history.index(self._best())
    return self.step >= self.config.steps or 0 < self.config.patience <= since

  def text(self) -> str:
    last, best = self.history[-1], self._best()
    if last['loss'] is None:
      return ''  # before the first step
    metric = self.phase.metric.lstrip('-')
    value, top = last['valid'][metric], best['valid'][metric]
    return f'loss {last["loss"]:.4f}, valid {metric} {value:.4f}, best {top:.4f}'

  def result(self) -> dict[str, Any]:
    last = self.history[-1]
    rate = last['step'] * self.config.batch_size / last['seconds'] if last['seconds'] else None
    return {
      'name': self.phase.name,
      'history': self.history,
      'best_step': self._best()['step'],
      'seconds': last['seconds'],
      'tuples_per_second': rate,
    }

  def _best(self) -> dict[str, Any]:
    metric = self.phase.metric
    sign = -1 if metric.startswith('-') else 1

    def goodness(entry: dict[str, Any]) -> float:
      value = entry['valid'][metric.lstrip('-')]
      return -math.inf if math.isnan(value) else sign * value

    return max(self.history, key=goodness)  # the earliest of equals

  @property
  def _history_path(self) -> str:
    return os.path.join(self.folder, 'history.json')


def train_step(
  phase: Phase,
  config: PhaseConfig,
  run: Run,
  strategy: tf.distribute.Strategy,
  element_spec: Any,
  jit_compile: bool = False,
) -> Callable[[Any], None]:
  """One optimizer step over all replicas: gradients are summed, then clipped, then applied.

  Traced once: lengths that differ from batch to batch are unknown in `element_spec`. XLA, which
  wants them known, is given batches of one shape.
  """

  @tf.function(autograph=False, jit_compile=jit_compile)
  def gradients(batch: Any) -> tuple[tf.Tensor, list[tf.Tensor]]:
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(phase.loss(batch)) / config.batch_size
    # Dense, so that a word's gradient counts once in the norm however many rows it comes from.
    return loss, [tf.convert_to_tensor(g) for g in tape.gradient(loss, phase.variables)]

  def replica_step(batch: Any) -> tf.Tensor:
    loss, grads = gradients(batch)
    if strategy.num_replicas_in_sync > 1:
      grads = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, grads)
    grads, _ = tf.clip_by_global_norm(grads, run.optimizer.gradient_clip_norm)
    run.optimizer.apply_gradients(
      zip(grads, phase.variables, strict=True), experimental_aggregate_gradients=False
    )
    return loss

  @tf.function(autograph=False, input_signature=None if jit_compile else [element_spec])
  def step(batch: Any) -> None:
    losses = strategy.run(replica_step, args=(batch,))
    run.loss_sum.assign_add(strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None))

  return step
