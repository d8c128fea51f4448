"""A GLUE task from TensorFlow Datasets."""

import dataclasses
from typing import Any

from common.data import glue_tfds
from common.data.examples import TableConfig
from common.data.records import Manifest
from common.distillation.sources.glue import GlueConfig, GlueFolders, check_task, write_glue
from common.distillation.sources.source import Source


@dataclasses.dataclass(frozen=True)
class TensorFlowDatasets(Source):
  """A task by its name there; --data_dir is the folder of TensorFlow Datasets."""

  config: GlueConfig
  table: TableConfig
  named = GlueFolders.named
  pairs = True

  @property
  def asked(self) -> bool:
    return bool(self.config.tfds)

  def check(self) -> None:
    check_task(self.table)

  def labelled_inputs(self) -> dict[str, Any]:
    return {'tfds': self.config.tfds, 'data_dir': self.config.data_dir}

  def write_labelled(self, folder: str, seed: int) -> dict[str, Manifest]:
    task = self.table.task
    made = glue_tfds.builder(task, self.config.tfds, self.config.data_dir)
    return write_glue(folder, glue_tfds.sets(task, made), lambda s: glue_tfds.read(task, made, s))
