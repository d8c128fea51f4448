"""Mines a matching task (Appendix B): `python -m dipair.mine --mine_from=DIR --output=mined`."""

import dataclasses
import json
import os

from common import flags
from common.distillation import datasheet, mining, transfer
from common.distillation.mining import MiningConfig
from common.errors import InputError
from common.json_files import read_json


@dataclasses.dataclass(frozen=True)
class MineConfig:
  """What is mined, and to where."""

  output: str = flags.option('', 'folder of the task; the same command goes on with it')
  seed: int = flags.option(7, 'of the negatives drawn')
  mining: MiningConfig = flags.group(MiningConfig)


def main(config: MineConfig) -> None:
  """Mines, unless the folder holds the task already, and says what came of it."""
  if not config.output or not config.mining.mine_from:
    raise InputError(
      '--mine_from and --output are needed: known matches, and a folder for the task'
    )
  path = os.path.join(config.output, transfer.MANIFEST)
  if os.path.exists(path):
    sheet = read_json(path)
    asked = {**flags.flat(config.mining), 'seed': config.seed}
    made = {**sheet['flags'], 'seed': sheet['seed']}
    if differs := [
      name for name, value in json.loads(json.dumps(asked)).items() if made[name] != value
    ]:
      raise InputError(
        f'{config.output}: mined with other {", ".join(differs)}; name a new --output'
      )
  else:
    os.makedirs(config.output, exist_ok=True)
    mining.mine(config.mining, config.output, config.seed)
    sheet = transfer.write(config.mining, config.output, config.output, config.seed)
  print(datasheet.summary(sheet))


if __name__ == '__main__':
  flags.command(main, MineConfig)
