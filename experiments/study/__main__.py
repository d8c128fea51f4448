"""The study of the DiPair paper (§4): tables and figures of students trained on a finished run.

  python -m experiments.study --flagfile=configs/study.flags --run_dir=runs/homedepot --tables=2,5

A row of a table is a student's flagfile: the flags that differ from the run's. Each student is
trained once, in RUN/study, and the same command goes on where it was killed.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from common import files, flags
from common.distillation import provenance
from common.distillation.config import NO_TEACHER
from common.distillation.run_folder import RunFolder
from common.errors import InputError
from common.evaluation import metrics, pages
from common.evaluation.results import finite
from dipair.config import StudentConfig, TrainConfig
from experiments.finished_run import FinishedRun
from experiments.study import comparing, figures, rows, speeds, tables
from experiments.study.rows import Comparison, Row
from experiments.study.speeds import Comparisons
from experiments.study.students import (
  CrossConfig,
  CrossStudent,
  Judged,
  Model,
  Student,
  TeacherScores,
  Worth,
  clear,
)

_AS_RUN = 'run'
_TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'study.md')


@dataclasses.dataclass(frozen=True)
class StudyConfig:
  """The run, and the students to compare on it."""

  run_dir: str = flags.option('', 'a finished run of dipair.run; its folder gets study/')
  tables: tuple[str, ...] = flags.option((), f'tables to make, of {", ".join(rows.TABLES)}')
  figures: tuple[str, ...] = flags.option((), f'figures to make, of {", ".join(rows.FIGURES)}')
  students: tuple[str, ...] = flags.option(
    (),
    "flagfiles, or folders of them, of students to compare with the run's; each file names the "
    "flags of dipair.run that differ from the run's",
  )
  seeds: tuple[int, ...] = flags.option(
    (),
    "seeds of each student; tables show mean and spread; empty: the run's seed",
    bounds=(0, 2**31 - 1),
  )
  stage1_steps: int = flags.option(-1, "steps of stage 1; -1: the run's", bounds=(-1, 10**9))
  stage2_steps: int = flags.option(
    -1, "steps of stage 2; 0 trains stage 1 alone; -1: the run's", bounds=(-1, 10**9)
  )
  precision: str = flags.option(
    _AS_RUN,
    "arithmetic of training; run: the run's, auto: mixed_bfloat16 where the devices compute in it",
    (_AS_RUN, 'float32', 'mixed_bfloat16', 'auto'),
  )
  cross: CrossConfig = flags.group(
    CrossConfig, heading='cross-attention students, left out at --cross_steps=0'
  )
  rounds: int = flags.option(
    5, 'rounds of the speeds, of which the median is taken; 0: no speeds', bounds=(0, 1000)
  )
  output: str = flags.option('', 'JSON file of all numbers; empty: study/study.json of the run')
  redo: bool = flags.option(False, 'train students anew that other flags made', kept=False)

  def __post_init__(self):
    if not self.rounds and '1' in self.figures:
      raise InputError('--rounds=0 measures no speeds, and --figures=1 shows them')
    if len(set(self.seeds)) < len(self.seeds):
      raise InputError(f'--seeds={",".join(map(str, self.seeds))}: name each seed once')


def main(config: StudyConfig) -> None:
  """Says what it costs, trains what is missing, compares, measures, writes tables and figures."""
  asked = rows.asked(config.tables, config.figures, config.students)
  if not asked:
    raise InputError(
      f'--tables (of {", ".join(rows.TABLES)}), --figures (of {", ".join(rows.FIGURES)}) or '
      '--students is needed'
    )
  run = FinishedRun(config.run_dir)
  folder = RunFolder(run.path('study'), config, 'experiments.study', config.redo)
  teacher, students, comparisons = declare(config, run, folder, asked)
  os.makedirs(os.path.dirname(config.output) or '.', exist_ok=True)
  print(cost(run, students))
  folder.make()
  clear(folder.path)
  own = metrics.METRICS[run.task.kind]
  study = finite(
    {
      'title': run.results['title'],
      'metrics': list(dict.fromkeys([run.results['primary_metric'], *own]))[:2],
      'command': flags.command_line('experiments.study', flags.changed(config)),
      'commit': provenance.commit(),
      'environment': provenance.environment(),
      'run': {'command': run.results['command'], 'commit': run.results['commit']},
      **comparing.compared(run, [teacher, *students], comparisons),
      'speed': speeds.measured(run, comparisons, config.rounds),
    }
  )
  files.write_json(config.output or folder.file('study.json'), study)
  write_page(study, folder.path)


def declare(
  config: StudyConfig, run: FinishedRun, folder: RunFolder, asked: Sequence[Comparison]
) -> tuple[Model, list[Model], Comparisons]:
  """Declares the models of a study; `folder.make` makes them.

  Returns:
    The teacher; all students, in the order of their training; the comparisons.

  Raises:
    InputError: A study cannot stand on the run, or a student that is to be trained does not fit it.
  """
  if len(run.table.text_columns) != 2 or run.table.vector_columns:
    raise InputError(f'--run_dir={run.folder}: a study is of pairs of texts')
  if NO_TEACHER in run.flags['teachers']:
    raise InputError(f'--run_dir={run.folder}: had no teacher; a study needs its distillation set')
  if run.flags.get('freeze_right'):
    raise InputError(
      f'--run_dir={run.folder}: its right encoder is frozen, and other students would not fit it; '
      f'name the run that it came from, {run.flags["freeze_right"]}'
    )
  known: dict[str, Model] = {}
  comparisons = []
  for comparison in asked:
    kept = [row for row in comparison.rows if config.cross.phase.steps or not row.is_cross]
    timed = comparison.timed and config.rounds > 0
    comparison = comparison._replace(rows=kept, timed=timed)
    students = [_students(config, run, comparison.title, row) for row in kept]
    of_rows = [[known.setdefault(student.name, student) for student in of] for of in students]
    comparisons.append((comparison, of_rows))
  teacher = TeacherScores(run)
  for model in (teacher, *known.values()):
    model.stage = folder.stage(model.name, Judged, model.make, model.depends_on)
  for student in speeds.timed(comparisons):
    if isinstance(student, Student):
      student.exported = folder.stage(
        f'{student.name}.export', Worth, student.export, {}, after=[student.stage]
      )
  for student in known.values():
    if not student.stage.is_made:
      student.check()
  return teacher, list(known.values()), comparisons


def _students(config: StudyConfig, run: FinishedRun, title: str, row: Row) -> list[Model]:
  """The students of a row, one a seed."""
  precision = run.flags['precision'] if config.precision == _AS_RUN else config.precision
  steps = {'stage1_steps': config.stage1_steps, 'stage2_steps': config.stage2_steps}
  found: list[Model] = []
  for seed in config.seeds or (run.flags['seed'],):
    shared: dict[str, Any] = {'seed': seed, 'precision': precision}
    try:
      if row.is_cross:
        own = {**row.flags, **_differing(run, shared)}
        found.append(CrossStudent(run, own, config.cross))
        continue
      shared |= {name: count for name, count in steps.items() if count >= 0}
      if run.all_layers and 'pretrained' in row.flags:  # all of the other checkpoint's, too
        shared['encoder_layers'] = 0
      found.append(Student(run, _differing(run, {**shared, **row.flags})))
    except InputError as error:
      raise InputError(f'{title}: {row.name}: {error}') from error
  return found


def _differing(run: FinishedRun, asked: dict[str, Any]) -> dict[str, Any]:
  """Flags that differ from the run's, by name."""
  own = {**flags.flat(run.config(StudentConfig)), **flags.flat(run.config(TrainConfig))}
  own |= {name: run.flags[name] for name in ('seed', 'precision')}
  return {name: asked[name] for name in sorted(asked) if asked[name] != own[name]}


