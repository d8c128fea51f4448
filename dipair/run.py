"""Distils a DiPair student: `python -m dipair.run --flagfile=configs/p2t.flags`."""

import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import flags as absl_flags

from common import flags
from common.data.examples import Example
from common.distillation import experiment, results
from common.distillation.experiment import ExperimentConfig
from common.distillation.inference import TupleScorer
from common.errors import InputError
from common.evaluation import benchmark
from common.serving import student_export
from dipair import model, stages
from dipair.config import StudentConfig, TrainConfig
from dipair.scorer import Scorer


@dataclasses.dataclass(frozen=True)
class RunConfig:
  """All flags of a run."""

  experiment: ExperimentConfig = flags.group(ExperimentConfig)
  student: StudentConfig = flags.group(StudentConfig)
  train: TrainConfig = flags.group(TrainConfig)

  def __post_init__(self):
    columns, texts = self.experiment.data.table.text_columns, len(self.student.output_tokens)
    if len(columns) != texts:
      raise InputError(
        f'--text_columns names {len(columns)} texts, --output_tokens and --max_lengths {texts}'
      )


class DiPairStudent:
  """DiPair, as an experiment wants it."""

  name, title = 'dipair', 'DiPair'

  def __init__(self, config: RunConfig):
    self.config, self.table = config, config.experiment.data.table
    self.depends_on = {**flags.flat(config.student), **flags.flat(config.train)}

  def check(self) -> None:
    """Refuses a checkpoint that is not there or does not fit."""
    model.read_pretrained(self.config.student)

  def train(
    self, folder: str, data: str, distill: str, strategy: tf.distribute.Strategy
  ) -> list[dict[str, Any]]:
    """Distils into `folder`, in two stages."""
    return stages.train(
      self.config.student,
      self.config.train,
      folder,
      distill=distill,
      valid=os.path.join(data, 'valid'),
      task=self.table.kind,
      outputs=self.table.outputs,
      devices=self.config.experiment.devices,
      strategy=strategy,
      seed=self.config.experiment.seed,
    )

  def scorers(self, folder: str) -> dict[str, results.Scorer]:
    """The student after each stage."""
    strategy = tf.distribute.get_strategy()
    found: dict[str, results.Scorer] = {}
    for stage, name in (('stage1', 'student, stage 1'), ('', 'student')):
      if stage and not os.path.exists(os.path.join(folder, stage)):
        continue
      student, tokenizer = model.load(folder)
      if stage:
        stages.restore(os.path.join(folder, stage), student)
      found[name] = TupleScorer(student, tokenizer, strategy).logits
    return found

  def export(self, folder: str, student: str, samples: Sequence[Example]) -> dict[str, Any]:
    """Exports encoder and head."""
    trained, tokenizer = model.load(student)
    return student_export.write(
      folder,
      trained,
      tokenizer,
      slots=student_export.slot_names(self.table.text_columns),
      task=self.table.kind,
      samples=list(zip(*(example.texts for example in samples), strict=True)),
    )

  def head(self, folder: str) -> benchmark.Contender:
    """The exported head on vectors in memory."""
    scorer, batch = Scorer.load(folder), 1024
    shapes = scorer.vector_shapes.values()
    rng = np.random.default_rng(0)
    vectors = [rng.normal(size=(batch, *shape)).astype(np.float32) for shape in shapes]
    tokens = '+'.join(str(k) for k, _ in shapes)
    name = f'DiPair head, {tokens} tokens of {vectors[0].shape[-1]}'
    return benchmark.Contender(name, lambda: scorer.score(*vectors), batch)


def main(config: RunConfig) -> None:
  """Runs the experiment."""
  experiment.run(config.experiment, DiPairStudent(config), config)


if __name__ == '__main__':
  flags.define(RunConfig)
  absl_flags.adopt_module_key_flags(sys.modules['common.flags'])
  flags.run(main, RunConfig)
