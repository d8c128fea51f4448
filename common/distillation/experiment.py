"""The whole story, for any student: data, teacher, soft labels, student, export, evaluation, report.

A student brings its own training, scoring and export (see `Student`); everything else is here.
"""

import dataclasses
import itertools
import os
import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
import tf_keras

from common import flags
from common.data import records
from common.data.examples import Example
from common.data.tokenization import Tokenizer
from common.distillation import annotate, dataset, datasheet, measure, mining, results, transfer
from common.distillation.dataset import DataConfig
from common.distillation.inference import TupleScorer
from common.distillation.results import Scorer
from common.distillation.run_folder import RunFolder, Stage
from common.distillation.teacher import Teacher, TeacherConfig, fine_tune, mean_logits, scorer_of
from common.errors import InputError
from common.evaluation import report
from common.json_files import write_json
from common.modeling import checkpoints, saving
from common.modeling.student import Student as StudentModel
from common.serving import student_export
from common.serving.scorer import PairScorer
from common.training import strategies
from common.training.optimization import PhaseConfig
from common.training.strategies import DeviceConfig


@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
  """A run, whatever its student."""

  run_dir: str = flags.option('', 'folder of the run: its stages, results and report')
  title: str = flags.option('', "title of the report; empty: the run folder's name")
  redo: bool = flags.option(False, 'replace stages that were made with other flags')
  seed: int = flags.option(7, 'of data, initial weights, dropout and shuffling')
  data: DataConfig = flags.group(DataConfig)
  teacher: TeacherConfig = flags.group(TeacherConfig)
  teacher_phase: PhaseConfig = flags.group(PhaseConfig, 'teacher_', steps=1500, warmup_steps=150)
  temperature: float = flags.option(1.0, 'T: soft labels are sigmoid(z/T)')
  devices: DeviceConfig = flags.group(DeviceConfig)
  encoder_precision: str = flags.option(
    'float32', 'arithmetic of the exported encoder', ('float32', 'mixed_bfloat16')
  )

  def __post_init__(self):
    if not self.temperature > 0:
      raise InputError(f'--temperature={self.temperature}: must be above 0')

  @property
  def brings_logits(self) -> bool:
    """Whether the distillation file holds the teacher's logits, so no teacher is needed."""
    return bool(self.data.table.teacher_logits_column) or self.data.annotated


TrainedStudent = tuple[StudentModel, Tokenizer]


class Student(Protocol):
  """What a student brings to a run."""

  name: str  # of its package: 'dipair'
  title: str  # as people write it: 'DiPair'
  depends_on: dict[str, Any]  # flags of its stage

  @property
  def scorer(self) -> type[PairScorer]:
    """Of its exports."""

  def check(self) -> None:
    """Refuses flags and checkpoints that could only fail later, after hours."""

  def train(self, folder: str, **training: Any) -> list[dict[str, Any]]:
    """Distils into `folder`; returns the phases' histories.

    Args:
      folder: Of the student.
      **training: `distill`, `valid`, `task`, `devices`, `strategy` and `seed`, as for `Trainer`;
        `outputs`, of the student.
    """

  def models(self, folder: str) -> dict[str, TrainedStudent]:
    """The trained student, last, before it what else of its training is to be compared."""


def run(config: ExperimentConfig, student: Student, resolved: Any) -> dict[str, Any]:
  """Runs what is missing of an experiment and writes its results, report and model card.

  Args:
    config: The run.
    student: Its student.
    resolved: The whole config, saved as the run's flags.

  Returns:
    The results, as in `results.json`.
  """
  if not config.run_dir:
    raise InputError('--run_dir is needed: the folder of the run')
  _check(config, student)
  strategy = strategies.create(config.devices)  # before anything else runs on the devices
  chief = strategies.is_chief(strategy)
  folder = RunFolder(config.run_dir, resolved, f'{student.name}.run', config.redo, chief)
  done = folder.run(_stages(config, student, folder, strategy))
  title = config.title or os.path.basename(os.path.normpath(config.run_dir))
  title = f'{student.title} on {title}'
  collected = results.collect(title, student.name, resolved, config.data.table.kind, done)
  if not chief:
    return collected
  with np.load(folder.folder('evaluation/scores.npz')) as scores:
    report.write_report(collected, dict(scores), folder.folder('report.html'))
  report.write_model_card(collected, folder.folder('README.md'))
  write_json(folder.folder('results.json'), results.finite(collected))
  print(report.summary_table(collected))
  print(f'report: {folder.folder("report.html")}')
  return collected


def _check(config: ExperimentConfig, student: Student) -> None:
  for path in config.teacher.teachers:
    saving.read(path)
  if not config.teacher.teachers and not config.brings_logits:
    pretrained = checkpoints.read(config.teacher.teacher_pretrained)
    checkpoints.check_length(pretrained, '--teacher_max_length', config.teacher.teacher_max_length)
  student.check()


