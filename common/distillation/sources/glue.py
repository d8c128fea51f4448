"""A GLUE task, from the folders in which GLUE publishes it or from TensorFlow Datasets."""

import dataclasses
from functools import partial
from typing import Any

from common import flags
from common.data import glue, glue_tfds
from common.data.examples import Example, TableConfig
from common.data.records import Manifest
from common.distillation.sources.source import Source, digests, write_examples
from common.errors import InputError


@dataclasses.dataclass(frozen=True)
class GlueConfig:
  """The folder of GLUE's tasks, or a task's name in TensorFlow Datasets."""

  data_dir: str = flags.option(
    '',
    "folder that holds GLUE's folders, for a GLUE --task (mrpc); with --tfds: TFDS's data folder",
  )
  tfds: str = flags.option(
    '', "name of the task in TensorFlow Datasets (glue/mrpc, snli); replaces GLUE's folders"
  )


@dataclasses.dataclass(frozen=True)
class Glue(Source):
  """A task by its own name, in --data_dir, or by its name in TensorFlow Datasets, --tfds."""

  config: GlueConfig
  table: TableConfig
  named = '--data_dir, --tfds'
  pairs = True
  language = 'en'

  @property
  def on_hub(self) -> list[str]:
    task = self.table.task
    return [glue.TASKS[task].hub] if self.config.tfds else glue.on_hub(task, self.config.data_dir)

  def check(self) -> None:
    if not (self.config.data_dir or self.config.tfds):
      raise InputError(f'--task={self.table.task}: --data_dir, the folder of its data, is needed')
    if self.table.task not in glue.NAMES:
      names = ', '.join(glue.NAMES)
      raise InputError(f'--data_dir and --tfds hold GLUE tasks; --task is one of {names}')

  def labelled_inputs(self) -> dict[str, Any]:
    if self.config.tfds:
      return flags.flat(self.config)
    files = glue.sets(self.table.task, self.config.data_dir).values()
    paths = sorted({path for of_set in files for _, path in of_set})
    return {'data_dir': self.config.data_dir, **digests(paths)}

  def write_labelled(self, folder: str, seed: int) -> dict[str, Manifest]:
    task, data_dir, tfds = self.table.task, self.config.data_dir, self.config.tfds
    if tfds:
      made = glue_tfds.builder(task, tfds, data_dir)
      names, read = [*glue_tfds.sets(task, made)], partial(glue_tfds.read, task, made)
    else:
      names, read = [*glue.sets(task, data_dir)], partial(glue.read, task, data_dir)
    sets = {name: (Example(*row) for row in read(name)) for name in names}
    return write_examples(folder, sets, 2)
