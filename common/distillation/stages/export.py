"""The export: encoder and head apart."""

import dataclasses
import os

from common.data.records import RecordSet
from common.distillation.run_folder import Stage
from common.distillation.stages.data import Data
from common.distillation.stages.run import Run
from common.distillation.stages.student import StudentTraining
from common.export import student_export
from common.training import strategies

_SAMPLES = 8  # test tuples whose texts the export is compared on


@dataclasses.dataclass(frozen=True)
class Exported:
  """Sizes of the export, and how far it is from the live model."""

  max_difference: float
  encoder_bytes: int
  head_bytes: int
  vector_bytes: dict[str, int]
  online_bytes: int | None = None


class Export(Stage[Exported]):
  """SavedModels and LiteRT files of the last of the student's models."""

  name, result = 'export', Exported

  def __init__(self, shared: Run, encoder_precision: str, data: Data, training: StudentTraining):
    super().__init__(shared.folder, [training], {'encoder_precision': encoder_precision})
    self.table, self.precision, self.data = shared.table, encoder_precision, data
    self.training = training

  @strategies.precision()
  def run(self, folder: str) -> Exported:
    trained, tokenizer = list(self.training.models().values())[-1]
    encoder = None  # the student's own
    if self.precision != 'float32':
      with strategies.precision(self.precision):
        encoder, _ = list(self.training.models().values())[-1]
    texts = RecordSet(os.path.join(self.data.folder, 'test')).texts(slice(_SAMPLES))
    written = student_export.write(
      folder,
      trained,
      tokenizer,
      encoder=encoder,
      slots=student_export.slot_names(self.table.text_columns),
      task=self.table.base_task,
      samples=list(zip(*texts, strict=True)),
    )
    return Exported(**written)
