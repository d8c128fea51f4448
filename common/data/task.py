"""The task: kind of the labels, and the metric that decides; one value from flags to report."""

import dataclasses

KINDS = ('regression', 'binary', 'multiclass')


@dataclasses.dataclass(frozen=True)
class Task:
  """Kind of the labels, and the metric that decides.

  Attributes:
    kind: 'regression', 'binary' or 'multiclass'.
    classes: Names of a multiclass task's classes, in the order of the outputs.
    metric: The metric that picks checkpoints and leads the report; empty: the kind's own.
  """

  kind: str = 'regression'
  classes: tuple[str, ...] = ()
  metric: str = ''

  @property
  def outputs(self) -> int:
    """Logits a tuple: one, or one a class."""
    return max(1, len(self.classes))
