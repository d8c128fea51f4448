"""The whole story, for any student: data, teacher, soft labels, student, export, evaluation, report.

A student brings its own training, scoring and export (see `StudentPackage`); everything else is here.
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any

from common import digests, files, flags
from common.data import tables
from common.distillation import function_teacher, judged_set, results, run_log, summary
from common.distillation.dataset import DataConfig
from common.distillation.function_teacher import Function
from common.distillation.run_folder import RunFolder, Stage
from common.distillation.stages import teacher
from common.distillation.stages.data import Data, Unlabelled
from common.distillation.stages.distill import RUNTIMES, AnnotationConfig, Distill
from common.distillation.stages.evaluation import Benchmark, Evaluation
from common.distillation.stages.export import Export, ExportConfig
from common.distillation.stages.run import Run
from common.distillation.stages.student import StudentTraining
from common.distillation.stages.teacher import Teachers, TeacherTraining
from common.distillation.student import LABELS_ALONE, StudentPackage, labels_of
from common.distillation.teacher import TeacherConfig
from common.errors import InputError
from common.evaluation import calibration, report
from common.export import student_export
from common.modeling import checkpoints
from common.training import strategies
from common.training.loop import Callback
from common.training.optimization import PhaseConfig
from common.training.strategies import DeviceConfig


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
    "teachers' folders, from other runs or of a Hugging Face sequence classifier, whose mean logits "
    "are the teacher's; empty: fine-tune one",
    alias='teacher',
  )
  teacher: TeacherConfig = flags.group(TeacherConfig, 'teacher_')
  teacher_phase: PhaseConfig = flags.group(
    PhaseConfig, 'teacher_', 'teacher', steps=1500, warmup_steps=150
  )
  annotation: AnnotationConfig = flags.group(AnnotationConfig, heading='run')
  primary_metric: str = flags.option(
    '',
    'metric that picks checkpoints, ends training and leads the report: one of the task, or of ranking '
    "(ndcg@10, mrr@10, map, recall@10, precision@10; any number); empty: the task's own",
  )
  devices: DeviceConfig = flags.group(DeviceConfig)
  export: ExportConfig = flags.group(ExportConfig, heading='run')

  def __post_init__(self):
    judged_set.primary(self.data.table.base_task, self.primary_metric)
    calibration.check(self.export.calibration, self.data.table.base_task)
    table, functions = self.data.table, [t for t in self.teachers if function_teacher.is_named(t)]
    if table.teacher_scores != 'logit' and not (table.teacher_logits_column or functions):
      raise InputError(
        f'--teacher_scores={table.teacher_scores} is of --teacher_logits_column, which is missing'
      )
    if self.teachers and self.brings_logits:
      raise InputError(
        f'--teacher={self.teachers[0]}: the distillation file brings its scores already; one of the two'
      )
    if table.vector_columns and not (self.brings_logits or functions):
      raise InputError(
        f'--vector_columns={",".join(table.vector_columns)}: a cross-attention teacher reads texts '
        'alone; bring its scores (--teacher_logits_column), or a Python function as --teacher'
      )
    runtime = self.annotation.annotation_runtime
    if runtime != RUNTIMES[0] and (functions or self.brings_logits):
      given = 'a Python function' if functions else 'scores that a file brings'
      raise InputError(f'--annotation_runtime={runtime} runs a teacher of a folder, not {given}')
    files = self.data.files
    if self.fine_tunes and files.distillation_file and not files.train_file:
      raise InputError(
        '--train_file is needed: a teacher is fine-tuned on it; or --teacher=DIR, or the scores of '
        '--distillation_file (--teacher_logits_column)'
      )

  @property
  def brings_logits(self) -> bool:
    """Whether the distillation file holds the teacher's logits, so no teacher is needed."""
    return self.data.source.brings_logits

  @property
  def fine_tunes(self) -> bool:
    """Whether the run trains a teacher of its own."""
    return not self.brings_logits and not self.teachers


class Experiment:
  """The stages of a run, each with the stages that it reads.

  Args:
    config: The run.
    student: Its student.
    shared: Folder, table, devices and seed of all stages.
    function: The teacher, where it is a Python function.
  """

  def __init__(
    self,
    config: ExperimentConfig,
    student: StudentPackage,
    shared: Run,
    function: Function | None = None,
  ):
    self.shared = shared
    self.data = Data(shared, config.data, config.fine_tunes)
    self.unlabelled = Unlabelled(
      shared, config.data, self.data, student.losses, student.batch_sizes
    )
    self.teacher = None
    if config.fine_tunes:
      self.teacher = TeacherTraining(shared, config.teacher, config.teacher_phase, self.data)
    teachers = None
    if not config.brings_logits:
      teachers = Teachers(
        shared, config.teachers, config.teacher.max_length, self.teacher, function
      )
    self.distill = Distill(
      shared,
      config.annotation,
      self.data,
      self.unlabelled,
      teachers,
    )
    self.student = StudentTraining(shared, student, self.data, self.distill)
    self.export = Export(shared, config.export, self.data, self.student)
    self.evaluation = Evaluation(
      shared, self.data, self.distill, self.student, self.export, teachers
    )
    self.benchmark = Benchmark(shared, student, self.export, teachers)

  def stages(self) -> list[Stage]:
    """All of them, in order."""
    teacher = [self.teacher] if self.teacher else []
    before: list[Stage] = [self.data, self.unlabelled, *teacher, self.distill]
    return [*before, self.student, self.export, self.evaluation, self.benchmark]

  def results(self, folder: RunFolder) -> summary.Done:
    """Their results."""
    return summary.Done(
      data=folder.result(self.data),
      unlabelled=folder.result(self.unlabelled),
      teacher=folder.result(self.teacher) if self.teacher else None,
      distill=folder.result(self.distill),
      student=folder.result(self.student),
      export=folder.result(self.export),
      evaluation=folder.result(self.evaluation),
      benchmark=folder.result(self.benchmark),
    )


