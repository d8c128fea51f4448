"""Pairs a second of training, each form against the plain one, on a finished run's data.

  python -m benchmarks.training --run_dir=runs/homedepot --output=training.json

Forms: the teacher's batches bucketed by length against padded to the maximum; stage 1 on cached
encoder outputs, and stage 2 with each distinct text of a batch encoded once, each against encoding
both texts of every pair, padded to the maximum; teacher and stage 2 in bfloat16 against float32.
Forms of a pair run in turn, in one process.
"""

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tqdm import tqdm

from benchmarks import committed, tables
from common import flags
from common.data import batches, orders, tokens
from common.data.records import RecordSet
from common.data.tokenization import Tokenizer
from common.distillation.teacher import Teacher
from common.distillation.trainer import Trainer
from common.modeling.losses import CrossEntropy, cross_entropy
from common.training import loop, strategies
from common.training.optimization import PhaseConfig
from dipair.student import DiPair
from experiments.finished_run import FinishedRun

Loss = Callable[[dict], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig:
  """The finished run to measure, and the steps."""

  run_dir: str = flags.option('runs/homedepot', 'a finished run of dipair.run')
  output: str = flags.option('', 'JSON file of the figures')
  steps: int = flags.option(12, 'steps timed of each form, after two to warm up', bounds=(1, 10**9))


@dataclasses.dataclass(frozen=True)
class Form:
  """A way to train: a model, the variables that move, the loss of a batch, batches of a size."""

  model: Any
  variables: Any
  loss: Loss
  batches: tf.data.Dataset
  size: int


def main(config: BenchmarkConfig) -> None:
  """Measures, prints, writes."""
  run = FinishedRun(config.run_dir)
  strategy = strategies.create(strategies.DeviceConfig())
  teacher = Teacher.load(run.path('teacher'))
  trainer = _trainer(run, *DiPair.load(run.path('student')), strategy)
  with strategies.precision('mixed_bfloat16'):
    quick_teacher = Teacher.load(run.path('teacher'))
    quick = _trainer(run, *DiPair.load(run.path('student')), strategy)
  size = run.flags['stage2_batch_size']
  comparisons = {
    'teacher: bucketed / padded': (_of_teacher(run, teacher), _of_teacher(run, teacher, False)),
    'teacher: bfloat16 / float32': (_of_teacher(run, quick_teacher), _of_teacher(run, teacher)),
    'stage 1: cached / plain': (_of_stage1(run, trainer, size), _plain(trainer, size, True)),
    'stage 2: each text once / plain': (_of_stage2(trainer, size), _plain(trainer, size, False)),
    'stage 2: bfloat16 / float32': (_of_stage2(quick, size), _of_stage2(trainer, size)),
  }
  rows = []
  for name, forms in comparisons.items():
    rates = _rates(forms, config.steps, strategy, name)
    rows.append({'name': name, 'pairs_per_second': rates, 'ratio': rates[0] / rates[1]})
  print(tables.training({'rows': rows}))
  if config.output:
    blocks = run.flags['block_pairs']
    committed.write(config.output, 'benchmarks.training', config, block_pairs=blocks, rows=rows)


def _trainer(
  run: FinishedRun, model: DiPair, tokenizer: Tokenizer, strategy: tf.distribute.Strategy
) -> Trainer:
  """A student's trainer on a run's distillation set."""
  return Trainer(model, tokenizer, run.training(strategy), CrossEntropy())


def _of_teacher(run: FinishedRun, teacher: Teacher, bucketed: bool = True) -> Form:
  """Fine-tuning on labels, in batches of like length, or padded to the greatest length."""
  size, train = run.flags['teacher_batch_size'], RecordSet(run.path('data/train'))
  of_slots, tuples = tokens.tables_of(train, teacher.tokenizer), train.tuples()
  buckets, lengths = batches.by_length(tuples, of_slots, teacher.max_length, bucketed)
  order = orders.ShuffledByLength(buckets, size, 1)
  made = batches.TupleBatches(tuples, order, ('label',), teacher.outputs, 1)
  packed = made.packed(0, of_slots, teacher.max_length, lengths)

  def loss(batch: dict) -> tf.Tensor:
    logits = teacher.model(batch['ids'], batch['segment_ids'], training=True)
    return cross_entropy(batch['label'], logits)

  return Form(teacher.model, teacher.model.trainable_variables, loss, packed, size)


def _of_stage1(run: FinishedRun, trainer: Trainer, size: int) -> Form:
  """Projections and head alone, on outputs of the frozen encoders from a file."""
  tuples, phase = trainer.distill.tuples(), PhaseConfig(batch_size=size)
  cache, items = run.path('benchmark/cache'), trainer.used_items(tuples)
  cached = trainer.cached_batches(phase, tuples, items, cache)

  def loss(batch: dict) -> tf.Tensor:
    return trainer.loss_of(batch, frozen=True)

  return Form(trainer.model, trainer.model.new_variables, loss, cached, size)


def _of_stage2(trainer: Trainer, size: int) -> Form:
  """A step of all variables; each distinct text of a batch is encoded once."""
  made = trainer.batches_by_item(PhaseConfig(batch_size=size), trainer.distill.tuples())

  def loss(batch: dict) -> tf.Tensor:
    return trainer.loss_of(batch, frozen=False)

  return Form(trainer.model, trainer.model.used_variables, loss, made, size)


def _plain(trainer: Trainer, size: int, frozen: bool) -> Form:
  """Both texts of each tuple, padded to their most tokens and encoded for it alone."""
  student, of_slots = trainer.model, tokens.tables_of(trainer.distill, trainer.tokenizer)
  made = trainer.batches_by_item(PhaseConfig(batch_size=size), trainer.distill.tuples())

  def padded(items: tf.Tensor, slot: int) -> tf.Tensor:
    length = student.max_lengths[slot]
    take = lambda rows: of_slots[slot].padded(rows, length, length)  # noqa: E731
    ids = tf.numpy_function(take, [items[:, slot]], tf.int32)
    return tf.ensure_shape(ids, [size, length])

  def with_ids(batch: dict) -> dict:
    ids = tuple(padded(batch['items'], slot) for slot in range(student.slots))
    return {'ids': ids, 'soft_labels': batch['soft_labels']}

  def loss(batch: dict) -> tf.Tensor:
    encoded = [student.encode(ids, slot, training=True) for slot, ids in enumerate(batch['ids'])]
    return cross_entropy(batch['soft_labels'], student.score_vectors(encoded, training=True))

  variables = student.new_variables if frozen else student.used_variables
  return Form(student, variables, loss, made.map(with_ids), size)


def _rates(
  forms: tuple[Form, Form], steps: int, strategy: tf.distribute.Strategy, name: str
) -> list[float]:
  """Mean pairs a second of each form, their steps in turn (lengths differ from step to step)."""
  running = [_steps(form, strategy) for form in forms]
  times: list[list[float]] = [[] for _ in forms]
  for _ in tqdm(range(steps + 2), desc=name, leave=False):
    for form, taken in zip(running, times, strict=True):
      started = time.perf_counter()
      next(form)
      taken.append(time.perf_counter() - started)
  size = forms[0].size
  return [size * len(taken[2:]) / sum(itertools.islice(taken, 2, None)) for taken in times]


def _steps(form: Form, strategy: tf.distribute.Strategy) -> Iterator[None]:
  """Training steps, one at each `next`."""
  phase = loop.Phase(
    'benchmark', form.model, form.variables, form.loss, lambda start: form.batches, dict, ''
  )
  config = PhaseConfig(learning_rate=1e-9, batch_size=form.size)
  run = loop.Run(phase, config, '')
  step = loop.train_step(run, strategy, form.batches.element_spec)
  return (step(batch) for batch in form.batches.prefetch(2))


if __name__ == '__main__':
  flags.command(main, BenchmarkConfig)
