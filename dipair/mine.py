"""Mines a matching task (Appendix B): `python -m dipair.mine --mine_from=DIR --output=mined`."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable
from typing import Any

import tf_keras

from common import digests, files, flags, schema
from common.data import tables
from common.data.matching import SPLITS
from common.data.records import RecordSet
from common.distillation import datasheet, held_out, mining, transfer
from common.distillation.mined_task import MinedTask
from common.distillation.mining import MiningConfig
from common.errors import InputError, damaged

_MANIFEST, _READ = 'manifest.json', 'embedder_contents'  # and the source's


@dataclasses.dataclass(frozen=True)
class MineConfig:
  """The task to mine, and the folder for it."""

  output: str = flags.option('', 'folder of the task; the same command goes on with it')
  seed: int = flags.option(7, 'seed of the negatives drawn', bounds=(0, 2**31 - 1))
  mining: MiningConfig = flags.group(MiningConfig)


def main(config: MineConfig) -> None:
  """Mines, unless the folder holds the task already, and says what came of it."""
  if not config.output or not config.mining.mine_from:
    raise InputError(
      '--mine_from and --output are needed: known matches, and a folder for the task'
    )
  read = {
    **digests.contents(config.mining.embedder),
    **_source(config.mining.mine_from),
  }
  path = os.path.join(config.output, _MANIFEST)
  if os.path.exists(path):
    sheet = files.read_json(path, remedy := f'delete {config.output} and mine again')
    with damaged(path, remedy):
      schema.check(sheet, {'flags': dict, 'seed': int})
    asked = {**flags.flat(config.mining), 'seed': config.seed, **read}
    # What a version of before did not note is taken for what it read.
    made = {**read, **sheet['flags'], 'seed': sheet['seed'], **sheet.get(_READ, {})}
    if differs := [
      name for name, value in json.loads(json.dumps(asked)).items() if made.get(name) != value
    ]:
      raise InputError(
        f'{config.output}: mined with other {", ".join(differs)}; name a new --output'
      )
  elif os.path.exists(os.path.join(config.output, 'flags.txt')):
    raise InputError(f"--output={config.output}: a run's folder, whose data stays; name a new one")
  else:
    sheet = _mine(config, read)
  print(datasheet.summary(sheet))


def _source(path: str) -> dict[str, str]:
  """{'contents of PATH': digest} of the tables that hold the matches."""
  if not files.exists(path):
    raise InputError(f'--mine_from={path}: no such file or folder')
  found = [path]
  if files.is_folder(path):
    found = sorted(
      os.path.join(base, name)
      for base in (path, os.path.join(path, 'qrels'))  # BEIR's
      if files.is_folder(base)
      for name in files.names(base)
      if name.endswith(tables.ENDS)
    )
  digest = hashlib.sha256(''.join(files.sha256(one) for one in found).encode())
  return {f'contents of {path}': digest.hexdigest()[:16]}


def _mine(config: MineConfig, read: dict[str, str]) -> dict[str, Any]:
  """Mines into record sets, as a run does, and writes what a person reads beside them."""
  data, unlabelled = (os.path.join(config.output, name) for name in ('data', 'unlabelled'))
  os.makedirs(data, exist_ok=True)
  tf_keras.utils.set_random_seed(config.seed)  # an embedder of random weights is the same again
  with files.alone(config.output, '--output'):
    mining.mine(config.mining, data, config.seed)
    held_out.leave_out(held_out.judging_sets(data), os.path.join(data, 'train'), 'train')
    sheet = transfer.write(config.mining, data, unlabelled, config.seed)
    held_out.leave_out(held_out.judging_sets(data), unlabelled, transfer.TRANSFER)
    task = MinedTask.open(data)
    for name in SPLITS:
      _write(config.output, name, task.rows(RecordSet(os.path.join(data, name))))
    _write(config.output, transfer.TRANSFER, task.rows(RecordSet(unlabelled)))
    picture = datasheet.PICTURE
    files.put(os.path.join(unlabelled, picture), os.path.join(config.output, picture))
    sheet[_READ] = read
    files.write_json(os.path.join(config.output, _MANIFEST), sheet, sealed=True)
    return sheet


def _write(folder: str, name: str, rows: Iterable[dict[str, Any]]) -> None:
  """Writes rows as `name`.jsonl, whole or not at all."""
  with (
    files.whole(os.path.join(folder, f'{name}.jsonl')) as path,
    open(path, 'w', encoding='utf-8') as file,
  ):
    file.writelines(json.dumps(row, ensure_ascii=False) + '\n' for row in rows)


if __name__ == '__main__':
  flags.command(main, MineConfig)
