"""What a run's student gains after stage 1 by more of it: on all pairs, on those it gets most wrong; and by averages.

  python -m benchmarks.going_on --run_dir=runs/homedepot --output=benchmarks/results/homedepot_going_on.json

All go on from the same weights, the encoders frozen, each seed with its own order of the pairs. Then the seeds' weights
are averaged (Wortsman et al., 2022, arXiv:2203.05482), and their logits.
"""

import dataclasses
import itertools
import os
import shutil
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from benchmarks import committed
from common import flags
from common.data import record_writer
from common.data.records import BLOCKS, RecordSet
from common.data.tokens import TokenizedTuples
from common.data.tuples import FLOATS, Tuples
from common.distillation import results
from common.distillation.trainer import Trainer
from common.modeling.losses import LossConfig, probabilities
from common.training import strategies
from common.training.optimization import PhaseConfig
from dipair import training
from dipair.finished_run import FinishedRun
from dipair.student import DiPair

_START = 'as stage 1 left it'
_SETS = ('valid', 'test')


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig:
  """The run, and how it goes on."""

  run_dir: str = flags.option('runs/homedepot', 'a finished run of dipair.run')
  output: str = flags.option('', 'JSON file of the metrics')
  steps: int = flags.option(
    500, "steps more, at the run's own batch size and rate", bounds=(4, 10**9)
  )
  share: float = flags.option(
    0.5, 'share of the pairs that the student gets most wrong', bounds=(0.01, 1)
  )
  seeds: tuple[int, ...] = flags.option(
    (7, 8, 9), 'seeds of the order of the pairs', bounds=(0, 2**31 - 1)
  )


def main(config: BenchmarkConfig) -> None:
  """Goes on in each way, judges all on test, prints, writes the file."""
  run = FinishedRun(config.run_dir)
  strategy = strategies.create(strategies.DeviceConfig())
  root = run.path('benchmark/going_on')
  whole = _GoingOn(run, strategy, run.path('distill'), os.path.join(root, 'all'), config)
  found = {_START: [whole.logits()]}
  wrong = os.path.join(root, 'pairs')
  count = _most_wrong(RecordSet(whole.distill), whole.of_distill(), config.share, wrong)
  part = _GoingOn(run, strategy, wrong, os.path.join(root, 'wrong'), config)
  for name, way in (('all pairs', whole), (f'the {count:,} pairs it gets most wrong', part)):
    students = [way.trained(seed) for seed in config.seeds]
    found[name] = [way.logits(weights) for weights in students]
    mean = [np.mean(values, axis=0) for values in zip(*students, strict=True)]
    found[f'{name}, mean of the weights'] = [way.logits(mean)]
    found[f'{name}, mean of the logits'] = [
      {of: np.mean([z[of] for z in found[name]], axis=0) for of in _SETS}
    ]
  rows = _judged(run, found)
  for row in rows:
    print(f'{row["name"]}: {np.mean(row["test"]):.4f} on test')
  shutil.rmtree(root)
  if config.output:
    committed.write(config.output, 'going_on', config, metric=run.metric, rows=rows)


class _GoingOn:
  """The student after stage 1, and a set that it goes on with.

  Args:
    run: The finished run.
    strategy: Its devices.
    distill: Record set with soft labels.
    folder: Gets the encoders' outputs, which all its students share.
    config: Steps.
  """

  def __init__(
    self,
    run: FinishedRun,
    strategy: tf.distribute.Strategy,
    distill: str,
    folder: str,
    config: BenchmarkConfig,
  ):
    self.run, self.distill, self.folder = run, distill, folder
    self.model, self.tokenizer = DiPair.load(run.path('student'))
    training.restore(run.path('student/stage1'), self.model)
    self.start = [variable.numpy() for variable in self.model.new_variables]
    self.features = [os.path.join(folder, str(slot)) for slot in range(self.model.slots)]
    self.training = dataclasses.replace(run.training(self.model.outputs, strategy), distill=distill)
    self.loss = run.config(LossConfig).build(self.training.task)
    self.scorer = self._trainer(self.training.seed).scorer
    self.phase = PhaseConfig(
      learning_rate=run.flags['stage1_learning_rate'],
      batch_size=run.flags['stage1_batch_size'],
      warmup_steps=config.steps // 10,
      steps=config.steps,
      eval_every=config.steps // 4,
      patience=0,
    )

  def trained(self, seed: int) -> list[np.ndarray]:
    """The new weights after more steps, those of the best evaluation."""
    self._set(self.start)
    folder = os.path.join(self.folder, f'{seed}')
    trainer = self._trainer(seed)
    trainer.fit(f'seed {seed}', self.phase, folder, frozen=True, cache_gb=8.0, shared=self.features)
    return [variable.numpy() for variable in self.model.new_variables]

  def logits(self, weights: list[np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Of valid and test, with weights or those at the start."""
    self._set(weights or self.start)
    return {name: self._scored(self.run.path(f'data/{name}')) for name in _SETS}

  def of_distill(self) -> np.ndarray:
    """Of the set that it learnt from, at the start."""
    self._set(self.start)
    return self._scored(self.distill)

  def _trainer(self, seed: int) -> Trainer:
    of_seed = dataclasses.replace(self.training, seed=seed)
    return Trainer(self.model, self.tokenizer, of_seed, self.loss)

  def _scored(self, folder: str) -> np.ndarray:
    tuples = TokenizedTuples.of_set(RecordSet(folder), self.tokenizer)
    kept = [os.path.join(of_slot, os.path.basename(folder)) for of_slot in self.features]
    return self.scorer.head_logits(*self.scorer.gather(tuples, kept))

  def _set(self, weights: list[np.ndarray]) -> None:
    for variable, value in zip(self.model.new_variables, weights, strict=True):
      variable.assign(value)


def _most_wrong(records: RecordSet, logits: np.ndarray, share: float, folder: str) -> int:
  """Writes the share of a set whose soft labels the logits are farthest from; returns how many they are."""
  tuples = records.tuples()
  off = np.abs(probabilities(logits).numpy() - np.asarray(tuples.soft_labels)).sum(1)
  kept = np.zeros(len(off), bool)
  kept[np.argsort(-off, kind='stable')[: max(1, round(share * len(off)))]] = True

  held = [name for name in FLOATS if getattr(tuples, name) is not None]

  def groups() -> Iterator[Tuples]:
    for begin, end in itertools.pairwise(tuples.groups):
      if len(rows := begin + np.flatnonzero(kept[begin:end])):
        yield Tuples(tuples.items[rows], **{name: getattr(tuples, name)[rows] for name in held})

  tables = record_writer.tables_from(records, folder)
  info = {BLOCKS: records.manifest.info.get(BLOCKS, False)}
  return record_writer.write(folder, groups(), tables, info=info).count


def _judged(run: FinishedRun, found: dict[str, list[dict[str, np.ndarray]]]) -> list[dict]:
  """Each one's metric on both sets, and its change on test from the start and from going on with all pairs."""
  judges = {name: run.judged(name) for name in _SETS}
  metric = run.metric
  test = {
    name: judges['test'].resampled([z['test'] for z in of]).mean(0) for name, of in found.items()
  }
  first, second = list(found)[:2]
  return [
    {
      'name': name,
      **{s: [judges[s].evaluate(z[s])[metric] for z in of] for s in _SETS},
      **results.changes({'test': test}, name, first),
      'longer': results.changes({'test': test}, name, second),
    }
    for name, of in found.items()
  ]


if __name__ == '__main__':
  flags.command(main, BenchmarkConfig)
