"""The comparisons that a study's flags ask for: tables and figures by name, students by flagfiles."""

import dataclasses
import os
from collections.abc import Sequence

from common import flags
from common.errors import InputError
from dipair.config import StudentConfig, TrainConfig
from dipair.study.rows import FIGURES, TABLES, Comparison, Row


@dataclasses.dataclass(frozen=True)
class _GivenConfig:
  """Flags of a student that is given by a flagfile."""

  student: StudentConfig = flags.group(StudentConfig)
  training: TrainConfig = flags.group(TrainConfig)


def given(flagfiles: Sequence[str]) -> Comparison:
  """Students by flagfiles, beside the run's own; a row is named after its file.

  Raises:
    InputError: A file cannot be read, names no flag of a student, or has another one's name.
  """
  found = [Row("as the run's", {})]
  for path in flagfiles:
    try:
      own = flags.named(_GivenConfig, path)
      if not own:
        raise InputError('names no flag of a student, such as --encoder_layers=3')
    except InputError as error:
      raise InputError(f'--students={path}: {error}') from error
    name = os.path.basename(path).removesuffix('.flags').replace('_', ' ')
    found.append(Row(name, own))
  if len({row.name for row in found}) < len(found):
    raise InputError(
      f'--students={",".join(flagfiles)}: a row is named after its file: each of its name'
    )
  return Comparison(
    'students', 'Students of other flags', lambda _: found, timed=True, encoders=True
  )


def asked(
  tables: tuple[str, ...], figures: tuple[str, ...], students: tuple[str, ...] = ()
) -> list[Comparison]:
  """The comparisons of `--tables`, `--figures` and `--students`, each once.

  Raises:
    InputError: A name is none of them, or as of `given`.
  """
  found = []
  for flag, names, known in (('tables', tables, TABLES), ('figures', figures, FIGURES)):
    for name in names:
      if name not in known:
        raise InputError(f'--{flag}={name}: one or more of {", ".join(known)}')
      found.append(known[name])
  return [*dict.fromkeys(found), *([given(students)] if students else [])]
