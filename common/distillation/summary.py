"""Results of a run's stages, as `results.json` holds them."""

import dataclasses
from typing import Any

from common import flags
from common.data.task import Task
from common.distillation import judged_set, results
from common.distillation.dataset import LabelledSets
from common.distillation.evaluation import Evaluated
from common.distillation.export import Exported
from common.distillation.measure import Benchmarked
from common.distillation.run_folder import Stage
from common.distillation.shared import Trained
from common.distillation.soft_labels import Annotation
from common.distillation.sources.source import UnlabelledSet


@dataclasses.dataclass(frozen=True)
class Stages:
  """The stages of a run; `teacher` makes a teacher, where the run fine-tunes one."""

  data: Stage[LabelledSets]
  unlabelled: Stage[UnlabelledSet]
  teacher: Stage[Trained] | None
  distill: Stage[Annotation]
  student: Stage[Trained]
  export: Stage[Exported]
  evaluation: Stage[Evaluated]
  benchmark: Stage[Benchmarked]


def collect(title: str, student: str, config: Any, task: Task, stages: Stages) -> dict[str, Any]:
  """The results of a run, as in `results.json`.

  Args:
    title: Title of the report.
    student: Name of the student's package.
    config: The run's resolved config.
    task: Kind of the labels, and the metric that leads.
    stages: The finished stages.

  Returns:
    The input of the report and the model card.
  """
  data, unlabelled = stages.data.result, stages.unlabelled.result
  distill, evaluated = stages.distill.result, stages.evaluation.result
  benchmarked, trained = stages.benchmark.result, stages.student.result
  phases = [*(stages.teacher.result.phases if stages.teacher else []), *trained.phases]
  return {
    'title': title,
    'student': student,
    'task': task.kind,
    'primary_metric': judged_set.primary(task),
    'commit': results.commit(),
    'command': command(student, config),
    'environment': results.environment(),
    'flags': flags.kept(config),
    'data': {**data.counts, 'distillation': distill.count},
    'left_out': {'train': data.left_out, 'distillation': unlabelled.left_out},
    'mined': unlabelled.mined,
    **dataclasses.asdict(evaluated),
    'annotation': _present(dataclasses.asdict(distill)),
    'speed': _speed(benchmarked.rates),
    'stored': benchmarked.stored,
    'encoders': benchmarked.encoders,
    'training': [_by_pairs(phase) for phase in phases],
    'export': _present(dataclasses.asdict(stages.export.result)),
  }


def command(student: str, config: Any) -> str:
  """The command of a run, with the flags that differ from the defaults."""
  return flags.command_line(f'{student}.run', flags.changed(config))


def _present(fields: dict[str, Any]) -> dict[str, Any]:
  """Fields with a value."""
  return {name: value for name, value in fields.items() if value is not None}


def _by_pairs(phase: dict[str, Any]) -> dict[str, Any]:
  """A phase's history with its rate named for what a report counts."""
  renamed = {'tuples_per_second': 'pairs_per_second'}
  return {renamed.get(name, name): value for name, value in phase.items()}


def _speed(rates: list[dict[str, Any]]) -> list[dict[str, Any]]:
  """Pairs a second, and the ratio to the first row, BERT-base at 128 tokens."""
  base = rates[0]['pairs_per_second']
  return [{**row, 'ratio': row['pairs_per_second'] / base} for row in rates]
