"""Every model's metrics on valid and test; and where and with what a result was measured."""

import dataclasses
import math
import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from types import MappingProxyType
from typing import Any

import numpy as np
import psutil
import tensorflow as tf
from scipy.special import expit

from common.data.records import RecordSet
from common.distillation import held_out, ranked, run_log, unseen
from common.distillation.judged_set import JudgedSet
from common.evaluation import reliability, significance
from common.modeling.calibration import Calibration

SetScorer = Callable[[RecordSet], np.ndarray]  # a set's tuples to logits [n, outputs]


def evaluate(
  scorers: dict[str, SetScorer],
  task: str,
  data: str,
  folder: str,
  metric: str = '',
  calibration: Calibration = Calibration(),  # noqa: B008 (a frozen dataclass)
  alone: Sequence[str] = (),
  learnt: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
  """Metrics of each scorer on valid, test and what other test set there is.

  Args:
    scorers: Scorers by name; 'teacher' is what the others are compared with, the last is the student. With
      no teacher among them, logits that all of the sets hold are the teacher's.
    task: What a label is: 'regression', 'binary' or 'multiclass'.
    data: Folder of the record sets `valid` and `test`.
    folder: Gets `scores.npz`: label, teacher and student on test; and where test has queries with
      several candidates, `test.qrels` and runs.
    metric: The metric that decides; empty: the task's own.
    calibration: The student's, whose metrics are those of its calibrated scores.
    alone: Names of scorers that are one of several teachers each; 'teacher' is their mean.
    learnt: Folders of record sets that are learnt from, by name, for `unseen.parts`.

  Returns:
    {'models', 'ranking', 'calibration', 'unseen'} as the results want them; of two students also 'significance',
    of the last against the one before it on test, neither calibrated; and of several teachers 'against_one', the same
    against each alone.
  """
  sets = held_out.judging_sets(data)
  judges = {name: JudgedSet(records, task, metric, ranks=True) for name, records in sets.items()}
  raw = {} if 'teacher' in scorers else _brought(sets)
  for set_name, records in sets.items():
    for name, scorer in scorers.items():
      raw.setdefault(name, {})[set_name] = scorer(records)
  student = list(scorers)[-1]
  logits = {**raw, student: {name: calibration.logits(z) for name, z in raw[student].items()}}
  models: list[dict[str, Any]] = [
    {'name': name, **{s: judges[s].evaluate(of[s], raw[name][s]) for s in sets}}
    for name, of in logits.items()
  ]
  columns = {}  # of the metric that decides, resampled: by set and model
  for set_name, judged in judges.items():
    by = raw if judged.rankings else logits
    resampled = judged.resampled([of[set_name] for of in by.values()])
    columns[set_name] = dict(zip(by, resampled, strict=True))
  if 'teacher' in logits:
    for model in models[1:]:
      model |= changes(columns, model['name'])
  found: dict[str, Any] = {}
  students = [name for name in scorers if name not in ('teacher', *alone)]
  trained = columns['test']
  if calibration != Calibration():  # of which the student before has none: both as trained
    (resampled,) = judges['test'].resampled([raw[student]['test']])
    trained = {**trained, student: resampled}
  if len(students) > 1:
    found['significance'] = _tested(trained, student, students[-2])
  if alone:
    found['against_one'] = [_tested(columns['test'], student, name) for name in alone]
  of_both = {name: (sets[name], judged) for name, judged in judges.items()}
  of_models, found['ranking'] = ranked.of_sets(of_both, raw, student, folder)
  for model in models:
    model['ranking'] = of_models[model['name']]
  compared = {name: by[name] for name in dict.fromkeys(['teacher', student]) if name in by}
  found['unseen'] = unseen.parts(sets, learnt, compared, task, metric)
  labels = {name: judged.labels for name, judged in judges.items()}
  _save_scores(folder, labels['test'], {name: of['test'] for name, of in logits.items()}, student)
  tested = {name: logits[name]['test'] for name in ('teacher', student) if name in logits}
  if calibration != Calibration():
    tested[f'{student}, uncalibrated'] = raw[student]['test']
  found['calibration'] = {
    **dataclasses.asdict(calibration),
    'models': {
      name: reliability.of_logits(task, labels['test'], of) for name, of in tested.items()
    },
  }
  if task == 'binary':
    of_sets = [(labels[name], logits[student][name]) for name in ('test', 'valid')]
    found['calibration']['thresholds'] = reliability.thresholds(*of_sets)
  return {'models': models, **found}


def _brought(sets: dict[str, RecordSet]) -> dict[str, dict[str, np.ndarray]]:
  """The teacher's logits that sets hold, as one of several models; none where a set has none."""
  held = {name: records.tuples().teacher_logits for name, records in sets.items()}
  found = {name: logits for name, logits in held.items() if logits is not None}
  if len(found) == len(held):
    return {'teacher': found}
  if found:
    without = ', '.join(name for name in held if name not in found)
    print(f"{without}: without the teacher's logits, so no set is compared with it")
  return {}


def changes(
  columns: dict[str, dict[str, np.ndarray]], model: str, baseline: str = 'teacher'
) -> dict[str, Any]:
  """A model's change from another, by set, of resampled metrics by set and model."""
  of_sets = {name: significance.difference(of[baseline], of[model]) for name, of in columns.items()}
  return {
    'delta': {name: of.delta for name, of in of_sets.items()},
    'interval': {name: [of.low, of.high] for name, of in of_sets.items()},
    'p_value': {name: of.p_value for name, of in of_sets.items()},
  }


def _tested(columns: dict[str, np.ndarray], model: str, baseline: str) -> dict[str, Any]:
  """A model against another, by their resampled metrics."""
  found = significance.difference(columns[baseline], columns[model])
  return {'model': model, 'baseline': baseline, **found._asdict()}


def _save_scores(
  folder: str, labels: np.ndarray, logits: dict[str, np.ndarray], student: str
) -> None:
  """Writes `scores.npz` of test."""
  shown = {'student': student} | ({'teacher': 'teacher'} if 'teacher' in logits else {})
  scores = {name: _score(logits[model]) for name, model in shown.items()}
  arrays: dict[str, Any] = {'label': labels, **scores}
  np.savez(os.path.join(folder, 'scores.npz'), **arrays)


def _score(logits: np.ndarray) -> np.ndarray:
  """Probability of the one output, or the most probable class."""
  if logits.shape[1] == 1:
    return expit(logits[:, 0])
  return logits.argmax(1).astype(float)


def finite(value: Any) -> Any:
  """The value with None for each number that JSON cannot hold."""
  if isinstance(value, dict):
    return {key: finite(item) for key, item in value.items()}
  if isinstance(value, (list, tuple)):
    return [finite(item) for item in value]
  return None if isinstance(value, float) and not math.isfinite(value) else value


def commit() -> str:
  """The repository's commit, with -dirty where files differ from it; empty outside a repository."""
  root, own = os.path.split(os.path.abspath(__file__))
  described = ''
  for command in (
    [
      'ls-files',
      '--error-unmatch',
      own,
    ],  # else the repository is another's, with this installed in it
    ['describe', '--always', '--dirty', '--abbrev=10'],
  ):
    done = subprocess.run(
      ['git', '-C', root, *command], capture_output=True, text=True, check=False
    )
    if done.returncode:
      return ''
    described = done.stdout.strip()
  return described


def environment() -> dict[str, Any]:
  """The machine and the versions that a result was measured with."""
  return {
    'dipair': _version(),
    'python': platform.python_version(),
    'tensorflow': tf.__version__,
    'cpu': _cpu(),
    'cores': os.cpu_count(),
    'memory_gb': round(psutil.virtual_memory().total / 1e9, 1),
    'accelerators': ', '.join(_accelerators()) or 'none',
    'peak_memory_gb': round(run_log.peak_memory() / 1e9, 2),
  }


def _version() -> str:
  """This project's, as it is installed."""
  try:
    return metadata.version('dipair')
  except metadata.PackageNotFoundError:
    return 'not installed'


def _accelerators() -> list[str]:
  devices = [one for one in tf.config.list_physical_devices() if one.device_type != 'CPU']
  details = [tf.config.experimental.get_device_details(one) for one in devices]
  return [of.get('device_name', one.device_type) for one, of in zip(devices, details, strict=True)]


def _cpu() -> str:
  try:
    with open('/proc/cpuinfo', encoding='utf-8') as file:
      return next(line.split(':')[1].strip() for line in file if line.startswith('model name'))
  except (OSError, StopIteration):
    return platform.processor()
