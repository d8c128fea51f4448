"""Distils a DiPair student: `python -m dipair.run --flagfile=configs/p2t.flags`."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from common import extras

with extras.needed('train'):
  import tensorflow  # noqa: F401

from common import flags
from common.distillation import distilled, run
from common.distillation.config import AUTO, ExperimentConfig, on_labels_alone
from common.distillation.distilled import Distilled, GivenTeacher, Path
from common.distillation.student import TrainedStudent
from common.distillation.trainer import Training
from common.errors import InputError
from common.modeling import encoders
from common.training.loop import Callback
from dipair import frozen_right, training
from dipair.config import StudentConfig, TrainConfig
from dipair.scorer import Scorer
from dipair.student import DiPair

FIRST = (  # flags that a newcomer needs
  *('run_dir', 'train_file', 'valid_file', 'test_file', 'text_columns', 'label_column', 'task'),
  *('teachers', 'pretrained', 'max_lengths', 'output_tokens', 'precision'),
)


@dataclasses.dataclass(frozen=True)
class RunConfig:
  """Flags of a run."""

  experiment: ExperimentConfig = flags.group(ExperimentConfig, heading='run')
  student: StudentConfig = flags.group(StudentConfig, head=AUTO)
  train: TrainConfig = flags.group(TrainConfig, heading='training')

  def __post_init__(self):
    table = self.experiment.data.table
    self.student.check_texts(table)
    if table.vector_columns and self.student.freeze_right:
      raise InputError('--freeze_right is of texts; --vector_columns names vectors')
    if self.student.freeze_right and self.train.head_start == 'random':
      raise InputError("--freeze_right starts from that run's head; remove --head_start=random")
    frozen, own = self.student.freeze_right, self.experiment.run_dir
    if frozen and os.path.realpath(frozen) == os.path.realpath(own):
      raise InputError(f'--freeze_right={frozen}: the run itself; name another --run_dir')
    if self.experiment.labels_alone:
      object.__setattr__(self, 'train', on_labels_alone(self))
    self.train.objective.check(self.experiment.task)
    self.train.objective.check_settings()


class DiPairStudent:
  """DiPair, as an experiment wants it."""

  name, title, scorer = 'dipair', 'DiPair', Scorer

  def __init__(self, config: RunConfig):
    self.config = config
    self.losses = [config.train.objective.build(config.experiment.task)]
    self.batch_sizes = config.train.batch_sizes
    self.depends_on = {**flags.flat(config.student), **flags.flat(config.train)}
    self.depends_on |= encoders.contents(config.student.pretrained)
    self.depends_on |= frozen_right.contents(config.student)

  def check(self) -> None:
    """Refuses a checkpoint that is not there or does not fit."""
    training.check(self.config.student, self.config.experiment.task.outputs)

  def train(self, folder: str, data: Training) -> list[dict[str, Any]]:
    """Distils into `folder`, in two stages."""
    return training.train(self.config.student, self.config.train, folder, data)

  def models(self, folder: str) -> dict[str, TrainedStudent]:
    """The student after each stage."""
    found = {'student': DiPair.load(folder)}
    stage1 = os.path.join(folder, 'stage1')
    if os.path.exists(stage1) and self.config.train.stage2.steps:  # else it is the student
      first = DiPair.load(folder)
      training.restore(stage1, first[0])
      found = {'student, stage 1': first, **found}
    return found


def main(config: RunConfig) -> None:
  """Runs the experiment."""
  run.run(config, DiPairStudent)


def distill(
  train: Any = None,
  valid: Any = None,
  test: Any = None,
  *,
  run_dir: Path,
  distillation: Any = None,
  teacher: GivenTeacher | None = None,
  callbacks: Sequence[Callback] = (),
  **flags: Any,
) -> Distilled[Scorer]:
  """Distils a DiPair student: `python -m dipair.run` from Python, with its flags as arguments.

  A table is a path (.tsv, .csv, .jsonl, .parquet), a table of pandas or pyarrow, a Hugging Face
  `datasets.Dataset`, a `tf.data.Dataset` of dicts, or a list of dicts. A table in memory is kept in
  the run's folder. The same call on the same folder resumes, or is done; other rows are refused.

  >>> result = dipair.distill(train, valid, test, run_dir='runs/mine', teacher=model.predict,
  ...                         text_columns=('query', 'title'), label_column='relevance')
  >>> result.metrics['student']['test'], result.scorer().rank('nike shoes', titles)

  Args:
    train: Labelled training tuples, or None where other flags say where they come from.
    valid: Labelled validation tuples. Without them and `test`, `train` is split by its left texts.
    test: Labelled test tuples.
    run_dir: The run's folder.
    distillation: Tuples for the teacher, labelled or not; None: pairs made from the training texts.
    teacher: A folder, as `--teacher` takes it, or several; or a function from a list of tuples of
      texts to scores [n], or [n, C] for classes, such as the `predict` of sentence-transformers'
      `CrossEncoder` (or an object that has it). The scores are logits;
      `teacher_scores='probability'` says that they are probabilities, as after a sigmoid. The
      function gets up to 2,048 tuples at a time. After an interruption, the same call checks it on
      up to 768 tuples and goes on with the first batch that had not ended.
      None: a cross-encoder is fine-tuned on `train`. 'none': the student learns from labels alone.
    callbacks: Functions of a training's phase ('teacher', 'similarity', 'stage 1', 'stage 2'), step
      and metrics, called at each evaluation.
    **flags: The command's other flags; `flagfile='p2t'` too, which the others override.

  Raises:
    InputError: As the command refuses flags, tables and folders, in one line.
  """
  tables = {'train': train, 'valid': valid, 'test': test, 'distillation': distillation}
  return distilled.distill(
    RunConfig, DiPairStudent, Scorer, tables, run_dir, teacher, callbacks, flags
  )


if __name__ == '__main__':
  flags.command(main, RunConfig, first=FIRST)
