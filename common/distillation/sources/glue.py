"""A GLUE task from the folders in which GLUE publishes it."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from common import flags
from common.data import glue
from common.data.examples import Example, TableConfig
from common.data.records import Manifest
from common.distillation.sources.source import Source, digests, write_examples
from common.errors import InputError


@dataclasses.dataclass(frozen=True)
class GlueConfig:
  """The folder of GLUE's tasks."""

  data_dir: str = flags.option(
    '',
    "folder that holds GLUE's folders, for a GLUE --task (mrpc); with --tfds: TFDS's data folder",
  )
  tfds: str = flags.option(
    '', "name of the task in TensorFlow Datasets (glue/mrpc, snli); replaces GLUE's folders"
  )


@dataclasses.dataclass(frozen=True)
class GlueFolders(Source):
  """GLUE's own folders, in --data_dir."""

  config: GlueConfig
  table: TableConfig
  named = '--data_dir, --tfds'
  pairs = True

  @property
  def asked(self) -> bool:
    return (self.table.task in glue.NAMES or bool(self.config.data_dir)) and not self.config.tfds

  def check(self) -> None:
    if not self.config.data_dir:
      raise InputError(f'--task={self.table.task}: --data_dir, the folder of its data, is needed')
    check_task(self.table)

  def labelled_inputs(self) -> dict[str, Any]:
    files = glue.sets(self.table.task, self.config.data_dir).values()
    paths = sorted({path for of_set in files for _, path in of_set})
    return {'data_dir': self.config.data_dir, **digests(paths)}

  def write_labelled(self, folder: str, seed: int) -> dict[str, Manifest]:
    task, data_dir = self.table.task, self.config.data_dir
    return write_glue(folder, glue.sets(task, data_dir), lambda s: glue.read(task, data_dir, s))


def check_task(table: TableConfig) -> None:
  """Refuses a --task that is none of GLUE's."""
  if table.task not in glue.NAMES:
    names = ', '.join(glue.NAMES)
    raise InputError(f'--data_dir and --tfds hold GLUE tasks; --task is one of {names}')


def write_glue(
  folder: str,
  names: Iterable[str],
  read: Callable[[str], Iterator[tuple[str, tuple[str, str], float]]],
) -> dict[str, Manifest]:
  """Writes the sets of a GLUE task, of (id, texts, label) rows each."""
  sets = {name: (Example(*row) for row in read(name)) for name in names}
  return write_examples(folder, sets, 2)
