"""The whole story of a run, for any student.

Labelled sets, tuples for the teacher, teacher, soft labels, student, export, evaluation, speeds,
report. A student brings its own training, scoring and export (`StudentPackage`); everything else is
here.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from common import digests, files, flags
from common.data.records import RecordSet
from common.distillation import (
  checks,
  dataset,
  evaluation,
  export,
  judged_set,
  measure,
  results,
  run_log,
  soft_labels,
  summary,
  teacher,
)
from common.distillation.config import ExperimentConfig
from common.distillation.dataset import LabelledSets
from common.distillation.evaluation import Evaluated
from common.distillation.export import Exported
from common.distillation.function_teacher import Function
from common.distillation.inference import TupleScorer
from common.distillation.measure import Benchmarked
from common.distillation.run_folder import RunFolder
from common.distillation.shared import Shared, Trained
from common.distillation.soft_labels import Annotation
from common.distillation.sources.source import UnlabelledSet
from common.distillation.student import StudentPackage, check_set, labels_of
from common.distillation.summary import Stages
from common.distillation.teachers import Teachers
from common.errors import InputError
from common.evaluation import calibration, report
from common.modeling import checkpoints
from common.modeling.calibration import Calibration
from common.training import strategies
from common.training.loop import Callback


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
  folder = RunFolder(config.run_dir, resolved, f'{student.name}.run', config.redo)
  with run_log.kept(config.run_dir, _about(student.name, resolved)):
    checks.check(config, student, function)
    table, task, devices = config.data.table, config.task, config.devices
    shared = Shared(table, task, devices, strategy, config.seed, tuple(callbacks))
    stages = declare(folder, config, student, shared, function)
    folder.make()
    title = config.title or os.path.basename(os.path.normpath(config.run_dir))
    title = f'{student.title} on {title}'
    collected = summary.collect(title, student.name, resolved, task, stages)
    scored = os.path.join(stages.evaluation.folder, 'scores.npz')
    scores = digests.read_arrays(scored, 'delete its folder and run again')
    report.write_report(collected, scores, folder.file('report.html'))
    report.write_model_card(collected, folder.file('README.md'))
    files.write_json(folder.file('results.json'), results.finite(collected), sealed=True)
    print(report.summary_table(collected))
    print(f'report: {folder.file("report.html")}')
  return collected


def declare(
  folder: RunFolder,
  config: ExperimentConfig,
  student: StudentPackage,
  shared: Shared,
  function: Function | None = None,
) -> Stages:
  """Declares the stages of a run, in order; `folder.make` makes them."""
  seed, seeded = shared.seed, {'seed': shared.seed}

  data = folder.stage(
    'data',
    LabelledSets,
    lambda to: dataset.write_labelled(config.data, to, seed),
    {**config.data.labelled_inputs(), **seeded},
    resumes=bool(config.data.mining.mine_from),  # of vectors
    check=lambda at: judged_set.check(at, shared.task, learns=config.fine_tunes),
  )
  train, valid = (os.path.join(data.folder, name) for name in ('train', 'valid'))

  labels = labels_of(student.losses)
  unlabelled = folder.stage(
    'unlabelled',
    UnlabelledSet,
    lambda to: dataset.write_unlabelled(config.data, data.folder, to, seed, labels),
    {**config.data.unlabelled_inputs(), **seeded},
    after=[data],
    resumes=False,
    check=lambda at: check_set(RecordSet(at), student.losses, student.batch_sizes),
  )

  def fine_tune(to: str) -> Trained:
    tf_keras.utils.set_random_seed(seed)
    pretrained, length = checkpoints.read(config.teacher.pretrained), config.teacher.max_length
    training = shared.training(train, valid)
    history = teacher.fine_tune(pretrained, length, config.teacher_phase, training, to)
    return Trained([history])

  fine_tuned = None
  if config.fine_tunes:
    depends_on = {
      **flags.flat(config.teacher, 'teacher_'),
      **flags.flat(config.teacher_phase, 'teacher_'),
      **digests.contents(config.teacher.pretrained),
      **shared.training_flags,
    }
    fine_tuned = folder.stage('teacher', Trained, fine_tune, depends_on, after=[data])

  teachers = None  # where the tuples bring their logits
  if not config.brings_logits:
    own = fine_tuned.folder if fine_tuned else ''
    teachers = Teachers(shared, config.teachers, config.teacher.max_length, own, function)
  distill = folder.stage(
    'distill',
    Annotation,
    lambda to: soft_labels.write(config.annotation, teachers, valid, unlabelled.folder, to),
    soft_labels.depends_on(config.annotation, teachers),
    after=[data, fine_tuned, unlabelled],
  )

  def train_student(to: str) -> Trained:
    tf_keras.utils.set_random_seed(seed)
    return Trained(student.train(to, shared.training(distill.folder, valid)))

  trained = folder.stage(
    'student',
    Trained,
    train_student,
    {**student.depends_on, **shared.training_flags},
    after=[distill],
  )

  exported = folder.stage(
    'export',
    Exported,
    lambda to: export.write(
      config.export,
      shared.table,
      shared.task,
      lambda: student.models(trained.folder),
      data.folder,
      to,
    ),
    flags.flat(config.export),
    after=[trained],
  )

  # Without calibration another export changes no score.
  calibrated = exported if config.export.calibration != calibration.NONE else None

  @strategies.precision()
  def evaluate(to: str) -> Evaluated:
    scorers = teachers.scorers() if teachers else {}
    alone = [name for name in scorers if name != 'teacher']
    for name, model in student.models(trained.folder).items():
      scorers[name] = TupleScorer(*model, tf.distribute.get_strategy()).of_set
    return evaluation.evaluate(
      scorers,
      shared.task,
      data.folder,
      to,
      export.calibration_of(calibrated.folder) if calibrated else Calibration(),
      alone,
      {'train': train, 'distillation': distill.folder},
    )

  evaluated = folder.stage('evaluation', Evaluated, evaluate, {}, after=[trained, calibrated])

  @strategies.precision()
  def benchmark(to: str) -> Benchmarked:
    del to
    loaded = teachers.load() if teachers else []
    return measure.of_export(
      student.scorer,
      student.title,
      exported.folder,
      data.folder,
      shared.task,
      loaded,
      function,
    )

  rates = folder.stage('benchmark', Benchmarked, benchmark, {}, after=[exported])
  return Stages(data, unlabelled, fine_tuned, distill, trained, exported, evaluated, rates)


def _about(student: str, resolved: Any) -> Iterator[str]:
  """Lines that each start's log begins with."""
  yield f'== {summary.command(student, resolved)}'
  about = {'commit': results.commit() or 'none', **results.environment()}
  yield ', '.join(f'{name.replace("_", " ")} {value}' for name, value in about.items())
