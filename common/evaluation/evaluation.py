"""Metrics of the teacher and of the student's models on every set that judges.

A run's stage judges its models on its valid and test sets, `common.evaluate` an export on a table.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from common.data.task import Task
from common.data.tuple_set import TupleSet
from common.evaluation import metrics, ranked, reliability, significance, unseen
from common.evaluation.judged_set import JudgedSet

if TYPE_CHECKING:
  from common.data.records import RecordSet  # which imports TensorFlow

SetScorer = Callable[[Any], np.ndarray]  # a set's tuples to logits [n, outputs]
Logits = Mapping[str, Mapping[str, np.ndarray]]  # by model and set


@dataclasses.dataclass(frozen=True)
class Evaluated:
  """Metrics of every model, and how the student compares.

  Attributes:
    models: Each one's metrics by set, its change from the teacher, its ranking, and its metrics
      with intervals.
    calibration: The student's, with reliability by model and thresholds.
    unseen: Quality by unseen texts, as from `unseen.parts`.
    ranking: Ranking of the sets whose queries have several candidates.
    significance: Of two students the last against the one before it on test, neither calibrated.
    against_one: Of several teachers the student against each alone.
  """

  models: list[dict[str, Any]]
  calibration: dict[str, Any]
  unseen: list[dict[str, Any]]
  ranking: dict[str, Any] | None = None
  significance: dict[str, Any] | None = None
  against_one: list[dict[str, Any]] = dataclasses.field(default_factory=list)


def evaluate(
  sets: Mapping[str, TupleSet],
  scorers: Mapping[str, SetScorer],
  task: Task,
  folder: str,
  temperature: float = 1.0,
  alone: Sequence[str] = (),
  learnt: Mapping[str, 'RecordSet'] = MappingProxyType({}),
) -> Evaluated:
  """Metrics of each scorer on each set.

  Args:
    sets: Labelled sets by name, 'test' among them.
    scorers: Scorers by name; 'teacher' is what the others are compared with, the last is the
      student. With no teacher among them, logits that all of the sets hold are the teacher's.
    task: Kind of the labels, and the metric that decides.
    folder: Gets `scores.npz`: label, teacher and student on test; and where test has queries with
      several candidates, `test.qrels` and runs.
    temperature: Of the student's calibration; its metrics are those of its calibrated scores.
    alone: Names of scorers that are one of several teachers each; 'teacher' is their mean.
    learnt: Record sets that are learnt from, by name, for `unseen.parts`.
  """
  judges = {name: JudgedSet(records, task, ranks=True) for name, records in sets.items()}
  raw = {} if 'teacher' in scorers else _brought(sets)
  for set_name, records in sets.items():
    for name, scorer in scorers.items():
      raw.setdefault(name, {})[set_name] = scorer(records)
  student = list(scorers)[-1]
  logits = {**raw, student: {name: z / temperature for name, z in raw[student].items()}}
  models: list[dict[str, Any]] = [
    {'name': name, **{s: judges[s].evaluate(of[s], raw[name][s]) for s in sets}, 'metrics': {}}
    for name, of in logits.items()
  ]
  deciding = raw if judges['test'].rankings else logits
  columns = {}  # of the metric that decides, resampled: by set and model
  for set_name, judged in judges.items():
    by_metric = {
      name: _resampled(judged, raw if name in judged.rankings else logits, set_name, name)
      for name in dict.fromkeys([*metrics.METRICS[task.kind], judged.primary])
    }
    columns[set_name] = by_metric[judged.primary]
    found = {name: significance.compared(of) for name, of in by_metric.items()}
    for model in models:
      model['metrics'][set_name] = {
        name: {**of[model['name']], 'value': model[set_name][name]} for name, of in found.items()
      }
  if 'teacher' in logits:
    for model in models[1:]:
      model |= _changes(columns, model['name'])
  of_both = {name: (sets[name], judged) for name, judged in judges.items()}
  of_models, ranking = ranked.of_sets(of_both, raw, student, folder)
  for model in models:
    model['ranking'] = of_models[model['name']]
  tested = None
  if len(students := [name for name in scorers if name not in ('teacher', *alone)]) > 1:
    # The student before has no calibration, so both are compared as trained.
    (resampled,) = judges['test'].resampled([raw[student]['test']])
    tested = _tested({**columns['test'], student: resampled}, student, students[-2])
  compared = {
    name: deciding[name] for name in dict.fromkeys(['teacher', student]) if name in deciding
  }
  scores = {'student': logits[student]['test']}
  if 'teacher' in logits:
    scores['teacher'] = logits['teacher']['test']
  arrays: dict[str, Any] = {name: _score(of_test) for name, of_test in scores.items()}
  np.savez(os.path.join(folder, 'scores.npz'), label=judges['test'].labels, **arrays)
  return Evaluated(
    models=models,
    calibration=_reliability(task.kind, judges, raw, logits, student, temperature),
    unseen=unseen.parts(sets, learnt, compared, task),
    ranking=ranking,
    significance=tested,
    against_one=[_tested(columns['test'], student, name) for name in alone],
  )


def _reliability(
  kind: str,
  judges: Mapping[str, JudgedSet],
  raw: Logits,
  logits: Logits,
  student: str,
  temperature: float,
) -> dict[str, Any]:
  """The calibration; reliability on test of the teacher, the student, and it uncalibrated."""
  test = judges['test'].labels
  tested = {name: logits[name]['test'] for name in ('teacher', student) if name in logits}
  if temperature != 1:
    tested[f'{student}, uncalibrated'] = raw[student]['test']
  models = {name: reliability.of_logits(kind, test, of) for name, of in tested.items()}
  found: dict[str, Any] = {'temperature': temperature, 'models': models}
  if kind == 'binary':
    of_sets = {name: (judged.labels, logits[student][name]) for name, judged in judges.items()}
    found['thresholds'] = reliability.thresholds(of_sets['test'], of_sets.get('valid'))
  return found


def _resampled(judged: JudgedSet, logits: Logits, name: str, metric: str) -> dict[str, np.ndarray]:
  """A metric of each model on the set of a name, resampled."""
  found = judged.resampled([of[name] for of in logits.values()], metric)
  return dict(zip(logits, found, strict=True))


def _brought(sets: Mapping[str, TupleSet]) -> dict[str, dict[str, np.ndarray]]:
  """The teacher's logits that sets hold, as one of several models; none where a set has none."""
  held = {name: records.tuples().teacher_logits for name, records in sets.items()}
  found = {name: logits for name, logits in held.items() if logits is not None}
  if len(found) == len(held):
    return {'teacher': found}
  if found:
    without = ', '.join(name for name in held if name not in found)
    print(f"{without}: without the teacher's logits, so no set is compared with it")
  return {}


def _changes(columns: dict[str, dict[str, np.ndarray]], model: str) -> dict[str, Any]:
  """A model's change from the teacher, by set, of resampled metrics by set and model."""
  of_sets = {
    name: significance.difference(of['teacher'], of[model]) for name, of in columns.items()
  }
  return {
    'delta': {name: of.delta for name, of in of_sets.items()},
    'interval': {name: [of.low, of.high] for name, of in of_sets.items()},
    'p_value': {name: of.p_value for name, of in of_sets.items()},
  }


def _tested(columns: dict[str, np.ndarray], model: str, baseline: str) -> dict[str, Any]:
  """A model against another, by their resampled metrics."""
  found = significance.difference(columns[baseline], columns[model])
  return {'model': model, 'baseline': baseline, **found._asdict()}


def _score(logits: np.ndarray) -> np.ndarray:
  """Probability of the one output, or the most probable class."""
  if logits.shape[1] == 1:
    return expit(logits[:, 0])
  return logits.argmax(1).astype(float)
