"""Students of a study: those of its rows, each once, in the order of their training; and its cost."""

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from common import flags
from common.errors import InputError
from common.files import read_json, write_json
from common.modeling import checkpoints, encoders
from common.training.strategies import DeviceConfig
from dipair.config import StudentConfig, TrainConfig
from dipair.finished_run import FinishedRun
from dipair.study import speeds
from dipair.study.config import AS_RUN, StudyConfig
from dipair.study.cross_students import CrossStudent, work
from dipair.study.kept import SETS, Kept, teacher_path
from dipair.study.rows import CROSS, FIGURES, Base, Comparison, Row
from dipair.study.students import FEATURES, OWN, Student, check_loss

_STAGE2 = 'stage2_steps'  # 0: stage 1 alone, which stands in a comparison beside both


class Cost(NamedTuple):
  """What is still to be trained.

  Attributes:
    new: Students.
    kept: Students that are trained already, or along with others.
    tuples: Tuples of the new ones' phases, together.
    hours: Their time, at the run's own rates.
    unknown: New students whose rates the run does not know, which `hours` leaves out.
  """

  new: int
  kept: int
  tuples: int
  hours: float
  unknown: int

  def __str__(self) -> str:
    without = f', without {self.unknown} whose rate this run does not know' if self.unknown else ''
    return (
      f'{self.new + self.kept} students: {self.new} to train, {self.kept} trained already or along; '
      f'{self.tuples:,} tuples, about {self.hours:.1f} hours{without}'
    )


def cost(students: Iterable[tuple[bool, dict[str, int]]], rates: dict[str, float]) -> Cost:
  """The cost of students.

  Args:
    students: Each one's (trained, tuples by phase).
    rates: Tuples a second by phase.
  """
  new = kept = tuples = unknown = 0
  seconds = 0.0
  for trained, phases in students:
    if trained:
      kept += 1
      continue
    new += 1
    tuples += sum(phases.values())
    if phases.keys() <= rates.keys():
      seconds += sum(count / rates[phase] for phase, count in phases.items())
    else:
      unknown += 1
  return Cost(new, kept, tuples, seconds / 3600, unknown)


