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
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tqdm import tqdm

from benchmarks import committed
from common import flags
from common.data import batches, orders, tokens
from common.data.records import RecordSet
from common.data.tokenization import Tokenizer
from common.distillation.teacher import Teacher
from common.distillation.trainer import Trainer
from common.modeling.losses import CrossEntropy, cross_entropy
from common.training import loop, strategies
from common.training.optimization import PhaseConfig
from dipair.finished_run import FinishedRun
from dipair.student import DiPair

# A model, its variables, its loss, its batches, tuples of one.
Form = tuple[Any, Any, Any, Any, int]


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig:
  """The finished run to measure, and the steps."""

  run_dir: str = flags.option('runs/homedepot', 'a finished run of dipair.run')
  output: str = flags.option('', 'JSON file of the figures')
  steps: int = flags.option(12, 'steps timed of each form, after two to warm up', bounds=(1, 10**9))


def main(config: BenchmarkConfig) -> None:
  """Measures, prints a table, writes the file."""
  run = FinishedRun(config.run_dir)
  strategy = strategies.create(strategies.DeviceConfig())
  teacher = Teacher.load(run.path('teacher'))
  student, tokenizer = DiPair.load(run.path('student'))
  trainer = _trainer(run, student, tokenizer, strategy)
  small, large = run.flags['teacher_batch_size'], run.flags['stage2_batch_size']
  phase = PhaseConfig(batch_size=large)
  tuples, replicas = trainer.distill.tuples(), 1

  def packed(bucketed: bool) -> tf.data.Dataset:
    train = RecordSet(run.path('data/train'))
    tables = tokens.tables_of(train, teacher.tokenizer)
    own = train.tuples()
    buckets, lengths = batches.by_length(own, tables, teacher.max_length, bucketed)
    order = orders.ShuffledByLength(buckets, small, 1)
    made = batches.TupleBatches(own, order, ('label',), teacher.outputs, replicas)
    return made.packed(0, tables, teacher.max_length, lengths)

  def of_teacher(teacher: Teacher, bucketed: bool) -> Form:
    def loss(batch: dict) -> tf.Tensor:
      logits = teacher.model(batch['ids'], batch['segment_ids'], training=True)
      return cross_entropy(batch['label'], logits)

    return teacher.model, teacher.model.trainable_variables, loss, packed(bucketed), small

  def of_stage2(trainer: Trainer) -> Form:
    def loss(batch: dict) -> tf.Tensor:
      return trainer.loss_of(batch, frozen=False)

    model = trainer.model
    return model, model.used_variables, loss, trainer.batches_by_item(phase, tuples), large

  def plain() -> tf.data.Dataset:
    """Both texts of each tuple, padded to their most tokens."""
    tables, most = tokens.tables_of(trainer.distill, tokenizer), student.max_lengths
    made = trainer.batches_by_item(phase, tuples).map(lambda batch: batch['items'])
    targets = trainer.batches_by_item(phase, tuples).map(lambda batch: batch['soft_labels'])

    def padded(items: tf.Tensor, slot: int) -> tf.Tensor:
      take = lambda x: tables[slot].padded(x, most[slot], most[slot])  # noqa: E731
      ids = tf.numpy_function(take, [items[:, slot]], tf.int32)
      return tf.ensure_shape(ids, [large, most[slot]])

    ids = made.map(lambda items: tuple(padded(items, slot) for slot in range(student.slots)))
    zipped = tf.data.Dataset.zip(ids, targets)
    return zipped.map(lambda ids, soft: {'ids': ids, 'soft_labels': soft})

  def plain_loss(batch: dict) -> tf.Tensor:
    tokens = [student.encode(ids, slot, training=True) for slot, ids in enumerate(batch['ids'])]
    return cross_entropy(batch['soft_labels'], student.score_vectors(tokens, training=True))

  def frozen_loss(batch: dict) -> tf.Tensor:
    return trainer.loss_of(batch, frozen=True)

  with strategies.precision('mixed_bfloat16'):
    quick_teacher = Teacher.load(run.path('teacher'))
    quick = _trainer(run, *DiPair.load(run.path('student')), strategy)

  everything, new = student.used_variables, student.new_variables
  cached = run.path('benchmark/cache')
  comparisons: dict[str, tuple[Form, Form]] = {
    'teacher: bucketed / padded': (of_teacher(teacher, True), of_teacher(teacher, False)),
    'teacher: bfloat16 / float32': (of_teacher(quick_teacher, True), of_teacher(teacher, True)),
    'stage 1: cached / plain': (
      (
        student,
        new,
        frozen_loss,
        trainer.cached_batches(phase, tuples, trainer.used_items(tuples), cached),
        large,
      ),
      (student, new, plain_loss, plain(), large),
    ),
    'stage 2: each text once / plain': (
      of_stage2(trainer),
      (student, everything, plain_loss, plain(), large),
    ),
    'stage 2: bfloat16 / float32': (of_stage2(quick), of_stage2(trainer)),
  }
  rows = []
  for name, forms in comparisons.items():
    rates = _rates([_steps(*form, strategy) for form in forms], forms[0][4], config.steps, name)
    rows.append({'name': name, 'pairs_per_second': rates, 'ratio': rates[0] / rates[1]})
    print(f'{name:34} {rates[0]:8.0f} {rates[1]:8.0f}  x{rates[0] / rates[1]:.2f}')
  if config.output:
    blocks = run.flags['block_pairs']
    committed.write(config.output, 'benchmarks.training', config, block_pairs=blocks, rows=rows)


def _trainer(
  run: FinishedRun, model: DiPair, tokenizer: Tokenizer, strategy: tf.distribute.Strategy
) -> Trainer:
  """A student's trainer on a run's distillation set."""
  return Trainer(model, tokenizer, run.training(model.outputs, strategy), CrossEntropy())


def _steps(model, variables, loss, dataset, batch_size, strategy) -> Iterator[None]:
  """Training steps, one at each `next`."""
  phase = loop.Phase('benchmark', model, variables, loss, lambda start: dataset, dict, '')
  config = PhaseConfig(learning_rate=1e-9, batch_size=batch_size)
  run = loop.Run(phase, config, '')
  step = loop.train_step(phase, config, run, strategy, dataset.element_spec)
  return (step(batch) for batch in dataset.prefetch(2))


def _rates(forms: list[Iterator[None]], batch_size: int, steps: int, name: str) -> list[float]:
  """Mean pairs a second of each form, their steps in turn (lengths differ from step to step)."""
  times: list[list[float]] = [[] for _ in forms]
  for _ in tqdm(range(steps + 2), desc=name, leave=False):
    for form, taken in zip(forms, times, strict=True):
      started = time.perf_counter()
      next(form)
      taken.append(time.perf_counter() - started)
  return [batch_size * len(t[2:]) / sum(itertools.islice(t, 2, None)) for t in times]


if __name__ == '__main__':
  flags.command(main, BenchmarkConfig)
