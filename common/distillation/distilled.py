"""A run from Python: tables in memory and a function as the teacher, by the command's own path.

A table in memory is written into the run's folder, and the run's flags name that file. Then the
command's run follows, resumed and refused in the same way.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeGuard, TypeVar

from common import files, flags
from common.data import memory_tables
from common.data.texts import shown
from common.distillation import function_teacher, run, run_folder
from common.distillation.config import ExperimentConfig
from common.distillation.function_teacher import Function
from common.distillation.run_folder import RunFolder
from common.distillation.student import StudentPackage
from common.errors import InputError
from common.scoring.scorer import PairScorer
from common.training.loop import Callback

Path = str | os.PathLike[str]
GivenTeacher = Path | Sequence[Path] | Function
Scorer = TypeVar('Scorer', bound=PairScorer)


@dataclasses.dataclass(frozen=True)
class Distilled(Generic[Scorer]):
  """Results of a finished run.

  Attributes:
    run_dir: The run's folder, with `report.html` and `README.md`, the model card.
    results: All of `results.json`.
  """

  run_dir: str
  results: dict[str, Any] = dataclasses.field(repr=False)
  _scorer: type[Scorer] = dataclasses.field(repr=False)

  @property
  def metrics(self) -> dict[str, dict[str, dict[str, float]]]:
    """Metrics by model ('teacher', 'student', …), set ('valid', 'test') and name."""
    sets = ('valid', 'test', 'test_mismatched')
    models = self.results['models']
    return {m['name']: {name: m[name] for name in sets if name in m} for m in models}

  @property
  def export(self) -> str:
    """Folder of the exported student."""
    return os.path.join(self.run_dir, 'export')

  def scorer(self, runtime: str = 'tensorflow', **options: Any) -> Scorer:
    """The exported student, which encodes, scores and ranks; arguments as for `Scorer.load`."""
    return self._scorer.load(self.export, runtime, **options)


def distill(
  config_class: type,
  student_class: type[StudentPackage],
  scorer: type[Scorer],
  tables: Mapping[str, Any],
  run_dir: Path,
  teacher: GivenTeacher | None,
  callbacks: Sequence[Callback],
  given: Mapping[str, Any],
) -> Distilled[Scorer]:
  """Runs what is missing of a run, as the students' own `distill` say.

  Args:
    config_class: The command's config, with an `experiment`.
    student_class: Makes the student of the config.
    scorer: Loads its export.
    tables: {'train', 'valid', 'test', 'distillation'}: paths, tables in memory, or None.
    run_dir: The run's folder.
    teacher: Folders, a function, or None.
    callbacks: Called at each evaluation of a training.
    given: Other flags by name.
  """
  folder, function = _path(run_dir, 'run_dir'), _function(teacher)
  if not isinstance(callbacks, Sequence) or not all(map(callable, callbacks)):
    raise InputError('callbacks: a list of functions is needed')
  tables = {name: table for name, table in tables.items() if table is not None}
  held = {name: table for name, table in tables.items() if not _is_path(table)}
  kept = os.path.join(os.path.abspath(folder), run_folder.TABLES)
  own: dict[str, Any] = {'run_dir': folder}
  for name, table in tables.items():
    own[f'{name}_file'] = os.path.join(kept, f'{name}.jsonl') if name in held else os.fspath(table)
  if function:
    own['teachers'] = [function_teacher.name_of(function)]
  elif teacher is not None:
    folders: Any = teacher if isinstance(teacher, (list, tuple)) else [teacher]
    own['teachers'] = [_path(path, 'teacher') for path in folders]
  if twice := own.keys() & given.keys():
    raise InputError(f'{", ".join(sorted(twice))}: given as a flag and by an argument of its own')
  config = flags.parse(config_class, {**own, **given})
  if held and folder:
    own_folder = RunFolder(folder, config, f'{student_class.name}.run', config.experiment.redo)
    os.makedirs(kept, exist_ok=True)
    with files.alone(folder, '--run_dir'):
      for name, table in held.items():
        _keep(table, name, own[f'{name}_file'], config.experiment, begun=own_folder.begun)
  results = run.run(config, student_class, function=function, callbacks=callbacks)
  return Distilled(folder, results.as_json(), scorer)


def _keep(table: Any, name: str, path: str, config: ExperimentConfig, *, begun: bool) -> None:
  """Writes a table into the run's folder; refuses one that differs from the table it began with."""
  columns, new = config.data.table, f'{path}.tmp'
  needed, known = [*columns.text_columns], [columns.teacher_logits_column]
  (known if name == 'distillation' else needed).append(columns.label_column)
  if columns.id_column:
    needed.append(columns.id_column)
  memory_tables.write(table, name, new, needed, known)
  known_by = files.sha256(path) if os.path.exists(path) and begun and not config.redo else ''
  if known_by and known_by != files.sha256(new):
    os.remove(new)
    raise InputError(
      f'--run_dir={config.run_dir}: {name} was another table, of other rows or in another order; '
      '--redo makes the run anew with this one, another --run_dir leaves that one'
    )
  os.replace(new, path)


def _is_path(value: Any) -> TypeGuard[Path]:
  return isinstance(value, (str, os.PathLike))


def _path(value: Any, name: str) -> str:
  if not _is_path(value):
    raise InputError(f'{name}: the path of a folder is needed, not {shown(value)}')
  return os.fspath(value)


def _function(teacher: Any) -> Function | None:
  """A teacher that is a function, or has one as its `predict`."""
  function = getattr(teacher, 'predict', teacher)
  return function if callable(function) else None
