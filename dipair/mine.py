"""Mines a matching task (Appendix B): `python -m dipair.mine --mine_from=DIR --run_dir=mined`.

The labelled sets and the transfer set are the first two stages of a run; `pairs` has their pairs as
people read them, one JSON line each.
"""

import dataclasses
import json
import os

from common import extras

with extras.needed('train'):
  import tensorflow  # noqa: F401

from common import files, flags
from common.data.matching import SPLITS
from common.data.records import RecordSet
from common.distillation import dataset, transfer
from common.distillation.dataset import DataConfig, LabelledSets
from common.distillation.mining import MinedTask, MiningConfig
from common.distillation.run_folder import RunFolder
from common.distillation.sources.source import UnlabelledSet
from common.errors import InputError


@dataclasses.dataclass(frozen=True)
class MineConfig:
  """The task to mine, and the folder for it."""

  run_dir: str = flags.option('', 'folder of the task; the same command resumes it')
  seed: int = flags.option(7, 'seed of the negatives drawn', bounds=(0, 2**31 - 1))
  mining: MiningConfig = flags.group(MiningConfig)
  redo: bool = flags.option(False, 'replace what was made with other flags', kept=False)


@dataclasses.dataclass(frozen=True)
class Pairs:
  """Pairs of each set, by its name."""

  rows: dict[str, int]


def main(config: MineConfig) -> None:
  """Mines what is missing of the task."""
  if not config.run_dir or not config.mining.mine_from:
    raise InputError(
      '--mine_from and --run_dir are needed: known matches, and a folder for the task'
    )
  source, seed = DataConfig(mining=config.mining), {'seed': config.seed}
  folder = RunFolder(config.run_dir, config, 'dipair.mine', config.redo)

  data = folder.stage(
    'data',
    LabelledSets,
    lambda to: dataset.write_labelled(source, to, config.seed),
    {**source.labelled_inputs(), **seed},
  )
  unlabelled = folder.stage(
    'unlabelled',
    UnlabelledSet,
    lambda to: dataset.write_unlabelled(source, data.folder, to, config.seed),
    {**source.unlabelled_inputs(), **seed},
    after=[data],
    resumes=False,
  )

  def write_pairs(to: str) -> Pairs:
    task = MinedTask.open(data.folder)
    sets = {name: os.path.join(data.folder, name) for name in SPLITS}
    sets[transfer.TRANSFER] = unlabelled.folder
    return Pairs({name: _write(to, name, task, RecordSet(of)) for name, of in sets.items()})

  pairs = folder.stage('pairs', Pairs, write_pairs, {}, after=[unlabelled], resumes=False)
  folder.make()
  print(f'pairs: {pairs.folder}')


def _write(folder: str, name: str, task: MinedTask, records: RecordSet) -> int:
  """Writes a set's pairs as `name`.jsonl; returns how many."""
  with (
    files.whole(os.path.join(folder, f'{name}.jsonl')) as path,
    open(path, 'w', encoding='utf-8') as file,
  ):
    file.writelines(json.dumps(row, ensure_ascii=False) + '\n' for row in task.rows(records))
  return len(records)


if __name__ == '__main__':
  flags.command(main, MineConfig)
