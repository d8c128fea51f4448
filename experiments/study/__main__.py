"""The study of the DiPair paper (§4): tables and figures of students trained on a finished run.

  python -m experiments.study --flagfile=configs/study.flags --run_dir=runs/homedepot --tables=2,5

A row of a table is a student's flagfile: the flags that differ from the run's. Each student is
trained once, in RUN/study, and the same command goes on where it was killed.
"""

import os

from common import files, flags
from common.distillation import results
from common.errors import InputError
from common.evaluation import metrics
from experiments.finished_run import FinishedRun
from experiments.study import comparing, page, rows, speeds
from experiments.study.config import StudyConfig
from experiments.study.plan import plan


def main(config: StudyConfig) -> None:
  """Says what it costs, trains what is missing, compares, measures, writes tables and figures."""
  asked = rows.asked(config.tables, config.figures, config.students)
  if not asked:
    raise InputError(
      f'--tables (of {", ".join(rows.TABLES)}), --figures (of {", ".join(rows.FIGURES)}) or '
      '--students is needed'
    )
  run = FinishedRun(config.run_dir)
  planned = plan(config, run, asked)
  os.makedirs(os.path.dirname(config.output) or '.', exist_ok=True)
  print(planned.cost())
  planned.make()
  own = metrics.METRICS[run.task.kind]
  study = results.finite(
    {
      'title': run.results['title'],
      'metrics': list(dict.fromkeys([run.results['primary_metric'], *own]))[:2],
      'command': flags.command_line('experiments.study', flags.changed(config)),
      'commit': results.commit(),
      'environment': results.environment(),
      'run': {'command': run.results['command'], 'commit': run.results['commit']},
      **comparing.compared(planned),
      'speed': speeds.measured(planned) if planned.timed else {},
      'encoding': speeds.encoding(planned),
    }
  )
  files.write_json(config.output or planned.folder.file('study.json'), study)
  path = page.write(study, planned.folder.path)
  print(page.text(study))
  print(f'study: {path}')


if __name__ == '__main__':
  flags.command(main, StudyConfig)
