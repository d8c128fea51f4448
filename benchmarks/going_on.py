"""Stage 2 of a run's student, again from its stage 1: on all pairs, on those it gets most wrong; and averages.

  python -m benchmarks.going_on --run_dir=runs/homedepot_all --output=benchmarks/results/going_on.json

Each seed has its own order of the pairs, and dropout. Then the seeds' weights are averaged (Wortsman et al., 2022,
arXiv:2203.05482), and their logits. What is trained stays in the run's benchmark/going_on until all is judged, so
the same command goes on after an interruption.
"""

import dataclasses
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tf_keras

from benchmarks import committed
from common import flags
from common.data import record_writer
from common.data.records import BLOCKS, RecordSet
from common.data.tuples import FLOATS, Tuples
from common.distillation import results
from common.distillation.inference import TupleScorer
from common.distillation.teacher import scorer_of
from common.distillation.trainer import Trainer
from common.modeling.losses import probabilities
from common.training import strategies
from common.training.strategies import DeviceConfig
from dipair import training
from dipair.config import TrainConfig
from dipair.finished_run import FinishedRun
from dipair.student import DiPair

START, TEACHER = 'stage 1', 'teacher'
_SETS = ('valid', 'test')
Logits = dict[str, np.ndarray]  # by set


@dataclasses.dataclass(frozen=True)
class GoingOnConfig:
  """The run, and how it goes on."""

  run_dir: str = flags.option('runs/homedepot', 'a finished run of dipair.run, of two stages')
  output: str = flags.option('', 'JSON file of the metrics')
  steps: int = flags.option(200, "steps, at the run's own batch size and rate", bounds=(2, 10**9))
  share: float = flags.option(
    0.5, 'share of the pairs that the student gets most wrong', bounds=(0.01, 1)
  )
  seeds: tuple[int, ...] = flags.option((7, 8, 9), 'seeds of each', bounds=(0, 2**31 - 1))


def main(config: GoingOnConfig) -> None:
  """Trains in each way, judges all, prints, writes the file."""
  run = FinishedRun(config.run_dir)
  root, distill = run.path('benchmark/going_on'), RecordSet(run.path('distill'))
  judged = _Judged(run)
  found = {TEACHER: [judged.teacher()], START: [judged.logits(judged.start)]}
  print(f'{START}: the scores of {len(distill):,} pairs, some minutes', flush=True)
  of_distill = judged.scored(judged.start, distill)
  wrong, stage2 = os.path.join(root, 'pairs'), _Stage2(run, judged.start, config.steps)
  count = _most_wrong(distill, of_distill, config.share, wrong)
  for name, folder in (('all pairs', distill.folder), (f'the {count:,} most wrong', wrong)):
    path = os.path.join(root, os.path.basename(folder))
    students = [stage2.trained(folder, path, seed) for seed in config.seeds]
    found[name] = [judged.logits(weights) for weights in students]
    mean = [np.mean(values, axis=0) for values in zip(*students, strict=True)]
    found[f'{name}, mean of the weights'] = [judged.logits(mean)]
    found[f'{name}, mean of the logits'] = [
      {of: np.mean([z[of] for z in found[name]], axis=0) for of in _SETS}
    ]
  rows = _rows(run, found)
  for row in rows:
    print(
      f'{row["name"]}: {np.mean(row["valid"]):.4f} on valid, {np.mean(row["test"]):.4f} on test'
    )
  shutil.rmtree(root)
  if config.output:
    precision = stage2.devices.precision
    committed.write(
      config.output, 'going_on', config, metric=run.metric, precision=precision, rows=rows
    )


