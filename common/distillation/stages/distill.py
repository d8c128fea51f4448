"""The distillation set: the unlabelled tuples with the teacher's scores."""

import dataclasses
import time

from common.data.records import RecordSet
from common.distillation import annotate, teacher
from common.distillation.run_folder import Stage
from common.distillation.stages.data import Data, Unlabelled
from common.distillation.stages.run import Run
from common.distillation.stages.teacher import Teachers


@dataclasses.dataclass(frozen=True)
class Annotation:
  """Number of tuples scored, and the time it took."""

  count: int
  seconds: float


class Distill(Stage[Annotation]):
  """Soft labels of the unlabelled tuples, by the teachers or as the tuples bring them.

  Args:
    shared: The run.
    temperature: T of the soft labels.
    data: The labelled sets, whose items the unlabelled tuples may be of.
    unlabelled: The tuples.
    teachers: None: the tuples bring their logits.
  """

  name, result = 'distill', Annotation

  def __init__(
    self,
    shared: Run,
    temperature: float,
    data: Data,
    unlabelled: Unlabelled,
    teachers: Teachers | None,
  ):
    own = [teachers.own] if teachers and teachers.own else []
    given = teachers.given if teachers else ()
    depends_on = {'temperature': temperature, 'teachers': given}
    super().__init__(shared.folder, [data, *own, unlabelled], depends_on)
    self.shared, self.temperature = shared, temperature
    self.unlabelled, self.teachers = unlabelled, teachers

  def run(self, folder: str) -> Annotation:
    name, logits_of = 'logits of the file', None
    if self.teachers:
      name, records = self.teachers.name, RecordSet(self.unlabelled.folder)
      logits_of = teacher.labeller(self.teachers.load(), records, self.shared.strategy)
    started, info = time.monotonic(), {'teacher': name}
    manifest = annotate.annotate(
      self.unlabelled.folder, folder, logits_of, temperature=self.temperature, info=info
    )
    return Annotation(manifest.count, round(time.monotonic() - started, 1))
