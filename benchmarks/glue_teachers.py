"""GLUE's teachers by several seeds, until valid stops rising: their metric on it, evaluation by evaluation.

  python -m benchmarks.glue_teachers --run_dir=runs/glue_seeds --data_dir=data/glue \
    --tasks=benchmarks/glue_long/qqp.flags,benchmarks/glue_long/snli.flags \
    --output=benchmarks/results/glue_teachers.json

Each is in the folder of a `dse.run` of its own, whose student a run with the same flags goes on to; the command
goes on where it was stopped.
"""

import dataclasses
import os
from typing import Any

import tf_keras

from benchmarks import committed
from common import flags
from common.distillation import judged_set
from common.distillation.experiment import Experiment
from common.distillation.run_folder import RunFolder
from common.distillation.stages.run import Run
from common.evaluation.cells import metric
from common.training import strategies
from dse.run import DSEStudent, RunConfig


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig:
  """Tasks, seeds, and where their runs are."""

  tasks: tuple[str, ...] = flags.option((), 'flagfiles of dse.run, each named after its task')
  run_dir: str = flags.option('runs/glue_seeds', 'gets a folder a task and seed')
  data_dir: str = flags.option('data/glue', "GLUE's folders")
  seeds: tuple[int, ...] = flags.option(
    (7, 8, 9), 'seeds of new weights, dropout and batches', bounds=(0, 2**31 - 1)
  )
  precision: str = flags.option(
    'auto', 'arithmetic of training', ('float32', 'mixed_bfloat16', 'auto')
  )
  output: str = flags.option('', 'JSON file of the metrics')


def main(config: BenchmarkConfig) -> None:
  """Trains what is not trained yet, prints each one's best metric on valid, writes the file."""
  tasks = {}
  for path in config.tasks:
    name = os.path.basename(path).removesuffix('.flags')
    curves = [_curve(path, name, seed, config) for seed in config.seeds]
    print(f'{name}: {", ".join(metric(max(value for _, value in of)) for of in curves)}')
    run = flags.named(RunConfig, path)
    watched = judged_set.primary(flags.build(RunConfig, run).experiment.data.table.base_task)
    tasks[name] = {'metric': watched, 'steps': run['teacher_steps'], 'curves': curves}
  if config.output:
    committed.write(config.output, 'glue_teachers', config, tasks=tasks)


@strategies.settings_restored()
def _curve(path: str, name: str, seed: int, config: BenchmarkConfig) -> list[tuple[int, float]]:
  """A teacher's (step, metric that decides on valid) at each evaluation."""
  run_dir = os.path.join(config.run_dir, name, str(seed))
  own = {'run_dir': run_dir, 'data_dir': config.data_dir, 'seed': seed}
  given: dict[str, Any] = {**flags.named(RunConfig, path), **own, 'precision': config.precision}
  run = flags.build(RunConfig, given)
  print(f'== {run_dir}', flush=True)
  tf_keras.backend.clear_session()
  devices, table = run.experiment.devices, run.experiment.data.table
  shared = Run(run_dir, table, devices, strategies.create(devices), seed)
  made = Experiment(run.experiment, DSEStudent(run), shared)
  assert made.teacher is not None
  folder = RunFolder(run_dir, run, 'dse.run', redo=False)
  folder.run([made.data, made.teacher])
  (trained,) = folder.result(made.teacher).phases
  watched = judged_set.primary(table.base_task)
  return [(at['step'], at['valid'][watched]) for at in trained['history']]


if __name__ == '__main__':
  flags.command(main, BenchmarkConfig)