class _Judged:
  """The run's student in float32, with the weights that it is given.

  Attributes:
    start: Those that stage 1 left.
  """

  def __init__(self, run: FinishedRun):
    self.run, self.strategy = run, strategies.create(DeviceConfig())
    self.model, tokenizer = DiPair.load(run.path('student'))
    self.scorer = TupleScorer(self.model, tokenizer, self.strategy)
    training.restore(run.path('student/stage1'), self.model)
    self.start = _weights(self.model)

  def teacher(self) -> Logits:
    """The teacher's logits."""
    score = scorer_of(self.run.teachers(), self.strategy)
    return {name: score(RecordSet(self.run.path(f'data/{name}'))) for name in _SETS}

  def logits(self, weights: Sequence[np.ndarray]) -> Logits:
    """A student's logits."""
    return {name: self.scored(weights, RecordSet(self.run.path(f'data/{name}'))) for name in _SETS}

  def scored(self, weights: Sequence[np.ndarray], records: RecordSet) -> np.ndarray:
    """A student's logits of one set."""
    _set(self.model, weights)
    return self.scorer.of_set(records)


class _Stage2:
  """Stage 2 of the run's student, again from the weights of its stage 1.

  Attributes:
    devices: Its arithmetic.
  """

  def __init__(self, run: FinishedRun, start: Sequence[np.ndarray], steps: int):
    self.run, self.start, self.devices = run, start, DeviceConfig(precision='auto')
    self.phases = run.config(TrainConfig)
    self.phase = dataclasses.replace(
      self.phases.stage2,
      steps=steps,
      warmup_steps=steps // 10,
      eval_every=steps,
      patience=0,
    )

  def trained(self, distill: str, folder: str, seed: int) -> list[np.ndarray]:
    """Weights after it on a record set, or those it began with where these are better on valid."""
    tf_keras.utils.set_random_seed(seed)
    strategy = strategies.create(self.devices)
    model, tokenizer = DiPair.load(self.run.path('student'))
    _set(model, self.start)
    data = self.run.training(model.outputs, strategy, seed, self.devices)
    data = dataclasses.replace(data, distill=distill)
    trainer = Trainer(model, tokenizer, data, self.phases.objective.build(data.task))
    name = f'{os.path.basename(folder)}, seed {seed}'
    trainer.fit(name, self.phase, os.path.join(folder, str(seed)), frozen=False)
    return _weights(model)


def _weights(model: DiPair) -> list[np.ndarray]:
  return [variable.numpy() for variable in model.variables]


def _set(model: DiPair, weights: Sequence[np.ndarray]) -> None:
  for variable, value in zip(model.variables, weights, strict=True):
    variable.assign(value)


def _most_wrong(records: RecordSet, logits: np.ndarray, share: float, folder: str) -> int:
  """Writes the share of a set whose soft labels the logits are farthest from; returns how many they are."""
  tuples = records.tuples()
  off = np.abs(probabilities(logits).numpy() - np.asarray(tuples.soft_labels)).sum(1)
  kept = np.zeros(len(off), bool)
  kept[np.argsort(-off, kind='stable')[: max(1, round(share * len(off)))]] = True

  def groups() -> Iterator[Tuples]:
    for begin, end in itertools.pairwise(tuples.groups):
      if len(rows := begin + np.flatnonzero(kept[begin:end])):
        known: dict[str, Any] = {
          name: np.asarray(values[rows])
          for name in FLOATS
          if (values := getattr(tuples, name)) is not None
        }
        yield Tuples(tuples.items[rows], **known)

  tables = record_writer.tables_from(records, folder)
  info = {BLOCKS: records.manifest.info.get(BLOCKS, False)}
  return record_writer.write(folder, groups(), tables, info=info).count


def _rows(run: FinishedRun, found: dict[str, list[Logits]]) -> list[dict[str, Any]]:
  """Each one's metric on both sets, and its change on test from the teacher, stage 1, and all pairs' mean seed."""
  judges = {name: run.judged(name) for name in _SETS}
  test = {
    name: judges['test'].resampled([z['test'] for z in of]).mean(0) for name, of in found.items()
  }
  baselines = [*found][:3]
  return [
    {
      'name': name,
      **{s: [judges[s].evaluate(z[s])[run.metric] for z in of] for s in _SETS},
      'against': {one: results.changes({'test': test}, name, one) for one in baselines},
    }
    for name, of in found.items()
  ]


if __name__ == '__main__':
  flags.command(main, GoingOnConfig)
