"""Rows of tables and figures: a row is a student's flagfile, a table is a folder of them.

`rows/table2/01-DE-Cos.flags` is the row 'DE-Cos'. Rows stand in the order of their paths; two
digits and a dash at the start of a name serve that order alone. The folders are written for runs
that keep 4+12 of 16+48 tokens, with encoders of six layers, as by configs/homedepot.flags;
`heads` is for all runs of pairs.
"""

import dataclasses
import glob
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from common import flags
from common.errors import InputError
from dipair.config import StudentConfig, TrainConfig

CROSS, TINY = 'cross_attention', 'bert-tiny'
GIVEN = 'students'  # key of the comparison of --students
_FOLDER = os.path.join(os.path.dirname(__file__), 'rows')
_SUFFIX = '.flags'
TABLES = {  # by name: key in study.json, which is the folder's name too, and title
  '2': ('table2', 'Main results (Tables 2 and 3)'),
  '3': ('table2', 'Main results (Tables 2 and 3)'),
  '4': ('table4', 'Settings of the head (Table 4)'),
  '5': ('table5', 'Width of the projection (Table 5)'),
  '6': ('table6', 'Output tokens that are kept (Table 6)'),
  '7': ('table7', 'DiPair and Poly-encoders (Table 7)'),
  'heads': ('heads', 'Heads, for runs of any number of tokens'),
  'losses': ('losses', 'Losses of distillation'),
  'temperature': ('temperature', 'Temperature of the soft labels'),
  'encoders': ('encoders', "The texts' encoders, shared or not (§4.2)"),
  'query_depth': ('query_depth', "Depth of the left text's encoder alone"),
}
FIGURES = {
  '1': ('figure1', 'Speed and quality (Figure 1)'),
  '3a': ('figure3a', 'One stage and two (Figure 3a)'),
  '3b': ('figure3b', 'Depth of the encoders (Figure 3b)'),
  '4': ('figure4', 'Length of the texts (Figure 4)'),
}
_OTHERS = {'figure1': 'table2'}  # what shows the rows of another folder
_TIMED = ('table2', 'table4', 'heads', 'figure1', GIVEN)


@dataclasses.dataclass(frozen=True)
class _RowConfig:
  """Flags that a row may name."""

  student: StudentConfig = flags.group(StudentConfig)
  training: TrainConfig = flags.group(TrainConfig)
  cross_attention: str = flags.option(
    '', f"a cross-attention student: {TINY}, or the number of its checkpoint's first layers"
  )


class Row(NamedTuple):
  """A student: its name in the table, and the flags that differ from the run's."""

  name: str
  flags: dict[str, Any]

  @property
  def is_cross(self) -> bool:
    """Whether it reads both texts together."""
    return CROSS in self.flags


class Comparison(NamedTuple):
  """A table or a figure: its key in study.json, its title, its rows, whether it shows speeds."""

  key: str
  title: str
  rows: list[Row]
  timed: bool


def asked(
  tables: Sequence[str], figures: Sequence[str], students: Sequence[str]
) -> list[Comparison]:
  """The comparisons of `--tables`, `--figures` and `--students`, each once.

  Raises:
    InputError: A name is unknown; a file cannot be read, names no flag of a student, or has the
      name of another.
  """
  found = {}
  for flag, names, known in (('tables', tables, TABLES), ('figures', figures, FIGURES)):
    for name in names:
      if name not in known:
        raise InputError(f'--{flag}={name}: one or more of {", ".join(known)}')
      key, title = known[name]
      rows = _read(os.path.join(_FOLDER, _OTHERS.get(key, key)))
      found[key] = Comparison(key, title, rows, key in _TIMED)
  if students:
    rows = [Row("as the run's", {}), *(row for path in students for row in _read(path))]
    if len({row.name for row in rows}) < len(rows):
      raise InputError(f'--students={",".join(students)}: two rows have one name; rename a file')
    found[GIVEN] = Comparison(GIVEN, 'Students of other flags', rows, timed=True)
  return list(found.values())


def _read(path: str) -> list[Row]:
  """The row of a flagfile, or those of all flagfiles below a folder."""
  if not os.path.isdir(path):
    return [_row(path, os.path.basename(path))]
  below = sorted(glob.glob(f'**/*{_SUFFIX}', root_dir=path, recursive=True))
  if not below:
    raise InputError(f'--students={path}: holds no flagfile')
  return [_row(os.path.join(path, name), name) for name in below]


def _row(path: str, name: str) -> Row:
  """The row of a flagfile, named by its path: '01-FFNN/02-one_stage.flags' is 'FFNN: one stage'."""
  try:
    own = flags.named_by(_RowConfig, {'flagfile': path})
    if not own:
      raise InputError('names no flag of a student, such as --encoder_layers=3')
    if CROSS in own and (len(own) > 1 or not (own[CROSS] == TINY or own[CROSS].isdecimal())):
      raise InputError(f'--{CROSS}={own[CROSS]}: {TINY} or a number of layers, and no other flag')
  except InputError as error:
    raise InputError(f'--students={path}: {error}') from error
  parts = [re.sub(r'^\d\d-', '', part) for part in name.removesuffix(_SUFFIX).split(os.sep)]
  return Row(': '.join(parts).replace('_', ' '), own)
