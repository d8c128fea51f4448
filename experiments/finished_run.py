"""A finished run of `dipair.run`; other students train on its data."""

import tensorflow as tf

from common.data.examples import TableConfig
from common.data.records import RecordSet
from common.data.tokenization import Tokenizer
from common.distillation import finished_run, function_teacher, learnt_similarity
from common.distillation.export import samples
from common.distillation.teacher import Teacher
from common.distillation.trainer import Training
from common.evaluation import judged_set
from common.evaluation.judged_set import JudgedSet
from common.export import student_export
from common.modeling import saving
from common.training.strategies import DeviceConfig
from dipair.student import DiPair


class FinishedRun(finished_run.FinishedRun):
  """Folders and flags of a finished run.

  Args:
    folder: Folder of the run.

  Raises:
    InputError: If it is none of DiPair's.

  Attributes:
    all_layers: Whether the student was asked for with all of its checkpoint's layers, however many.
  """

  def __init__(self, folder: str):
    super().__init__(folder, 'dipair')
    self.all_layers = self.flags.get('encoder_layers') == 0
    if self.all_layers:  # whose number the student has
      fields, _ = saving.read(self.path('student'))
      self.flags['encoder_layers'] = fields['config']['encoder_layers']
    self.table = self.config(TableConfig)
    self.task = self.table.task_of(self.flags.get('primary_metric', ''))
    self.metric = judged_set.primary(self.task)

  @property
  def slots(self) -> tuple[str, ...]:
    """Names of the exports' slots."""
    return student_export.slot_names(self.table.text_columns)

  @property
  def trained_teacher(self) -> bool:
    """Whether the run trained a teacher of its own."""
    return 'teacher' in self.stage('distill')['after']

  def judged(self, name: str, *, ranks: bool = False) -> JudgedSet:
    """The labelled set `valid` or `test`; it judges as in the run and, with `ranks`, ranks too."""
    records = RecordSet(self.path(f'data/{name}'))
    return JudgedSet(records, self.task, ranks=ranks)

  def training(
    self,
    strategy: tf.distribute.Strategy,
    seed: int | None = None,
    devices: DeviceConfig | None = None,
  ) -> Training:
    """Training on the run's distillation set; the seed defaults to the run's."""
    return Training(
      distill=self.path('distill'),
      valid=self.path('data/valid'),
      task=self.task,
      devices=devices or DeviceConfig(),
      strategy=strategy,
      seed=self.flags['seed'] if seed is None else seed,
      starts=learnt_similarity.starts(self.path('teacher'), self.flags['teacher_similarity']),
    )

  def teachers(self) -> list[Teacher]:
    """The run's teachers: its own, or other runs'.

    None, if its tuples brought logits or a Python function scored them.
    """
    own = [self.path('teacher')] if self.trained_teacher else []
    length = self.flags['teacher_max_length']
    given = self.flags['teachers'] or own
    paths = [path for path in given if not function_teacher.is_named(path)]
    return [Teacher.load(path, length, self.task) for path in paths]

  def export(self, folder: str, student: tuple[DiPair, Tokenizer] | None = None) -> str:
    """Exports the run's student, or another one of its data, into a folder; returns the folder."""
    model, tokenizer = student or DiPair.load(self.path('student'))
    student_export.write(
      folder,
      model,
      tokenizer,
      slots=self.slots,
      task=self.task.kind,
      samples=samples(RecordSet(self.path('data/test'))),
    )
    return folder
