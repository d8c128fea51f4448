"""A task mined from known matches (`common.distillation.mining`, `transfer`)."""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from common import files
from common.data import tables
from common.data.examples import Labels, TableConfig
from common.data.records import Manifest
from common.digests import contents
from common.distillation import mining, transfer
from common.distillation.mining import MiningConfig
from common.distillation.sources.source import Source, UnlabelledSet, digests
from common.errors import InputError


@dataclasses.dataclass(frozen=True)
class Mined(Source):
  """Queries and passages; labelled pairs, and the transfer set."""

  config: MiningConfig
  table: TableConfig
  named = '--mine_from'
  brings_tuples = True

  def check(self) -> None:
    if (self.table.task, self.table.text_columns) != ('binary', mining.COLUMNS):
      columns = ','.join(mining.COLUMNS)
      raise InputError(f'--mine_from takes --task=binary and --text_columns={columns}')

  def labelled_inputs(self) -> dict[str, Any]:
    path = self.config.mine_from
    if not files.exists(path):
      raise InputError(f'--mine_from={path}: no such file or folder')
    read = _tables(path) if files.is_folder(path) else [path]
    return {**self.config.labelled_flags(), **contents(self.config.embedder), **digests(read)}

  def unlabelled_inputs(self) -> dict[str, Any]:
    return self.config.transfer_flags()

  def write_labelled(self, folder: str, seed: int) -> dict[str, Manifest]:
    return mining.mine(self.config, folder, seed, self.table.encoding)

  def write_unlabelled(self, data: str, folder: str, seed: int, labels: Labels) -> UnlabelledSet:
    sheet = transfer.write(self.config, data, folder, seed)
    print(transfer.summary(sheet))
    return UnlabelledSet(sheet[transfer.TRANSFER]['pairs'], sheet)


def _tables(folder: str) -> Iterator[str]:
  """Paths of the tables in a folder of known matches, and in BEIR's folder of judgments."""
  for base in (folder, os.path.join(folder, 'qrels')):
    if files.is_folder(base):
      for name in sorted(files.names(base)):
        if name.endswith(tables.ENDS):
          yield os.path.join(base, name)
