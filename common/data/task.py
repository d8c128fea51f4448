"""The task: kind of the labels, and the metric that decides; one value from flags to report."""

import dataclasses
from collections.abc import Sequence

KINDS = ('regression', 'binary', 'multiclass')


@dataclasses.dataclass(frozen=True)
class Task:
  """Kind and range of the labels, and the metric that decides.

  Attributes:
    kind: 'regression', 'binary' or 'multiclass'.
    classes: Names of a multiclass task's classes, in the order of the outputs.
    label_range: Lowest and highest label of a regression, as its tables have them.
    metric: The metric that picks checkpoints and leads the report; empty: the kind's own.
  """

  kind: str = 'regression'
  classes: tuple[str, ...] = ()
  label_range: tuple[float, ...] = (0.0, 1.0)
  metric: str = ''

  @property
  def outputs(self) -> int:
    """Logits a tuple: one, or one a class."""
    return max(1, len(self.classes))


def of_classes(classes: Sequence[str]) -> Task:
  """The task of a ready teacher's scores: of its classes, or binary where none are named."""
  return Task('multiclass', tuple(classes)) if classes else Task('binary')
