"""The student's training."""

import os

import tf_keras

from common.data.records import RecordSet
from common.distillation.run_folder import Stage
from common.distillation.stages.data import Data
from common.distillation.stages.distill import Distill
from common.distillation.stages.run import Run, Trained
from common.distillation.student import StudentPackage, TrainedStudent, check_set


class StudentTraining(Stage[Trained]):
  """The student, trained on the distillation set."""

  name, result, collective = 'student', Trained, True

  def __init__(self, shared: Run, student: StudentPackage, data: Data, distill: Distill):
    super().__init__(shared.folder, [distill], {**student.depends_on, **shared.training_flags})
    self.shared, self.student, self.data, self.distill = shared, student, data, distill

  def check_inputs(self) -> None:
    """Refuses a distillation set that is of no use: flags may have changed since it was made."""
    check_set(RecordSet(self.distill.folder), self.student.losses, self.student.batch_sizes)

  def run(self, folder: str) -> Trained:
    self.check_inputs()
    tf_keras.utils.set_random_seed(self.shared.seed)
    valid = os.path.join(self.data.folder, 'valid')
    training = self.shared.training(self.distill.folder, valid)
    return Trained(self.student.train(folder, training))

  def models(self) -> dict[str, TrainedStudent]:
    """The trained models, by name; the last one is exported."""
    return self.student.models(self.folder)
