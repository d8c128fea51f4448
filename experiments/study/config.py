"""Flags of a study."""

import dataclasses
from typing import Any

from common import flags
from common.errors import InputError
from common.training.optimization import PhaseConfig
from experiments.study import rows

AS_RUN = 'run'


@dataclasses.dataclass(frozen=True)
class CrossConfig:
  """Training of cross-attention students. With no steps, tables and figures leave them out."""

  tiny_pretrained: str = flags.option(
    '',
    'checkpoint of BERT-Tiny, a folder or hub id; empty: random weights of its shape, with the '
    "words of the run's teacher",
  )
  tiny_learning_rate: float = flags.option(
    5e-4, "peak learning rate of BERT-Tiny's shape", bounds=(1e-12, 10)
  )
  phase: PhaseConfig = flags.group(
    PhaseConfig,
    'cross_',
    'cross-attention students',
    learning_rate=1e-4,
    batch_size=128,
    steps=6000,
    warmup_steps=300,
    eval_every=1000,
    patience=0,
  )


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
  stage1_steps: int = flags.option(0, "steps of stage 1; 0: the run's", bounds=(0, 10**9))
  stage2_steps: int = flags.option(0, "steps of stage 2; 0: the run's", bounds=(0, 10**9))
  stage2: bool = flags.option(True, 'train both stages, or the first alone')
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
  output: str = flags.option('', 'JSON file of all numbers; empty: study/study.json of the run')
  redo: bool = flags.option(False, 'train students anew that other flags made', kept=False)

  def __post_init__(self):
    rows.asked(self.tables, self.figures, self.students)
    if not self.stage2 and self.stage2_steps:
      raise InputError('--nostage2 trains stage 1 alone; leave out --stage2_steps')
    if not self.rounds and '1' in self.figures:
      raise InputError('--rounds=0 measures no speeds, and --figures=1 shows them')
    if len(set(self.seeds)) < len(self.seeds):
      raise InputError(f'--seeds={",".join(map(str, self.seeds))}: name each seed once')

  @property
  def steps(self) -> dict[str, Any]:
    """Flags of the stages that differ from the run's."""
    given = {'stage1_steps': self.stage1_steps, 'stage2_steps': self.stage2_steps}
    found = {name: steps for name, steps in given.items() if steps}
    return found if self.stage2 else {**found, 'stage2_steps': 0}
