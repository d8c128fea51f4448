"""The training loop: any strategy, exact resumption, the best checkpoint on validation.

A phase lives in a folder: `checkpoints/` (variables, optimizer, dropout generators, step), `best/`
(variables alone), `history.json` and TensorBoard logs. Killed at any moment, the same call goes on
from the last checkpoint and ends with the weights of an unbroken run: batches are a function of the
step, and dropout's generators are restored. SIGTERM or Ctrl-C saves the step that it came in.
"""

import dataclasses
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras
from tqdm import tqdm

from common import files, termination
from common.errors import InputError, damaged
from common.training import checkpoints, strategies
from common.training.optimization import PhaseConfig, check, create_optimizer

_CHECKPOINT_SECONDS = 60
Entry = dict[str, Any]  # of a history: step, seconds, loss, learning rate, validation metrics
Callback = Callable[[str, int, dict[str, float]], Any]
"""Called at each evaluation with the phase's name, its step, and a dict of the validation metrics,
the learning rate and, from the second on, the mean training loss since the one before."""


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
    callbacks: Called at each evaluation.
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

  The model is evaluated before the first step too: a phase that only loses changes nothing. A phase
  that diverges (its loss or weights are not finite) ends at the next evaluation.

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
  check(config, phase.name, strategy.num_replicas_in_sync)
  with strategy.scope():
    run = Run(phase, config, folder)
  run.restore()
  if run.finished():
    return _finish(run)
  dataset = strategies.distribute(phase.batches(run.step), config.steps - run.step, strategy)
  step = train_step(run, strategy, dataset.element_spec, jit_compile)
  batches = iter(dataset)
  writer = tf.summary.create_file_writer(os.path.join(folder, 'logs'))
  sizes = {'total': config.steps, 'initial': run.step}
  with writer.as_default(), tqdm(desc=phase.name, mininterval=0.5, **sizes) as bar:
    while not run.finished():
      if run.is_due():
        run.evaluate()
        bar.set_postfix_str(run.progress())
      else:
        with termination.held():
          started = time.monotonic()
          step(next(batches))
          run.step += 1
          run.seconds += time.monotonic() - started
          bar.update()
          late = time.monotonic() - run.saved_at > _CHECKPOINT_SECONDS
          if termination.asked() or (late and not run.is_due()):  # an evaluation saves
            run.save()
  return _finish(run)


def _finish(run: 'Run') -> dict[str, Any]:
  checkpoints.restore_best(run.best.checkpoint, run.folder)
  seconds, steps = run.history[-1]['seconds'], run.history[-1]['step']
  return {
    'name': run.phase.name,
    'history': run.history,
    'best_step': run.best_entry()['step'],
    'seconds': seconds,
    'tuples_per_second': steps * run.config.batch_size / seconds if seconds else None,
  }


