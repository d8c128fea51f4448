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
    runs = [_run(path, name, seed, config) for seed in config.seeds]
    first = runs[0].experiment
    watched = judged_set.primary(first.data.table.base_task)
    curves = [_curve(run, watched) for run in runs]
    print(f'{name}: {", ".join(metric(max(value for _, value in of)) for of in curves)}')
    tasks[name] = {'metric': watched, 'steps': first.teacher_phase.steps, 'curves': curves}
  if config.output:
    committed.write(config.output, 'glue_teachers', config, tasks=tasks)


def _run(path: str, name: str, seed: int, config: BenchmarkConfig) -> RunConfig:
  """The run of a task's flagfile by a seed."""
  own: dict[str, Any] = {
    'run_dir': os.path.join(config.run_dir, name, str(seed)),
    'data_dir': config.data_dir,
  }
  own |= {'seed': seed, 'precision': config.precision}
  return flags.build(RunConfig, {**flags.named(RunConfig, path), **own})


@strategies.settings_restored()
def _curve(run: RunConfig, watched: str) -> list[tuple[int, float]]:
  """A teacher's (step, watched metric on valid) at each evaluation."""
  config = run.experiment
  print(f'== {config.run_dir}', flush=True)
  tf_keras.backend.clear_session()
  devices, table = config.devices, config.data.table
  shared = Run(config.run_dir, table, devices, strategies.create(devices), config.seed)
  made = Experiment(config, DSEStudent(run), shared)
  assert made.teacher is not None
  folder = RunFolder(config.run_dir, run, 'dse.run', redo=False)
  folder.run([made.data, made.teacher])
  (trained,) = folder.result(made.teacher).phases
  return [(at['step'], at['valid'][watched]) for at in trained['history']]


if __name__ == '__main__':
  flags.command(main, BenchmarkConfig)
