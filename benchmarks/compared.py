"""Students of several runs on their common test set, each against each, after each stage.

  python -m benchmarks.compared --run_dirs=runs/homedepot_4x12,runs/homedepot_4x8 \
    --output=benchmarks/results/homedepot_compared.json
"""

import dataclasses
import itertools
import os
from typing import Any

import numpy as np

from benchmarks import committed
from common import flags
from common.data.records import RecordSet
from common.distillation.inference import TupleScorer
from common.errors import InputError
from common.evaluation import report, significance
from common.evaluation.cells import chance, label, metric, moved
from common.evaluation.tables import Table
from common.training import strategies
from dipair.finished_run import FinishedRun
from dipair.run import DiPairStudent, RunConfig


@dataclasses.dataclass(frozen=True)
class ComparedConfig:
  """The runs, and where the figures go."""

  run_dirs: tuple[str, ...] = flags.option((), 'two finished runs of dipair.run, or more')
  output: str = flags.option('', 'JSON file of the figures')


def main(config: ComparedConfig) -> None:
  """Scores test by each student, prints, writes."""
  names = [os.path.basename(os.path.normpath(folder)) for folder in config.run_dirs]
  if len({*names}) < max(2, len(names)):
    raise InputError(
      f'--run_dirs={",".join(config.run_dirs)}: two folders or more, each of its name'
    )
  strategy = strategies.create(strategies.DeviceConfig())
  runs = {name: FinishedRun(of) for name, of in zip(names, config.run_dirs, strict=True)}
  first = next(iter(runs.values()))
  judged, asked = first.judged('test'), _tuples(first)
  models: list[dict[str, Any]] = []
  of_stages: dict[str, dict[str, np.ndarray]] = {}
  for name, run in runs.items():
    if _tuples(run) != asked:
      raise InputError(f'--run_dirs: {run.folder} has another test set than {first.folder}')
    student = DiPairStudent(run.config(RunConfig))
    for stage, trained in student.models(run.path('student')).items():
      print(f'{name}: {stage}', flush=True)
      logits = TupleScorer(*trained, strategy).of_set(RecordSet(run.path('data/test')))
      of_stages.setdefault(stage, {})[name] = logits
      models.append({'run': name, 'model': stage, 'test': judged.evaluate(logits)[first.metric]})
  made = {
    'runs': {name: run.results['command'] for name, run in runs.items()},
    'metric': first.metric,
    'models': models,
    'differences': [
      {'model': stage, **found}
      for stage, logits in of_stages.items()
      for found in _differences([*logits], judged.resampled([*logits.values()]))
    ],
  }
  for stage in of_stages:
    print(f'\n{stage}\n{report.grid(table(made, stage))}')
  if config.output:
    committed.write(config.output, 'compared', config, **made)


def table(made: dict[str, Any], stage: str) -> Table:
  """Each run's student of a stage (row) against each before it (column)."""
  values = {row['run']: row['test'] for row in made['models'] if row['model'] == stage}
  found = {(of['run'], of['baseline']): of for of in made['differences'] if of['model'] == stage}
  rows = []
  for run, value in values.items():
    of_run = [found.get((run, baseline)) for baseline in [*values][:-1]]
    cells = [tested(of) if of else '' for of in of_run]
    rows.append([run, metric(value), *cells])
  against = [f'against {baseline}' for baseline in [*values][:-1]]
  note = (
    f'{label(made["metric"])} on test. In brackets the 95% interval, p two-sided: paired bootstrap.'
  )
  return Table(note, ['', label(made['metric']), *against], rows)


def tested(found: dict[str, Any]) -> str:
  """A difference as `significance` has it, and its p."""
  return f'{moved(found["delta"], found["low"], found["high"])}, p {chance(found["p_value"])}'


def _tuples(run: FinishedRun) -> list[Any]:
  """Test's texts and labels, in their order."""
  records = RecordSet(run.path('data/test'))
  return [*zip(records.texts(), records.tuples().labels.tolist(), strict=True)]


def _differences(runs: list[str], columns: np.ndarray) -> list[dict[str, Any]]:
  """Each run's student against each before it, by resampled metrics [runs, 1 + samples]."""
  return [
    {
      'run': runs[i],
      'baseline': runs[j],
      **significance.difference(columns[j], columns[i])._asdict(),
    }
    for j, i in itertools.combinations(range(len(runs)), 2)
  ]


if __name__ == '__main__':
  flags.command(main, ComparedConfig)