@strategies.settings_restored()
def run(
  config: ExperimentConfig,
  student: StudentPackage,
  resolved: Any,
  *,
  function: Function | None = None,
  callbacks: Sequence[Callback] = (),
) -> dict[str, Any]:
  """Runs what is missing of an experiment and writes its results, report and model card.

  Args:
    config: The run.
    student: Its student.
    resolved: The whole config, saved as the run's flags.
    function: The teacher, where it is a Python function, which `config.teachers` names.
    callbacks: Called at each evaluation of a training, as `loop.Callback`.

  Returns:
    The results, as in `results.json`.
  """
  if not config.run_dir:
    raise InputError('--run_dir is needed: the folder of the run')
  strategy = strategies.create(config.devices)  # before anything else runs on the devices
  chief = strategies.is_chief(strategy)
  folder = RunFolder(config.run_dir, resolved, f'{student.name}.run', config.redo, chief)
  log = run_log.kept(config.run_dir, _about(student.name, resolved))
  with log if chief else contextlib.nullcontext():
    _check(config, student, function)
    devices, metric = config.devices, config.primary_metric
    shared = Run(
      config.run_dir, config.data.table, devices, strategy, config.seed, metric, tuple(callbacks)
    )
    return _run(config, Experiment(config, student, shared, function), resolved, folder)


def _run(
  config: ExperimentConfig, experiment: Experiment, resolved: Any, folder: RunFolder
) -> dict[str, Any]:
  student, table = experiment.student.student, config.data.table
  strategy = experiment.shared.strategy
  folder.run(experiment.stages(), functools.partial(strategies.has_chief, strategy))
  title = config.title or os.path.basename(os.path.normpath(config.run_dir))
  title, done = f'{student.title} on {title}', experiment.results(folder)
  primary = judged_set.primary(table.base_task, config.primary_metric)
  collected = summary.collect(title, student.name, resolved, table.base_task, done, primary)
  if not folder.chief:
    return collected
  scored = os.path.join(experiment.evaluation.folder, 'scores.npz')
  scores = digests.read_arrays(scored, 'delete its folder and run again')
  report.write_report(collected, scores, folder.file('report.html'))
  report.write_model_card(collected, folder.file('README.md'))
  files.write_json(folder.file('results.json'), results.finite(collected), sealed=True)
  print(report.summary_table(collected))
  print(f'report: {folder.file("report.html")}')
  return collected


def _about(student: str, resolved: Any) -> Iterator[str]:
  """Lines that each start's log begins with."""
  yield f'== {summary.command(student, resolved)}'
  about = {'commit': results.commit() or 'none', **results.environment()}
  yield ', '.join(f'{name.replace("_", " ")} {value}' for name, value in about.items())


def _check(config: ExperimentConfig, student: StudentPackage, function: Function | None) -> None:
  if function is None:
    teacher.check(config.teachers, config.teacher.max_length, config.data.table)
  columns = config.data.table.text_columns
  asked = config.fine_tunes or config.teachers
  if asked and config.teacher.max_length < (least := len(columns) + 2):
    raise InputError(
      f'--teacher_max_length={config.teacher.max_length}: {len(columns)} texts take {least} tokens '
      'at the least'
    )
  if config.fine_tunes:
    pretrained = checkpoints.read(config.teacher.pretrained)
    checkpoints.check_length(pretrained, '--teacher_max_length', config.teacher.max_length)
  student_export.slot_names(columns)
  path, column = config.data.files.distillation_file, config.data.table.label_column
  labels = labels_of(student.losses)
  if labels != 'none' and not config.data.brings_labels:
    raise InputError(
      f'{config.data.source.named}: the loss takes labels, which its distillation set has not; '
      '--alpha=1 takes none'
    )
  if labels == 'all' and config.data.makes:
    other = ', or a --distillation_file with labels' if config.data.files.train_file else ''
    raise InputError(
      f'{LABELS_ALONE} takes labels alone, which most pairs made have not: the training set '
      f'(--distillation_pairs=0 --augmentations=0){other}; or leave it out'
    )
  # A line of JSON without a label says nothing of the others.
  may_lack = labels == 'some' and path.removesuffix('.gz').endswith('.jsonl')
  if labels != 'none' and path and not config.data.files.annotated and not may_lack:
    first = next(tables.rows(path, config.data.table.encoding, columns=(column,)), None)
    if first and column not in first[1]:
      raise InputError(
        f'{path}: no column {column!r}, and the loss takes labels: name it by --label_column, '
        'or --alpha=1'
      )
  student.check()
