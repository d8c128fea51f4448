"""The study of the DiPair paper (§4) on a finished run: its tables and figures from students trained here.

  python -m dipair.study --flagfile=configs/study.flags --run_dir=runs/homedepot --tables=2,5 --figures=3b

Students differ from the run's own by a few flags; each is trained once, in RUN/study, and the same
command goes on where it was killed.
"""

import os

from common import files, flags
from common.distillation import results as environments
from common.errors import InputError
from common.evaluation import metrics
from dipair.finished_run import FinishedRun
from dipair.study import comparisons, page, results, rows, speeds
from dipair.study.config import StudyConfig
from dipair.study.plan import Plan


def main(config: StudyConfig) -> None:
  """Says what it costs, trains what is missing, evaluates, measures, writes tables and figures."""
  asked = (config.tables, config.figures, config.students)
  found = [] if config.sweep else comparisons.asked(*asked)
  if not config.rounds:
    found = [comparison.untimed for comparison in found]
  if config.sweep and (config.seeds or config.output or config.students):
    raise InputError('--sweep prints one student: leave out --students, --seeds and --output')
  if not found and not config.sweep:
    raise InputError(
      f'--tables (of {", ".join(rows.TABLES)}), --figures (of {", ".join(rows.FIGURES)}), --students '
      'or --sweep is needed'
    )
  run = FinishedRun(config.run_dir)
  plan = Plan(config, run, found)
  for folder in (plan.root, os.path.dirname(config.output) or '.'):
    os.makedirs(folder, exist_ok=True)
  with files.alone(plan.root, '--run_dir'):
    plan.renew()
    if config.sweep:
      from dipair.study.sweep import sweep

      print('\n'.join(sweep(plan, config.sweep)))
      return
    print(plan.cost())
    plan.train()
    own = metrics.METRICS[run.table.base_task]
    study = {
      'title': run.results['title'],
      'metrics': list(dict.fromkeys([run.results['primary_metric'], *own]))[:2],
      'command': flags.command_line('dipair.study', flags.changed(config)),
      'commit': environments.commit(),
      'environment': environments.environment(),
      'run': {'command': run.results['command'], 'commit': run.results['commit']},
      **results.collect(plan),
      'speed': speeds.measured(run, plan.timed, config.rounds) if plan.timed else {},
      'encoding': speeds.encoding(run, plan.encoding),
    }
    study = environments.finite(study)
    files.write_json(config.output or os.path.join(plan.root, 'study.json'), study)
    path = page.write(study, plan.root)
  print(page.text(study))
  print(f'study: {path}')


if __name__ == '__main__':
  flags.command(main, StudyConfig)