class Run:
  """The state of a phase and its folder."""

  def __init__(self, phase: Phase, config: PhaseConfig, folder: str):
    self.phase, self.config, self.folder = phase, config, folder
    self.optimizer = create_optimizer(config)
    self.optimizer._create_all_weights(phase.variables)  # slots, before the first restore
    self.loss_sum = tf.Variable(0.0, trainable=False, dtype=tf.float32)  # since last evaluation
    self.history: list[Entry] = []
    self.step = 0
    self.seconds = 0.0  # of all steps
    self.saved_at = time.monotonic()
    weights = tf.train.Checkpoint(variables=phase.model.variables)
    state = tf.train.Checkpoint(
      variables=phase.model.variables,
      optimizer=self.optimizer,
      loss_sum=self.loss_sum,
      generators=checkpoints.dropout_states(phase.model),
    )
    self.best = checkpoints.manager(weights, f'{folder}/best')
    self.states = checkpoints.manager(state, f'{folder}/checkpoints')

  def restore(self) -> None:
    remedy = checkpoints.remedy(self.folder)
    with damaged(self._history_path, remedy):
      there = os.path.exists(self._history_path)
      saved = files.read_json(self._history_path, remedy) if there else {'history': []}
      history: list[Entry] = saved['history']
      steps = [entry['step'] for entry in history]
    if (step := checkpoints.step_of(self.states)) < 0:
      if any(steps):  # a checkpoint is there before the next step's history
        raise InputError(f'{self.folder}/checkpoints/checkpoint: names no checkpoint; {remedy}')
      return
    checkpoints.restore(self.states.checkpoint, self.states.latest_checkpoint, self.folder)
    checkpoints.clear(self.states)
    checkpoints.clear(self.best)
    self.step = step
    if min(steps, default=math.inf) > self.step:
      raise InputError(f'{self._history_path}: damaged: nothing of step {self.step}; {remedy}')
    self.history = [entry for entry in history if entry['step'] <= self.step]
    if self.history[-1]['step'] == self.step:  # its state may be from before its evaluation
      self.loss_sum.assign(0.0)
    self.seconds = saved['seconds']
    self._keep_best()  # where it was killed before it could
    if not self.finished():
      print(f'{self.phase.name}: goes on from step {self.step}')

  def evaluate(self) -> None:
    """Evaluates, saves the state, and keeps the weights where they are the best so far."""
    loss = self._loss()
    valid = self._judged(loss)
    entry: Entry = {
      'step': self.step,
      'seconds': round(self.seconds, 1),
      'loss': loss,
      'learning_rate': float(self.optimizer.learning_rate(self.step)),
      'valid': valid,
    }
    self.loss_sum.assign(0.0)
    self.history.append(entry)
    for name, value in {**entry['valid'], 'loss': entry['loss'] or 0.0}.items():
      tf.summary.scalar(name, value, self.step)
    self.save()
    self._keep_best()
    logged = {name: entry[name] for name in ('loss', 'learning_rate') if entry[name] is not None}
    for callback in self.phase.callbacks:
      callback(self.phase.name, self.step, {**entry['valid'], **logged})

  def _loss(self) -> float | None:
    """Mean training loss since the last evaluation; NaN where a weight is not finite."""
    if not (since := self.step - (self.history[-1]['step'] if self.history else 0)):
      return None
    finite = (tf.reduce_all(tf.math.is_finite(variable)) for variable in self.phase.variables)
    return float(self.loss_sum.numpy()) / since if all(map(bool, finite)) else math.nan

  def _judged(self, loss: float | None) -> dict[str, float]:
    """The judge's metrics; NaN for a diverged model, which the judge may be unable to judge."""
    if not self.history:
      return self.phase.evaluate()
    if _is_diverged(loss):
      print(
        f'{self.phase.name}: the loss is not finite by step {self.step:,}: training ends with the '
        f'weights of step {self.best_entry()["step"]:,}, the best; a smaller learning rate is '
        'advised'
      )
      return dict.fromkeys(self.history[-1]['valid'], math.nan)
    try:
      return self.phase.evaluate()
    except SystemExit:  # of a signal: the same evaluation comes first when it goes on
      self.save()
      raise
    except InputError as error:
      raise InputError(f'{self.phase.name}, step {self.step:,}: {error}') from error

  def _keep_best(self) -> None:
    """Keeps the weights of a step that was just evaluated, if it is the best; once."""
    last = self.history[-1]
    if last['step'] == self.step and self.best_entry() is last:
      checkpoints.save(self.best, self.step)

  def save(self) -> None:
    self.saved_at = time.monotonic()
    state = {'history': self.history, 'seconds': self.seconds}
    files.write_json(self._history_path, state, sealed=True)
    checkpoints.save(self.states, self.step)

  def is_due(self) -> bool:
    """Whether the step is one to evaluate at, and has not been."""
    if not self.history:
      return True
    at = self.step % self.config.between == 0 or self.step == self.config.steps
    return at and self.history[-1]['step'] < self.step

  def finished(self) -> bool:
    """Whether all steps are done, patience is at its end, or the training diverged."""
    if self.is_due():
      return False
    since = len(self.history) - 1 - self.history.index(self.best_entry())
    stops = 0 < self.config.patience <= since or _is_diverged(self.history[-1]['loss'])
    return stops or self.step >= self.config.steps

  def best_entry(self) -> Entry:
    """The best entry of the history, the earliest of ties, never NaN."""
    sign = -1 if self.phase.metric.startswith('-') else 1

    def goodness(entry: Entry) -> float:
      value = entry['valid'][self._metric]
      return -math.inf if math.isnan(value) else sign * value

    return max(self.history, key=goodness)

  def progress(self) -> str:
    """The last entry beside the best one; empty before the first step."""
    last = self.history[-1]
    if last['loss'] is None:
      return ''
    valid, best = (entry['valid'][self._metric] for entry in (last, self.best_entry()))
    return f'loss {last["loss"]:.4f}, valid {self._metric} {valid:.4f}, best {best:.4f}'

  @property
  def _metric(self) -> str:
    return self.phase.metric.lstrip('-')

  @property
  def _history_path(self) -> str:
    return os.path.join(self.folder, 'history.json')


def _is_diverged(loss: float | None) -> bool:
  """Whether a training loss, None before the first step, is no finite number."""
  return loss is not None and not math.isfinite(loss)


def train_step(
  run: Run,
  strategy: tf.distribute.Strategy,
  element_spec: Any,
  jit_compile: bool = False,
) -> Callable[[Any], None]:
  """Builds an optimizer step over all replicas: it sums gradients, clips them, then applies them.

  Traced once: lengths that differ from batch to batch are unknown in `element_spec`. XLA, which
  wants them known, is given batches of one shape.
  """
  phase = run.phase

  @tf.function(autograph=False, jit_compile=jit_compile)
  def gradients(batch: Any) -> tuple[tf.Tensor, list[tf.Tensor]]:
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(phase.loss(batch)) / run.config.batch_size
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
