"""Stage 1 from random projections and head against DiPair's starting point, on a finished run.

  python -m benchmarks.starting_point --run_dir=runs/p2t \
    --output=benchmarks/results/p2t_starting_point.json

Same distillation set, batches and learning rate; of each seed, the same random head.
"""

import dataclasses
import itertools
import shutil

import tf_keras

from benchmarks import committed
from benchmarks.training import trainer_of
from common import flags
from common.training import strategies
from common.training.optimization import PhaseConfig
from dipair import training
from dipair.finished_run import FinishedRun
from dipair.student import DiPair


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig:
  """The run to compare on, and the steps."""

  run_dir: str = flags.option('runs/p2t', 'a finished run of dipair.run')
  output: str = flags.option('', 'JSON file of the curves')
  steps: int = flags.option(
    400, "steps of each, at the run's own batch size and rate", bounds=(1, 10**9)
  )
  seeds: tuple[int, ...] = flags.option(
    (7, 8), 'seeds of the weights and batches', bounds=(0, 2**31 - 1)
  )


def main(config: BenchmarkConfig) -> None:
  """Trains both, prints each one's curve, writes the file."""
  run = FinishedRun(config.run_dir)
  chosen, strategy = run.flags, strategies.create(strategies.DeviceConfig())
  student = DiPair.load(run.path('student'))[0]
  phase = PhaseConfig(
    learning_rate=chosen['stage1_learning_rate'],
    batch_size=chosen['stage1_batch_size'],
    warmup_steps=chosen['stage1_warmup_steps'],
    steps=config.steps,
    eval_every=config.steps // 8,
    patience=0,
  )
  rows = []
  metric = run.results['primary_metric']
  for seed, start in itertools.product(
    config.seeds, ('random', 'tokens attend to those like them')
  ):
    tf_keras.utils.set_random_seed(seed)
    model, tokenizer = DiPair.from_pretrained(student.config, student.outputs)
    trainer = trainer_of(run, model, tokenizer, strategy, seed)
    if start != 'random':
      training.start(model, trainer)
    folder = run.path('benchmark/start')
    history = trainer.fit('stage 1', phase, folder, frozen=True, cache_gb=8.0)['history']
    shutil.rmtree(folder)
    curve = [[entry['step'], entry['valid'][metric]] for entry in history]
    rows.append({'start': start, 'seed': seed, 'metric': f'{metric} on valid', 'curve': curve})
    print(f'{start}, seed {seed}: ' + ', '.join(f'{value:.3f} at {step}' for step, value in curve))
  if config.output:
    committed.write(config.output, 'starting_point', config, rows=rows)


if __name__ == '__main__':
  flags.command(main, BenchmarkConfig)
