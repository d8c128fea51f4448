"""The whole story of a run, for any student.

Labelled sets, tuples for the teacher, teacher, soft labels, student, export, evaluation, speeds,
report. A student brings its own training, scoring and export (`StudentPackage`); everything else is
here.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from common import digests, files, flags
from common.data.records import RecordSet
from common.distillation import (
  checks,
  dataset,
  export,
  held_out,
  learnt_similarity,
  measure,
  provenance,
  recipe,
  run_log,
  soft_labels,
  teacher,
)
from common.distillation.config import ExperimentConfig
from common.distillation.dataset import LabelledSets
from common.distillation.export import Exported
from common.distillation.function_teacher import Function
from common.distillation.inference import TupleScorer
from common.distillation.measure import Benchmarked
from common.distillation.run_folder import RunFolder, Stage
from common.distillation.soft_labels import Annotation
from common.distillation.sources.source import UnlabelledSet
from common.distillation.student import StudentPackage, check_set, labels_of
from common.distillation.teachers import Teachers
from common.distillation.trainer import Trained, Training
from common.errors import InputError
from common.evaluation import calibration, evaluation, judged_set, report
from common.evaluation.evaluation import Evaluated
from common.evaluation.results import Results
from common.modeling import checkpoints
from common.scoring.exported import describe
from common.training import strategies
from common.training.loop import Callback


@dataclasses.dataclass(frozen=True)
class Stages:
  """The stages of a run.

  `teacher` makes a teacher, where the run fine-tunes one. Labels alone need no tuples for one.
  """

  data: Stage[LabelledSets]
  unlabelled: Stage[UnlabelledSet] | None
  teacher: Stage[Trained] | None
  distill: Stage[Annotation] | None
  student: Stage[Trained]
  export: Stage[Exported]
  evaluation: Stage[Evaluated]
  benchmark: Stage[Benchmarked]


Sets = tuple[Stage[LabelledSets], Stage[UnlabelledSet] | None]  # labels alone need no other tuples


@strategies.settings_restored()
def run(
  config: Any,
  package: type[StudentPackage],
  *,
  function: Function | None = None,
  callbacks: Sequence[Callback] = (),
) -> Results:
  """Runs what is missing of an experiment and writes its results, report and model card.

  Args:
    config: The run: a config with an `experiment`.
    package: Makes its student.
    function: The teacher, where it is a Python function, which `--teachers` names.
    callbacks: Called at each evaluation of a training, as `loop.Callback`.
  """
  run_dir = config.experiment.run_dir
  if not run_dir:
    raise InputError('--run_dir is needed: the folder of the run')
  asked, redo = config, config.experiment.redo
  folder = RunFolder(run_dir, config, f'{package.name}.run', redo)
  if not redo:
    config = recipe.filled(config, folder.kept(recipe.open_flags(config)))
  config = recipe.settled(config)
  strategy = strategies.create(config.experiment.devices)  # before anything else runs on them
  student = package(config)
  command = flags.command_line(f'{package.name}.run', flags.changed(asked))
  made_by = {'commit': provenance.commit(), **provenance.environment()}
  about = (f'{name.replace("_", " ")} {value or "none"}' for name, value in made_by.items())
  with run_log.kept(run_dir, [f'== {command}', ', '.join(about)]):
    checks.check(config.experiment, student, function)
    data, unlabelled = sets = declare_data(folder, config.experiment, student)
    if recipe.of_data_flags(config):
      folder.make(config)
      train = os.path.join(data.folder, 'train')
      config = recipe.of_data(config, train, unlabelled.folder if unlabelled else train)
      student = package(config)
      checks.check(config.experiment, student, function)
    if found := recipe.difference(asked, config):
      print('set: ' + ' '.join(flags.lines(found)))
    stages = declare(folder, config.experiment, student, strategy, function, callbacks, sets)
    folder.make(config)
    scored = os.path.join(stages.evaluation.folder, 'scores.npz')
    scores = digests.read_arrays(scored, 'delete its folder and run again')
    results = _results(config.experiment, student, command, flags.kept(config), stages, scores)
    report.write_report(results, scores, folder.file('report.html'))
    report.write_model_card(results, folder.file('README.md'))
    files.write_json(folder.file('results.json'), results.as_json(), sealed=True)
    print(report.summary_table(results))
    print(f'report: {folder.file("report.html")}')
  return results


def declare_data(folder: RunFolder, config: ExperimentConfig, student: StudentPackage) -> Sets:
  """Declares the stages that need no flag which the data set."""
  seed, seeded, task = config.seed, {'seed': config.seed}, config.task

  def check_data(at: str) -> None:
    checks.check_labelled(at, task, learns=config.fine_tunes or config.labels_alone)
    if config.labels_alone:
      check_set(RecordSet(os.path.join(at, 'train')), student.losses, student.batch_sizes)

  data = folder.stage(
    'data',
    LabelledSets,
    lambda to: dataset.write_labelled(config.data, to, seed),
    {**config.data.labelled_inputs(), **seeded},
    resumes=bool(config.data.mining.mine_from),  # of vectors
    check=check_data,
  )
  if config.labels_alone:
    return data, None
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
  return data, unlabelled


def declare(
  folder: RunFolder,
  config: ExperimentConfig,
  student: StudentPackage,
  strategy: tf.distribute.Strategy,
  function: Function | None = None,
  callbacks: Sequence[Callback] = (),
  sets: Sets | None = None,
) -> Stages:
  """Declares the stages of a run, in order, after `sets`; `folder.make` makes them."""
  seed, seeded, task = config.seed, {'seed': config.seed}, config.task
  data, unlabelled = sets or declare_data(folder, config, student)
  trainings = {  # what the output of each training depends on
    **seeded,
    'precision': config.devices.precision,
    'primary_metric': judged_set.primary(task),
  }
  train, valid = (os.path.join(data.folder, name) for name in ('train', 'valid'))

  def training(targets: str) -> Training:
    """Training on a record set with targets, judged by valid."""
    return Training(targets, valid, task, config.devices, strategy, seed, tuple(callbacks))

  fine_tuned = distill = None
  teachers = None  # where the tuples bring their logits, or labels are all that is learnt
  if pairs := unlabelled:

    def fine_tune(to: str) -> Trained:
      tf_keras.utils.set_random_seed(seed)
      pretrained, length = checkpoints.read(config.teacher.pretrained), config.teacher.max_length
      phase = config.teacher_phase
      near = config.teacher.similarity
      return Trained(teacher.fine_tune(pretrained, length, phase, training(train), to, near=near))

    if config.fine_tunes:
      depends_on = {
        **flags.flat(config.teacher, 'teacher_'),
        **flags.flat(config.teacher_phase, 'teacher_'),
        **digests.contents(config.teacher.pretrained, config.teacher.similarity),
        **trainings,
      }
      fine_tuned = folder.stage('teacher', Trained, fine_tune, depends_on, after=[data])

    if not config.brings_logits:
      own = fine_tuned.folder if fine_tuned else ''
      teachers = Teachers(config, strategy, own, function)
    distill = folder.stage(
      'distill',
      Annotation,
      lambda to: soft_labels.write(config.annotation, teachers, valid, pairs.folder, to),
      soft_labels.depends_on(config.annotation, teachers),
      after=[data, fine_tuned, pairs],
    )

  def train_student(to: str) -> Trained:
    tf_keras.utils.set_random_seed(seed)
    given = training(distill.folder if distill else train)
    if fine_tuned:
      starts = learnt_similarity.starts(fine_tuned.folder, config.teacher.similarity)
      given = dataclasses.replace(given, starts=starts)
    return Trained(student.train(to, given))

  trained = folder.stage(
    'student',
    Trained,
    train_student,
    {**student.depends_on, **trainings},
    after=[distill or data],
  )

  exported = folder.stage(
    'export',
    Exported,
    lambda to: export.write(
      config.export,
      config.data.table,
      task,
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
    described = describe(calibrated.folder)['calibration'] if calibrated else {'temperature': 1.0}
    scorers = teachers.scorers() if teachers else {}
    alone = [name for name in scorers if name != 'teacher']
    for name, model in student.models(trained.folder).items():
      scorers[name] = TupleScorer(*model, tf.distribute.get_strategy()).of_set
    return evaluation.evaluate(
      held_out.judging_sets(data.folder),
      scorers,
      task,
      to,
      described['temperature'],
      alone,
      held_out.learnt_sets(data.folder, distill.folder if distill else ''),
    )

  evaluated = folder.stage('evaluation', Evaluated, evaluate, {}, after=[trained, calibrated])

  @strategies.precision()
  def benchmark(to: str) -> Benchmarked:
    del to
    at = exported.folder
    return measure.of_export(student.scorer, student.title, at, data.folder, task, teachers)

  rates = folder.stage('benchmark', Benchmarked, benchmark, {}, after=[exported])
  return Stages(data, unlabelled, fine_tuned, distill, trained, exported, evaluated, rates)


def _results(
  config: ExperimentConfig,
  student: StudentPackage,
  command: str,
  kept_flags: dict[str, Any],
  stages: Stages,
  scores: Mapping[str, np.ndarray],
) -> Results:
  """Results of the finished stages, and scores of test."""
  data, evaluated = stages.data.result, stages.evaluation.result
  counts, left_out, sections = dict(data.counts), {'train': data.left_out}, dict[str, Any]()
  mined = None
  if stages.unlabelled and stages.distill:
    unlabelled, annotation = stages.unlabelled.result, stages.distill.result
    counts['distillation'], left_out['distillation'] = annotation.count, unlabelled.left_out
    mined, sections['annotation'] = unlabelled.mined, annotation
  measured, trained = stages.benchmark.result, [stages.teacher, stages.student]
  base = measured.rates[0]['pairs_per_second']  # of BERT-base at 128 tokens
  title = config.title or os.path.basename(os.path.normpath(config.run_dir))
  source = config.data.source
  metadata = {
    'base_model': checkpoints.hub_id(kept_flags['pretrained']),
    'datasets': source.on_hub,
    'language': source.language,
  }
  return Results(
    title=f'{student.title} on {title}',
    student=student.name,
    task=config.task.kind,
    primary_metric=judged_set.primary(config.task),
    commit=provenance.commit(),
    command=command,
    flags=kept_flags,
    metadata={name: value for name, value in metadata.items() if value},
    example=_example(RecordSet(os.path.join(stages.data.folder, 'test')), scores['student']),
    data=counts,
    left_out=left_out,
    mined=mined,
    **vars(evaluated),
    speed=[{**row, 'ratio': row['pairs_per_second'] / base} for row in measured.rates],
    stored=measured.stored,
    encoders=measured.encoders,
    training=[row for stage in trained if stage for row in stage.result.counted('pairs')],
    sections={
      **sections,
      'export': stages.export.result,
      'environment': provenance.environment(),
    },
  )


def _example(test: RecordSet, scores: np.ndarray) -> dict[str, Any]:
  """A short one of test's tuples with the highest label, and its score; none of vectors."""
  if any(test.widths):
    return {}
  labels, texts = test.tuples().labels, test.texts()
  chosen = max(range(len(texts)), key=lambda i: (labels[i], -sum(map(len, texts[i])), -i))
  return {'texts': list(texts[chosen]), 'score': np.round(np.float64(scores[chosen]), 3).tolist()}
