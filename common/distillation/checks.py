"""Refusals of a run before its first stage, and of labelled sets of no use to it."""

import os

from common.data import tables
from common.data.records import RecordSet
from common.data.task import Task
from common.distillation import teachers
from common.distillation.config import ExperimentConfig
from common.distillation.function_teacher import Function
from common.distillation.student import LABELS_ALONE, StudentPackage, labels_of
from common.errors import InputError
from common.evaluation import judged_set
from common.export import student_export
from common.modeling import checkpoints


def check(config: ExperimentConfig, student: StudentPackage, function: Function | None) -> None:
  """Refuses what could only fail later, after hours; arguments as of `run.run`.

  Raises:
    InputError: A teacher or checkpoint is not there or does not fit, or the loss takes labels that
      the distillation set lacks.
  """
  if function is None and not config.labels_alone:
    teachers.check(config.teachers, config.teacher.max_length, config.task)
  columns = config.data.table.text_columns
  asked = not (config.brings_logits or config.labels_alone)
  if asked and config.teacher.max_length < (least := len(columns) + 2):
    raise InputError(
      f'--teacher_max_length={config.teacher.max_length}: {len(columns)} texts take {least} tokens '
      'at the least'
    )
  if config.fine_tunes:
    pretrained = checkpoints.read(config.teacher.pretrained)
    checkpoints.check_length(pretrained, '--teacher_max_length', config.teacher.max_length)
    if config.teacher.similarity and config.task.outputs == 1:
      checkpoints.read(config.teacher.similarity)
  student_export.slot_names(columns)
  path, column = config.data.files.distillation_file, config.data.table.label_column
  # Every training pair has a label; a distillation set's may lack them.
  labels = 'none' if config.labels_alone else labels_of(student.losses)
  if labels != 'none' and not config.data.brings_labels:
    raise InputError(
      f'{config.data.source.named}: this loss needs labels, and the distillation set has none; '
      'use --alpha=1'
    )
  if labels == 'all' and config.data.makes:
    other = ' or a --distillation_file with labels' if config.data.files.train_file else ''
    raise InputError(
      f'{LABELS_ALONE} needs a label on every pair, and most made pairs have none; train on the '
      f'training set (--distillation_pairs=0 --augmentations=0){other}, or remove it'
    )
  # A line of JSON without a label says nothing of the others.
  may_lack = labels == 'some' and path.removesuffix('.gz').endswith('.jsonl')
  if labels != 'none' and path and not config.data.files.annotated and not may_lack:
    first = next(tables.rows(path, config.data.table.encoding, columns=(column,)), None)
    if first and column not in first[1]:
      raise InputError(
        f'{path}: has no column {column!r}, and this loss needs labels; set --label_column, '
        'or use --alpha=1'
      )
  student.check()


def check_labelled(data: str, task: Task, *, learns: bool = False) -> None:
  """Refuses labelled sets that could not judge what is trained, or teach it.

  Args:
    data: Folder of the record sets.
    task: The run's.
    learns: Whether a model learns the labels of `train`, which is checked then too.

  Raises:
    InputError: If there is nothing to rank, or all labels of a set are alike.
  """
  for name in ('valid', 'test'):
    records = RecordSet(os.path.join(data, name))
    judged_set.check(records, task, _named(records))
  if learns:
    records = RecordSet(os.path.join(data, 'train'))
    labels = records.tuples().labels
    if labels.min() == labels.max():
      raise InputError(
        f'{_named(records)}: all {len(labels)} labels are alike; nothing can be learnt from them'
      )


def _named(records: RecordSet) -> str:
  """A labelled set's folder, and the file that it was made of, where it was one."""
  name, source = os.path.basename(records.folder), records.manifest.info.get('source')
  return f'{records.folder} (of {source[name]})' if isinstance(source, dict) else records.folder
