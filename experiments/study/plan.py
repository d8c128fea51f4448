"""The plan of a study: its students, each a stage of the study's folder; their cost and making."""

import dataclasses
import functools
import os
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np

from common import digests, flags
from common.distillation.run_folder import RunFolder, Stage
from common.errors import InputError
from dipair.config import StudentConfig, TrainConfig
from experiments.finished_run import FinishedRun
from experiments.study.config import AS_RUN, StudyConfig
from experiments.study.rows import Comparison, Row
from experiments.study.students import (
  CrossStudent,
  Judged,
  Model,
  Student,
  TeacherScores,
  Worth,
)

_FEATURES = 'features'  # folder of frozen encoders' outputs


@dataclasses.dataclass(frozen=True)
class Plan:
  """Students of a study by comparison, and their stages.

  Attributes:
    config: The study's flags.
    run: The run that it stands on.
    folder: The study's folder.
    comparisons: Each comparison, with the names of each row's students, one a seed.
    students: All students by name, in the order of their training.
    stages: Stages of the teacher and the students, by name.
    timed: Names of the students whose speeds are measured: of each row the first seed's.
    exports: Stages of the exports of those that are DiPair's, by name.
  """

  config: StudyConfig
  run: FinishedRun
  folder: RunFolder
  comparisons: list[tuple[Comparison, list[list[str]]]]
  students: dict[str, Model]
  stages: dict[str, Stage[Judged]]
  timed: list[str]
  exports: dict[str, Stage[Worth]]

  def cost(self) -> str:
    """Students to train, their tuples, and hours at the run's own rates."""
    new = [of for name, of in self.students.items() if of.tuples and not self.stages[name].is_made]
    tuples = [phase for student in new for phase in student.tuples.items()]
    rates = {of['name']: of['pairs_per_second'] for of in self.run.results['training']}
    unknown = {name for name, _ in tuples if not rates.get(name)}
    seconds = sum(count / rates[name] for name, count in tuples if name not in unknown)
    without = f', without {", ".join(sorted(unknown))}' if unknown else ''
    return (
      f'{len(self.students)} students, {len(new)} to train: '
      f'{sum(count for _, count in tuples):,} tuples, about {seconds / 3600:.1f} hours{without}'
    )

  def make(self) -> None:
    """Makes the stages that are missing."""
    self.folder.make()
    shutil.rmtree(self.folder.file(_FEATURES), ignore_errors=True)

  def logits(self, name: str) -> np.ndarray:
    """Logits of a student, or the teacher, on test's tuples: [n, outputs]."""
    folder = self.stages[name].folder
    return digests.read_arrays(os.path.join(folder, 'test.npy'), f'delete {folder} and study again')


def plan(config: StudyConfig, run: FinishedRun, comparisons: Sequence[Comparison]) -> Plan:
  """The plan of comparisons on a run.

  Raises:
    InputError: A study cannot stand on the run, or a student that is to be trained does not fit it.
  """
  if len(run.table.text_columns) != 2 or run.table.vector_columns:
    raise InputError(f'--run_dir={run.folder}: a study is of pairs of texts')
  if run.flags.get('freeze_right'):
    raise InputError(
      f'--run_dir={run.folder}: its right encoder is frozen, and other students would not fit it; '
      f'name the run that it came from, {run.flags["freeze_right"]}'
    )
  crosses = bool(config.cross.phase.steps)
  found: dict[str, Model] = {}
  rows = []
  for comparison in comparisons:
    kept = [row for row in comparison.rows if crosses or not row.is_cross]
    of_rows = [_students(config, run, comparison.title, row) for row in kept]
    rows.append((comparison._replace(rows=kept), [[of.name for of in row] for row in of_rows]))
    found = {of.name: of for row in of_rows for of in row} | found
  # Students that share features follow one another.
  students = dict(sorted(found.items(), key=lambda item: item[1].features))
  folder = RunFolder(run.path('study'), config, 'experiments.study', config.redo)
  stages = {
    of.name: folder.stage(of.name, Judged, of.make, of.depends_on)
    for of in (TeacherScores(run), *students.values())
  }
  firsts = [of[0] for one, names in rows if one.timed and config.rounds for of in names]
  timed, exports = list(dict.fromkeys(firsts)), {}
  for name in timed:
    if isinstance(student := students[name], Student):
      work = functools.partial(student.export, stages[name].folder)
      exports[name] = folder.stage(f'{name}.export', Worth, work, {}, after=[stages[name]])
  for name, student in students.items():
    if not stages[name].is_made:
      student.check()
  return Plan(config, run, folder, rows, students, stages, timed, exports)


def _students(config: StudyConfig, run: FinishedRun, title: str, row: Row) -> list[Model]:
  """The students of a row, one a seed."""
  precision = run.flags['precision'] if config.precision == AS_RUN else config.precision
  found: list[Model] = []
  for seed in config.seeds or (run.flags['seed'],):
    shared: dict[str, Any] = {'seed': seed, 'precision': precision}
    try:
      if row.is_cross:
        own = {**row.flags, **differing(run, shared)}
        found.append(CrossStudent(run, own, config.cross))
        continue
      if run.all_layers and 'pretrained' in row.flags:  # all of the other checkpoint's, too
        shared['encoder_layers'] = 0
      own = differing(run, {**config.steps, **shared, **row.flags})
      found.append(Student(run, own, run.path(f'study/{_FEATURES}')))
    except InputError as error:
      raise InputError(f'{title}: {row.name}: {error}') from error
  return found


def differing(run: FinishedRun, asked: dict[str, Any]) -> dict[str, Any]:
  """Flags that differ from the run's, by name."""
  own = {**flags.flat(run.config(StudentConfig)), **flags.flat(run.config(TrainConfig))}
  own |= {name: run.flags[name] for name in ('seed', 'precision')}
  return {name: asked[name] for name in sorted(asked) if asked[name] != own[name]}
