"""Results of a run's stages, as `results.json` holds them."""

import dataclasses
from typing import Any

from common import flags
from common.distillation import results
from common.distillation.dataset import LabelledSets
from common.distillation.sources.source import UnlabelledSet
from common.distillation.stages.distill import Annotation
from common.distillation.stages.evaluation import Benchmarked, Evaluated
from common.distillation.stages.export import Exported
from common.distillation.stages.run import Trained


@dataclasses.dataclass(frozen=True)
class Done:
  """The stages' results; `teacher` is of a teacher fine-tuned here."""

  data: LabelledSets
  unlabelled: UnlabelledSet
  teacher: Trained | None
  distill: Annotation
  student: Trained
  export: Exported
  evaluation: Evaluated
  benchmark: Benchmarked


def collect(
  title: str, student: str, config: Any, task: str, done: Done, primary: str
) -> dict[str, Any]:
  """The results of a run, as in `results.json`.

  Args:
    title: Title of the report.
    student: Name of the student's package.
    config: The run's resolved config.
    task: What a label is.
    done: The stages' results.
    primary: The metric that leads.

  Returns:
    What the report and the model card are made from.
  """
  phases = [*(done.teacher.phases if done.teacher else []), *done.student.phases]
  sizes = dataclasses.asdict(done.export)
  return {
    'title': title,
    'student': student,
    'task': task,
    'primary_metric': primary,
    'commit': results.commit(),
    'command': command(student, config),
    'environment': results.environment(),
    'flags': flags.kept(config),
    'data': {**done.data.counts, 'distillation': done.distill.count},
    'left_out': {'train': done.data.left_out, 'distillation': done.unlabelled.left_out},
    'mined': done.unlabelled.mined,
    'models': done.evaluation.models,
    'significance': done.evaluation.significance,
    'against_one': done.evaluation.against_one or [],
    'ranking': done.evaluation.ranking,
    'unseen': done.evaluation.unseen,
    'calibration': done.evaluation.calibration or {},
    'annotation': _present(dataclasses.asdict(done.distill)),
    'speed': _speed(done),
    'stored': done.benchmark.stored,
    'encoders': done.benchmark.encoders,
    'training': [_by_pairs(phase) for phase in phases],
    'export': _present(sizes),
  }


def command(student: str, config: Any) -> str:
  """The command of a run, with the flags that differ from the defaults."""
  return flags.command_line(f'{student}.run', flags.changed(config))


def _present(fields: dict[str, Any]) -> dict[str, Any]:
  """Those that are known."""
  return {name: value for name, value in fields.items() if value is not None}


def _by_pairs(phase: dict[str, Any]) -> dict[str, Any]:
  """A phase's history with its rate named for what a report counts."""
  renamed = {'tuples_per_second': 'pairs_per_second'}
  return {renamed.get(name, name): value for name, value in phase.items()}


def _speed(done: Done) -> list[dict[str, Any]]:
  """Pairs a second, and the ratio to the first row, BERT-base at 128 tokens."""
  rows = done.benchmark.rates
  base = rows[0]['pairs_per_second']
  return [{**row, 'ratio': row['pairs_per_second'] / base} for row in rows]
