"""Config of a run, whatever its student."""

import dataclasses
from typing import Any

from common import flags
from common.data.task import Task
from common.distillation import function_teacher
from common.distillation.dataset import DataConfig
from common.distillation.export import ExportConfig
from common.distillation.teacher import TeacherConfig
from common.errors import InputError
from common.evaluation import judged_set
from common.training.optimization import PhaseConfig
from common.training.strategies import DeviceConfig

RUNTIMES = ('tensorflow', 'litert-int8')
AUTO = 'auto'
NO_TEACHER = 'none'
# Flags that are of no use without a teacher, and values that they may have beside their default.
_OF_TEACHER: dict[str, tuple] = {
  'temperature': (),
  'annotation_runtime': (),
  'distillation_file': (),
  'distillation_pairs': (0,),
  'unlabelled_texts': (),
  'augmentations': (),
  'alpha': (0.0,),
  'loss': ('cross_entropy', 'squared_error'),  # which have losses of labels
  'variants': (('labels',),),
}


@dataclasses.dataclass(frozen=True)
class AnnotationConfig:
  """Temperature of the soft labels, and what computes the teacher's logits."""

  temperature: float = flags.option(1.0, 'T: soft labels are sigmoid(z/T)', bounds=(0.001, 1000))
  annotation_runtime: str = flags.option(
    AUTO,
    'runtime that scores the distillation set; on CPUs litert-int8 is a few times faster, and its '
    'logits are near the exact ones; auto: litert-int8 on CPUs, else tensorflow',
    (AUTO, *RUNTIMES),
  )


@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
  """A run, whatever its student."""

  run_dir: str = flags.option('', 'folder of the run: its stages, results and report')
  title: str = flags.option('', "title of the report; empty: the run folder's name")
  redo: bool = flags.option(False, 'replace stages that were made with other flags', kept=False)
  seed: int = flags.option(
    7, 'seed of data, initial weights, dropout and shuffling', bounds=(0, 2**31 - 1)
  )
  data: DataConfig = flags.group(DataConfig)
  teachers: tuple[str, ...] = flags.option(
    (),
    'folders of teachers, from other runs or of Hugging Face sequence classifiers; the student '
    'learns their mean logits; empty: fine-tune one; none: the student learns from labels alone',
    alias='teacher',
  )
  teacher: TeacherConfig = flags.group(TeacherConfig, 'teacher_')
  teacher_phase: PhaseConfig = flags.group(PhaseConfig, 'teacher_', 'teacher', steps=-1)
  annotation: AnnotationConfig = flags.group(AnnotationConfig, heading='run')
  primary_metric: str = flags.option(
    '',
    'metric that picks checkpoints, ends training and leads the report: one of the task, or a '
    'ranking metric with any number (ndcg@10, mrr@10, map, recall@10, precision@10); '
    "empty: the task's own",
  )
  devices: DeviceConfig = flags.group(DeviceConfig, precision=AUTO)
  export: ExportConfig = flags.group(ExportConfig, heading='run')

  def __post_init__(self):
    judged_set.primary(self.task)
    if NO_TEACHER in self.teachers and len(self.teachers) > 1:
      raise InputError(f'--teacher={",".join(self.teachers)}: {NO_TEACHER} stands alone')
    table, functions = self.data.table, [t for t in self.teachers if function_teacher.is_named(t)]
    if table.teacher_scores != 'logit' and not (table.teacher_logits_column or functions):
      raise InputError(f'--teacher_scores={table.teacher_scores} needs --teacher_logits_column')
    if self.teachers and self.brings_logits:
      raise InputError(
        '--distillation_file already has teacher scores: remove '
        f'--teacher={",".join(self.teachers)}'
      )
    if table.vector_columns and not (self.brings_logits or functions):
      raise InputError(
        f'--vector_columns={",".join(table.vector_columns)}: a cross-attention teacher reads texts '
        'alone; give scores (--teacher_logits_column), or a Python function as teacher'
      )
    runtime = self.annotation.annotation_runtime
    if runtime not in (AUTO, RUNTIMES[0]) and (functions or self.brings_logits):
      given = 'a Python function' if functions else 'scores that a file brings'
      raise InputError(f'--annotation_runtime={runtime} runs a teacher of a folder, not {given}')
    files = self.data.files
    if self.fine_tunes and files.distillation_file and not files.train_file:
      raise InputError(
        '--train_file is needed: a teacher is fine-tuned on it; or --teacher=DIR, or the scores of '
        '--distillation_file (--teacher_logits_column)'
      )

  @property
  def task(self) -> Task:
    """Kind of the labels, and the metric that decides."""
    return self.data.table.task_of(self.primary_metric)

  @property
  def brings_logits(self) -> bool:
    """Whether the distillation file holds the teacher's logits, so no teacher is needed."""
    return self.data.source.brings_logits

  @property
  def labels_alone(self) -> bool:
    """Whether the student learns from the training set's labels, without a teacher."""
    return self.teachers == (NO_TEACHER,)

  @property
  def fine_tunes(self) -> bool:
    """Whether the run trains a teacher of its own."""
    return not self.brings_logits and not self.teachers


def on_labels_alone(config: Any) -> Any:
  """The `train` of a `RunConfig` without a teacher: with alpha 0, the labels alone.

  Raises:
    InputError: A flag asks for what a teacher is needed for.
  """
  own, usual = flags.flat(config), flags.flat(type(config)())
  given, right = {}, {}
  for name in own.keys() & _OF_TEACHER.keys():
    allowed = (*_OF_TEACHER[name], usual[name])
    if own[name] not in allowed:
      given[name], right[name] = own[name], allowed[0]
  if given:
    asked, instead = (' '.join(sorted(flags.lines(values))) for values in (given, right))
    raise InputError(
      f'{asked}: not with --teacher={NO_TEACHER}, which trains on the labels of the training set '
      f'alone; use {instead}'
    )
  return dataclasses.replace(
    config.train, objective=dataclasses.replace(config.train.objective, alpha=0.0)
  )
