"""Flags of a study."""

import dataclasses
from typing import Any

from common import flags
from common.errors import InputError
from dipair.study import comparisons, rows
from dipair.study.cross_students import CrossConfig

AS_RUN = 'run'


@dataclasses.dataclass(frozen=True)
class StudyConfig:
  """The run, and what is compared on it."""

  run_dir: str = flags.option('', 'a finished run of dipair.run; its folder gets study/')
  tables: tuple[str, ...] = flags.option((), f'tables to make, of {", ".join(rows.TABLES)}')
  figures: tuple[str, ...] = flags.option((), f'figures to make, of {", ".join(rows.FIGURES)}')
  students: tuple[str, ...] = flags.option(
    (),
    'flagfiles of students to compare, each with the flags of dipair.run in which one differs from '
    "the run's",
  )
  seeds: tuple[int, ...] = flags.option(
    (),
    "seeds of each student, whose mean and spread are shown; empty: the run's",
    bounds=(0, 2**31 - 1),
  )
  stage1_steps: int = flags.option(0, "steps of stage 1; 0: the run's", bounds=(0, 10**9))
  stage2_steps: int = flags.option(0, "steps of stage 2; 0: the run's", bounds=(0, 10**9))
  stage2: bool = flags.option(True, 'both stages, or the first alone')
  precision: str = flags.option(
    AS_RUN,
    "arithmetic of training; run: the run's, auto: mixed_bfloat16 where the devices compute in it",
    (AS_RUN, 'float32', 'mixed_bfloat16', 'auto'),
  )
  cross: CrossConfig = flags.group(
    CrossConfig, heading='cross-attention students, left out at --cross_steps=0'
  )
  rounds: int = flags.option(
    5, 'rounds of the speeds, of which the median is taken; 0: no speeds', bounds=(0, 1000)
  )
  sweep: int = flags.option(
    0,
    'learning rates and batch sizes by so many trials of Optuna, in place of tables and figures',
    bounds=(0, 10**6),
  )
  output: str = flags.option('', 'JSON file of all figures; empty: study/study.json of the run')

  def __post_init__(self):
    comparisons.asked(self.tables, self.figures, self.students)
    if not self.stage2 and (self.stage2_steps or '3a' in self.figures):
      given = '--stage2_steps' if self.stage2_steps else '--figures=3a'
      raise InputError(f'--nostage2 trains in stage 1 alone, and {given} is of both')
    if not self.rounds and '1' in self.figures:
      raise InputError('--rounds=0 measures no speeds, and --figures=1 is of them')
    if len(set(self.seeds)) < len(self.seeds):
      raise InputError(f'--seeds={",".join(map(str, self.seeds))}: each once')

  @property
  def steps(self) -> dict[str, Any]:
    """Flags of the stages, where they are not the run's."""
    asked = {'stage1_steps': self.stage1_steps, 'stage2_steps': self.stage2_steps}
    found = {name: steps for name, steps in asked.items() if steps}
    return found if self.stage2 else {**found, 'stage2_steps': 0}
