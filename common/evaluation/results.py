"""Results of a run: what its report, model card and summary show, and `results.json` holds."""

import dataclasses
import math
from typing import Any


@dataclasses.dataclass(frozen=True)
class Results:
  """Results of a run; docs/reference/results_json.md says what each holds.

  Attributes:
    title: Title of the report.
    student: Name of the student's package.
    task: Kind of the labels.
    primary_metric: The metric that decides.
    models: Each model's metrics by set, the student as exported last.
    commit, command, flags: What made the run.
    metadata: What the hub asks of a model card, where the run knows it.
    example: A test tuple's `texts`, and the student's `score` of it.
    data: Tuples by set.
    left_out: Tuples that a set had and that stand in valid or test.
    mined: Counts of a mined task.
    calibration, unseen, ranking, significance, against_one: As the evaluation found them.
    speed: Pairs per second, BERT-base's first.
    stored, encoders: Quality by vector dtype, and by runtime of the encoders.
    training: Histories of all trainings. The name of their rate says what is counted:
      'pairs_per_second'.
    sections: Results of further stages by name, shown as they are: a dataclass or a dict of values.
  """

  title: str
  student: str
  task: str
  primary_metric: str
  models: list[dict[str, Any]]
  commit: str = ''
  command: str = ''
  flags: dict[str, Any] = dataclasses.field(default_factory=dict)
  metadata: dict[str, Any] = dataclasses.field(default_factory=dict)
  example: dict[str, Any] = dataclasses.field(default_factory=dict)
  data: dict[str, int] = dataclasses.field(default_factory=dict)
  left_out: dict[str, int] = dataclasses.field(default_factory=dict)
  mined: dict[str, Any] | None = None
  calibration: dict[str, Any] = dataclasses.field(default_factory=dict)
  unseen: list[dict[str, Any]] = dataclasses.field(default_factory=list)
  ranking: dict[str, Any] | None = None
  significance: dict[str, Any] | None = None
  against_one: list[dict[str, Any]] = dataclasses.field(default_factory=list)
  speed: list[dict[str, Any]] = dataclasses.field(default_factory=list)
  stored: list[dict[str, Any]] = dataclasses.field(default_factory=list)
  encoders: list[dict[str, Any]] = dataclasses.field(default_factory=list)
  training: list[dict[str, Any]] = dataclasses.field(default_factory=list)
  sections: dict[str, Any] = dataclasses.field(default_factory=dict)

  @property
  def taught(self) -> bool:
    """Whether the student had a teacher, and not labels alone."""
    return 'none' not in self.flags.get('teachers', ())

  def as_json(self) -> dict[str, Any]:
    """Contents of `results.json`."""
    fields = dataclasses.asdict(self)
    sections = fields.pop('sections')
    return finite({**fields, **{name: present(of) for name, of in sections.items()}})

  @classmethod
  def of_json(cls, found: dict[str, Any]) -> 'Results':
    """Reads what `as_json` gave."""
    own = {field.name for field in dataclasses.fields(cls)}
    known = {name: value for name, value in found.items() if name in own}
    sections = {n: of for n, of in found.items() if n not in own and isinstance(of, dict)}
    return cls(**known, sections=sections)


def present(section: Any) -> dict[str, Any]:
  """Values of a section by name, without those that the stage did not measure."""
  values = section if isinstance(section, dict) else dataclasses.asdict(section)
  return {name: value for name, value in values.items() if value is not None}


def finite(value: Any) -> Any:
  """The value with None for each number that JSON cannot hold."""
  if isinstance(value, dict):
    return {key: finite(item) for key, item in value.items()}
  if isinstance(value, (list, tuple)):
    return [finite(item) for item in value]
  return None if isinstance(value, float) and not math.isfinite(value) else value
