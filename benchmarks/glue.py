"""DSE on GLUE's tasks by several seeds: teachers and variants of students, without exports.

  python -m benchmarks.glue --run_dir=runs/glue_seeds --data_dir=data/glue --precision=auto \
    --tasks=benchmarks/glue_long/qqp.flags,benchmarks/glue_long/mrpc.flags \
    --output=benchmarks/results/glue_seeds.json

Each task and seed is the folder of a `dse.run`, in which the command goes on where it was stopped.
"""

import dataclasses
import os
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from benchmarks import committed
from common import flags
from common.data.records import RecordSet
from common.distillation import judged_set, results
from common.distillation.experiment import Experiment
from common.distillation.inference import TupleScorer
from common.distillation.judged_set import JudgedSet
from common.distillation.run_folder import RunFolder, Stage
from common.distillation.stages.run import Run, Trained
from common.evaluation import report
from common.evaluation.cells import metric
from common.training import strategies
from dse import suite
from dse.run import DSEStudent, RunConfig

_SETS = ('valid', 'test')


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig:
  """Tasks, seeds, and where their runs are."""

  tasks: tuple[str, ...] = flags.option((), 'flagfiles of dse.run')
  run_dir: str = flags.option('runs/glue_seeds', 'gets a folder a flagfile and seed')
  data_dir: str = flags.option('data/glue', "GLUE's folders")
  seeds: tuple[int, ...] = flags.option(
    (7, 8, 9), 'seeds of new weights, dropout and batches', bounds=(0, 2**31 - 1)
  )
  precision: str = flags.option(
    'auto', 'arithmetic of training', ('float32', 'mixed_bfloat16', 'auto')
  )
  output: str = flags.option('', 'JSON file of the metrics')


def main(config: BenchmarkConfig) -> None:
  """Trains what is not trained yet, prints Table 1 of means, writes the file."""
  runs = {}
  for path in config.tasks:
    name = os.path.basename(path).removesuffix('.flags')
    runs[name] = _compared([_judged(path, name, seed, config) for seed in config.seeds])
    for model in runs[name]['models']:
      of_seeds = ', '.join(map(metric, model['seeds']['test']))
      print(f'{name}, {model["name"]}: {runs[name]["primary_metric"]} {of_seeds}', flush=True)
  if done := {name: run for name, run in runs.items() if name == run['flags']['task']}:
    print(report.grid(suite.table1(done)))
  if config.output:
    committed.write(config.output, 'glue', config, runs=runs)


@dataclasses.dataclass(frozen=True)
class Curves:
  """Each training's metric on valid by step, and what it was trained on."""

  curves: dict[str, list[tuple[int, float]]]
  accelerators: str


class Judged(Stage[Curves]):
  """Logits of the teacher and of each variant, of valid and test."""

  name, result = 'judged', Curves

  def __init__(self, made: Experiment, folder: RunFolder):
    super().__init__(made.shared.folder, [made.student], {})
    self.made, self.of_run = made, folder

  @strategies.precision()
  def run(self, folder: str) -> Curves:
    made, teachers = self.made, self.made.evaluation.teachers
    assert teachers is not None and made.teacher is not None
    scorers = {'teacher': teachers.scorers()[0]}
    for name, trained in made.student.models().items():
      scorers[name] = TupleScorer(*trained, tf.distribute.get_strategy()).of_set
    for name in _SETS:
      records = RecordSet(os.path.join(made.data.folder, name))
      logits: dict[str, Any] = {of: scorer(records) for of, scorer in scorers.items()}
      np.savez(os.path.join(folder, name), **logits)
    watched = judged_set.primary(made.shared.table.base_task)
    stages: list[Stage[Trained]] = [made.teacher, made.student]
    phases = [phase for stage in stages for phase in self.of_run.result(stage).phases]
    curves = {
      of['name']: [(at['step'], at['valid'][watched]) for at in of['history']] for of in phases
    }
    return Curves(curves, results.environment()['accelerators'])


@strategies.settings_restored()
def _judged(path: str, name: str, seed: int, config: BenchmarkConfig) -> dict[str, Any]:
  """A task's run by one seed: its flags, data, curves, and logits by set and model."""
  run_dir = os.path.join(config.run_dir, name, str(seed))
  own = {'run_dir': run_dir, 'data_dir': config.data_dir, 'seed': seed}
  run = flags.build(
    RunConfig, {**flags.named(RunConfig, path), **own, 'precision': config.precision}
  )
  print(f'== {run_dir}', flush=True)
  tf_keras.backend.clear_session()
  devices, table = run.experiment.devices, run.experiment.data.table
  student, strategy = DSEStudent(run), strategies.create(devices)
  made = Experiment(run.experiment, student, Run(run_dir, table, devices, strategy, seed))
  folder = RunFolder(run_dir, run, 'dse.run', redo=False)
  judged = Judged(made, folder)
  stages = made.stages()
  if os.path.exists(judged.folder):
    folder.run([made.data])
  else:
    folder.run([*stages[: stages.index(made.student) + 1], judged])
  logits = {of: dict(np.load(os.path.join(judged.folder, f'{of}.npz'))) for of in _SETS}
  found = {'data': made.data.folder, 'task': table.base_task, 'flags': flags.flat(run)}
  return {**found, 'logits': logits, **dataclasses.asdict(folder.result(judged))}


def _compared(runs: list[dict[str, Any]]) -> dict[str, Any]:
  """A task's runs together: means over seeds, and differences of these means."""
  first, *_ = runs
  judges = {
    name: JudgedSet(RecordSet(os.path.join(first['data'], name)), first['task']) for name in _SETS
  }
  models: list[dict[str, Any]] = []
  columns: dict[str, dict[str, np.ndarray]] = {name: {} for name in _SETS}
  for model in first['logits']['test']:
    of_model: dict[str, Any] = {'name': model, 'seeds': {}}
    for name, judge in judges.items():
      logits = [run['logits'][name][model] for run in runs]
      each = [judge.evaluate(of) for of in logits]
      of_model[name] = {key: float(np.mean([of[key] for of in each])) for key in each[0]}
      of_model['seeds'][name] = [of[judge.primary] for of in each]
      columns[name][model] = judge.resampled(logits).mean(0)
    if models:
      of_model |= results.changes(columns, model)
    models.append(of_model)
  tested = [results.tested(columns['test'], 'student', 'student, labels')]
  return {
    'models': models,
    'significance': tested[0],
    'primary_metric': judges['test'].primary,
    'flags': first['flags'],
    'curves': [run['curves'] for run in runs],
    'accelerators': sorted({run['accelerators'] for run in runs}),
  }


if __name__ == '__main__':
  flags.command(main, BenchmarkConfig)
