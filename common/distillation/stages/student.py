"""The student: the contract between a package and a run, and its training."""

import os
from typing import Any, Protocol

import tf_keras

from common.data.tokenization import Tokenizer
from common.distillation.run_folder import Stage
from common.distillation.stages.data import Data
from common.distillation.stages.distill import Distill
from common.distillation.stages.run import Run, Trained
from common.distillation.trainer import Training
from common.scoring.scorer import PairScorer

TrainedStudent = tuple[Any, Tokenizer]  # a `StudentModel` that can be exported, and its tokenizer


class Student(Protocol):
  """A student's package, as a run sees it."""

  name: str  # of its package: 'dipair'
  title: str  # as people write it: 'DiPair'
  depends_on: dict[str, Any]  # flags of its stage
  takes_labels: bool  # of the distillation set, beside the teacher's logits
  compares: bool  # tuples of one left text with each other
  batch_sizes: dict[str, int]  # tuples of a step, by flag, of what is trained

  @property
  def scorer(self) -> type[PairScorer]:
    """Class that loads this student's exports."""

  def check(self) -> None:
    """Refuses flags and checkpoints that could only fail later, after hours."""

  def train(self, folder: str, training: Training) -> list[dict[str, Any]]:
    """Distils into `folder`; returns the phases' histories."""

  def models(self, folder: str) -> dict[str, TrainedStudent]:
    """Models to evaluate, by name; the last one is exported."""


class StudentTraining(Stage[Trained]):
  """The student, trained on the distillation set."""

  name, result, collective = 'student', Trained, True

  def __init__(self, shared: Run, student: Student, data: Data, distill: Distill):
    super().__init__(shared.folder, [distill], {**student.depends_on, **shared.training_flags})
    self.shared, self.student, self.data, self.distill = shared, student, data, distill

  def run(self, folder: str) -> Trained:
    tf_keras.utils.set_random_seed(self.shared.seed)
    valid = os.path.join(self.data.folder, 'valid')
    training = self.shared.training(self.distill.folder, valid)
    return Trained(self.student.train(folder, training))

  def models(self) -> dict[str, TrainedStudent]:
    """The trained models, by name; the last one is exported."""
    return self.student.models(self.folder)