def cost(run: FinishedRun, students: Sequence[Model]) -> str:
  """Students to train, their tuples, and hours at the run's own rates."""
  new = [student for student in students if student.tuples and not student.stage.is_made]
  tuples = [phase for student in new for phase in student.tuples.items()]
  rates = {of['name']: of['pairs_per_second'] for of in run.results['training']}
  unknown = {name for name, _ in tuples if not rates.get(name)}
  seconds = sum(count / rates[name] for name, count in tuples if name not in unknown)
  without = f', without {", ".join(sorted(unknown))}' if unknown else ''
  return (
    f'{len(students)} students, {len(new)} to train: '
    f'{sum(count for _, count in tuples):,} tuples, about {seconds / 3600:.1f} hours{without}'
  )


def write_page(study: dict[str, Any], folder: str) -> None:
  """Writes `study.md`, and a picture `<key>.png` of each figure, into a folder; prints the tables.

  Args:
    study: Contents of `study.json`.
    folder: Where to write.
  """
  shown = []
  for key, comparison in study['comparisons'].items():
    title, table, picture = comparison['title'], tables.table(study, key), ''
    if figure := figures.draw(study, key):
      picture = f'{key}.png'
      with files.whole(os.path.join(folder, picture)) as temporary:
        figure.savefig(temporary, dpi=110, format='png')
    shown.append((title, picture, table))
    print(f'{title}\n\n{table._replace(note="")}\n')
  path = os.path.join(folder, 'study.md')
  pages.write(path, _TEMPLATE, study=study, shown=shown)
  print(f'study: {path}')


if __name__ == '__main__':
  flags.command(main, StudyConfig)