def _stages(
  config: ExperimentConfig,
  student: Student,
  folder: RunFolder,
  strategy: tf.distribute.Strategy,
) -> list[Stage]:
  seed = {'seed': config.seed}
  devices = {'precision': config.devices.precision}
  table = config.data.table

  def mine(path: str) -> None:
    mining.mine(config.data.mining, path, config.seed)

  def make_transfer(path: str) -> dict[str, Any]:
    sheet = transfer.write(config.data.mining, folder.folder('mined'), path, config.seed)
    print(datasheet.summary(sheet))
    return {name: value for name, value in sheet.items() if name not in transfer.LONG}

  def make_teacher(path: str) -> dict[str, Any]:
    tf_keras.utils.set_random_seed(config.seed)
    return fine_tune(
      config.teacher,
      config.teacher_phase,
      folder.folder('data'),
      path,
      task=table.kind,
      outputs=table.outputs,
      devices=config.devices,
      strategy=strategy,
      seed=config.seed,
    )

  def load_teachers() -> list[Teacher]:
    paths = config.teacher.teachers or [folder.folder('teacher')]
    with strategies.scope_of_one(strategy):
      teachers = [Teacher.load(path) for path in paths]
    for path, teacher in zip(paths, teachers, strict=True):
      if teacher.outputs != table.outputs:
        raise InputError(
          f'--teacher={path} has {teacher.outputs} outputs, --task needs {table.outputs}'
        )
    return teachers

  def make_soft_labels(path: str) -> dict[str, Any]:
    if config.brings_logits:
      name = 'logits of the file'
    else:
      teachers, name = load_teachers(), ', '.join(config.teacher.teachers) or 'teacher'

    def logits_of(examples: Sequence[Example], advance: annotate.Advance) -> np.ndarray:
      if not config.brings_logits:
        return mean_logits(teachers, examples, strategy=strategy, advance=advance)
      advance(len(examples))
      return results.brought_logits(examples)

    started = time.monotonic()
    manifest = annotate.annotate(
      folder.folder('unlabelled'),
      path,
      logits_of,
      temperature=config.temperature,
      info={'teacher': name},
    )
    return {'count': manifest.count, 'seconds': round(time.monotonic() - started, 1)}

  def make_student(path: str) -> list[dict[str, Any]]:
    tf_keras.utils.set_random_seed(config.seed)
    return student.train(
      path,
      distill=folder.folder('distill'),
      valid=folder.folder('data/valid'),
      task=table.kind,
      outputs=table.outputs,
      devices=config.devices,
      strategy=strategy,
      seed=config.seed,
    )

  @strategies.precision()
  def export(path: str) -> dict[str, Any]:
    trained, tokenizer = list(student.models(folder.folder('student')).values())[-1]
    encoder = None  # the student's own
    if config.encoder_precision != 'float32':
      with strategies.precision(config.encoder_precision):
        encoder, _ = list(student.models(folder.folder('student')).values())[-1]
    return student_export.write(
      path,
      trained,
      tokenizer,
      encoder=encoder,
      slots=student_export.slot_names(table.text_columns),
      task=table.kind,
      samples=_samples(folder),
    )

  @strategies.precision()
  def evaluate(path: str) -> dict[str, Any]:
    scorers: dict[str, Scorer] = {}
    if not config.brings_logits:
      scorers['teacher'] = scorer_of(load_teachers(), strategy)
    for name, trained in student.models(folder.folder('student')).items():
      scorers[name] = TupleScorer(*trained, tf.distribute.get_strategy()).logits
    return results.evaluate(scorers, table.kind, folder.folder('data'), path)

  def benchmark(path: str) -> dict[str, Any]:
    del path
    return measure.of_export(student.scorer, student.title, folder.folder(''), table.kind)

  mined, transferred, source = [], [], config.data
  if config.data.mining.mine_from:
    mined_folder, transfer_folder = folder.folder('mined'), folder.folder('transfer')
    source = config.data.of_mined(mined_folder, transfer_folder)
    mined = [Stage('mined', {**config.data.mined_sources(), **seed}, [], mine)]
    transferred = [Stage('transfer', config.data.mining.transfer_flags(), mined, make_transfer)]
  data = Stage(
    'data',
    {**config.data.labelled_sources(), **seed},
    mined,
    lambda path: dataset.write_labelled(source, path, config.seed),
  )
  unlabelled = Stage(
    'unlabelled',
    {**config.data.unlabelled_sources(), **seed},
    [data, *transferred],
    lambda path: dataset.write_unlabelled(source, folder.folder('data'), path, config.seed),
  )
  stages = [data]
  if not config.brings_logits and not config.teacher.teachers:
    teacher_flags = {**flags.flat(config.teacher), **flags.flat(config.teacher_phase, 'teacher_')}
    stages.append(
      Stage('teacher', {**teacher_flags, **seed, **devices}, [data], make_teacher, True)
    )
  distill_flags = {'temperature': config.temperature, 'teachers': config.teacher.teachers}
  distill = Stage('distill', distill_flags, [*stages, unlabelled], make_soft_labels)
  trained = Stage(
    'student',
    {**student.depends_on, **seed, **devices},
    [distill],
    make_student,
    collective=True,
  )
  exported = Stage('export', {'encoder_precision': config.encoder_precision}, [trained], export)
  evaluated = Stage('evaluation', {}, [trained], evaluate)
  measured = Stage('benchmark', {}, [exported], benchmark)
  return [
    *mined,
    *transferred,
    data,
    unlabelled,
    *stages[1:],
    distill,
    trained,
    exported,
    evaluated,
    measured,
  ]


def _samples(folder: RunFolder) -> list[tuple[str, ...]]:
  """A few texts of each slot."""
  examples = itertools.islice(records.read(folder.folder('data/test')), 8)
  return list(zip(*(example.texts for example in examples), strict=True))