class Plan:
  """The students that comparisons need.

  Args:
    config: The study.
    run: The run it stands on.
    comparisons: Tables and figures.

  Raises:
    InputError: If the run is none that a study stands on, or a student cannot be trained on it.

  Attributes:
    root: Folder of the study.
    rows: By comparison, its rows with a student a seed each.
    students: All of them, each once.
  """

  def __init__(self, config: StudyConfig, run: FinishedRun, comparisons: Sequence[Comparison]):
    slots = len(run.table.text_columns)
    if slots != 2:
      raise InputError(f'--run_dir={run.folder}: tuples of {slots} texts; a study is of pairs')
    if run.table.vector_columns:
      raise InputError(
        f'--run_dir={run.folder}: holds vectors in place of texts; a study is of texts'
      )
    self.config, self.run, self.root = config, run, run.path('study')
    precision = run.flags['precision'] if config.precision == AS_RUN else config.precision
    self.devices = DeviceConfig(precision=precision)
    if FIGURES['3a'] in comparisons:
      _check_stages(run.config(TrainConfig, **config.steps))
    base = base_of(run, bool(config.cross.phase.steps) and any(c.crossed for c in comparisons))
    found: dict[str, Kept] = {}
    self.rows = {
      comparison: [
        (row, [found.setdefault(s.name, s) for s in self._students(row)])
        for row in comparison.rows(base)
        if (config.cross.phase.steps or not row.is_cross) and self._fits(comparison, row)
      ]
      for comparison in comparisons
    }
    self.students = list(found.values())
    self._check()

  @property
  def timed(self) -> list[Kept]:
    """Students whose speeds are measured: of each row, the first seed's."""
    return self._firsts(lambda comparison: comparison.timed)

  @property
  def encoding(self) -> list[Kept]:
    """Students whose encoders' speeds are measured."""
    return self._firsts(lambda comparison: comparison.encoders)

  @property
  def new(self) -> list[Kept]:
    """Those to train; what another one will be between its stages comes along with it.

    Those of the most tokens come first, so that others find theirs among these.
    """
    names = {student.name for student in self.students}
    new = [s for s in self.students if not (s.trained or _comes_along(s, names))]
    return sorted(new, key=_tokens, reverse=True)

  def cost(self) -> Cost:
    """What is still to be trained, at the run's own rates."""
    rates = {
      phase['name']: phase['pairs_per_second']
      for phase in self.run.results['training']
      if phase['pairs_per_second']
    }
    found, new, of_teacher = [], self.new, 0
    if 'teacher' in rates and any(isinstance(student, CrossStudent) for student in self.students):
      of_teacher = work(checkpoints.read(self.run.flags['teacher_pretrained']).config)
    for student in self.students:
      tuples = student.tuples
      if isinstance(student, CrossStudent) and of_teacher:
        (name,) = tuples
        rates[student.name] = rates['teacher'] * of_teacher / student.work
        tuples = {student.name: tuples[name]}
      found.append((student not in new, tuples))
    return cost(found, rates)

  def renew(self) -> None:
    """Removes what was computed of the run's own student and teacher, unless these are the ones there are."""
    path = os.path.join(self.root, 'run.json')
    made = {name: self.run.stage(name)['fingerprint'] for name in ('distill', 'student')}
    if os.path.exists(path) and read_json(path) == made:
      return
    for folder in (OWN, FEATURES):
      shutil.rmtree(os.path.join(self.root, folder), ignore_errors=True)
    for name in SETS:
      with contextlib.suppress(FileNotFoundError):
        os.remove(teacher_path(self.root, name))
    write_json(path, made, sealed=True)

  def train(self) -> None:
    """Trains and evaluates what is missing; encoders' outputs go when no further student needs them."""
    new = self.new
    for number, student in enumerate(new):
      print(f'{number + 1} of {len(new)}: {student.name}')
      student.train()
      student.result()
      if student in self.timed and isinstance(student, Student):
        speeds.worth(self.run, student)
      needed = {folder for later in new[number + 1 :] for folder in later.shared}
      for folder in set(student.shared) - needed:
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(os.path.join(self.root, FEATURES), ignore_errors=True)  # a killed study's too

  def _check(self) -> None:
    """Refuses a student that is still to be trained and could not be, by the first row that it is of."""
    checked = set()
    for comparison, rows in self.rows.items():
      for row, students in rows:
        for student in students[:1]:  # other seeds fail alike
          if not isinstance(student, Student) or student.name in checked or student.trained:
            continue
          checked.add(student.name)
          try:
            student.check()
          except InputError as error:
            raise InputError(f'{comparison.title}: {row.name}: {error}') from error

  def _fits(self, comparison: Comparison, row: Row) -> bool:
    """Whether a row stands in its comparison; of one that is left out it says why."""
    if comparison.fitting:
      objective = self.run.config(TrainConfig, **row.flags).objective
      try:
        check_loss(objective, self.run)
      except InputError as error:
        print(f'{comparison.title}: {row.name} is left out: {error}')
        return False
    return True

  def _firsts(self, chosen: Callable[[Comparison], bool]) -> list[Kept]:
    """Of the rows of some comparisons, the first seed's students, each once."""
    of_rows = [of for comparison, rows in self.rows.items() if chosen(comparison) for _, of in rows]
    return list(dict.fromkeys(of[0] for of in of_rows))

  def _students(self, row: Row) -> list[Kept]:
    seeds = self.config.seeds or (self.run.flags['seed'],)
    return [
      self._student(row, {'seed': seed, 'precision': self.devices.precision}) for seed in seeds
    ]

  def _student(self, row: Row, shared: dict[str, Any]) -> Kept:
    if row.is_cross:
      own = {CROSS: row.flags[CROSS], **differing(self.run, shared)}
      return CrossStudent(self.run, self.root, own, self.config.cross, self.devices)
    if self.run.all_layers and 'pretrained' in row.flags:  # of another checkpoint all, too
      shared = {'encoder_layers': 0, **shared}
    own = differing(self.run, {**self.config.steps, **shared, **row.flags})
    longer = None
    if row.flags.get(_STAGE2) == 0:
      both = {name: value for name, value in row.flags.items() if name != _STAGE2}
      of_both = differing(self.run, {**self.config.steps, **shared, **both})
      if of_both != own:  # else there is one stage anyway
        longer = Student(self.run, self.root, of_both, self.devices)
    return Student(self.run, self.root, own, self.devices, longer)


def _check_stages(phases: TrainConfig) -> None:
  """Refuses the comparison of one stage and two where there is one, by the flag of the other."""
  for flag, phase in (('stage1_steps', phases.stage1), ('stage2_steps', phases.stage2)):
    if not phase.steps:
      raise InputError(f'--figures=3a: the run has one stage; --{flag}=N')


def _comes_along(student: Kept, names: Collection[str]) -> bool:
  """Whether one of those named, which is to be trained, is this one between its stages."""
  longer = student.longer if isinstance(student, Student) else None
  return longer is not None and longer.name in names and not longer.trained


def _tokens(student: Kept) -> tuple[int, ...]:
  """Tokens kept of each text, the last one's first, which is mostly the longest."""
  return student.config.output_tokens[::-1] if isinstance(student, Student) else ()


def differing(run: FinishedRun, asked: dict[str, Any]) -> dict[str, Any]:
  """Flags that differ from the run's, by name."""
  own = {**flags.flat(run.config(StudentConfig)), **flags.flat(run.config(TrainConfig))}
  own |= {name: run.flags[name] for name in ('seed', 'precision')}
  return {name: asked[name] for name in sorted(asked) if asked[name] != own[name]}


def base_of(run: FinishedRun, crossed: bool) -> Base:
  """The run's own student, as rows see it, and what cross-attention students start from, if there are some."""
  own = run.config(StudentConfig)
  if own.freeze_right:
    raise InputError(
      f'--run_dir={run.folder}: its right encoder is frozen, and a study trains students that do not '
      f'fit it; give the run that it is of, {own.freeze_right}'
    )
  depth = encoders.read(own.pretrained).config.num_layers
  (n, m), (left, right) = own.output_tokens, own.max_lengths
  start, cross_depth = run.flags['teacher_pretrained'] if crossed else '', 0
  if start:
    cross_depth = checkpoints.read(start).config.num_layers
  named = '' if run.trained_teacher else start
  return Base((n, m), (left, right), own.encoder_layers, depth, cross_depth, named)
