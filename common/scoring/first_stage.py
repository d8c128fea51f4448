"""A first stage's own scores beside the model's: one weight for them, kept in the export.

A candidate's logit becomes z + weight (s - mean), s the first stage's score. A weight belongs to
one first stage, by its name; scores of another are never summed.
"""

import dataclasses
import os
from typing import Any, Self

import numpy as np

from common import files, schema
from common.errors import InputError, damaged

_FILE = 'first_stage.json'  # of an export
_REMEDY = 'delete it, and fit it anew: python -m common.rerank --fit_first_stage'


@dataclasses.dataclass(frozen=True)
class FirstStageWeight:
  """How a first stage's scores are summed with logits.

  Attributes:
    name: The first stage's, the last cell of its runs' lines.
    weight: Of its scores.
    mean: Of its scores where the weight was fitted, so that logits keep their level.
  """

  name: str
  weight: float
  mean: float

  @classmethod
  def of(cls, export: str) -> Self | None:
    """Reads an export's weight; None where none was fitted."""
    path = os.path.join(export, _FILE)
    try:
      value = files.read_json(path, _REMEDY)
    except OSError:
      return None
    with damaged(path, _REMEDY):
      return schema.check(value, cls)

  def write(self, export: str) -> None:
    """Keeps it in an export's folder, in the place of an earlier one."""
    files.write_json(os.path.join(export, _FILE), dataclasses.asdict(self), sealed=True)

  def terms(self, scores: np.ndarray) -> np.ndarray:
    """Terms that the first stage's scores add to logits, of the same shape."""
    return self.weight * (scores - self.mean)


def finite_scores(scores: Any, shape: tuple[int, ...]) -> np.ndarray:
  """A first stage's scores as a caller gives them, in float64.

  Raises:
    InputError: If they have another shape, or one is no finite number.
  """
  try:
    found = np.asarray(scores, np.float64)
  except (TypeError, ValueError) as error:
    raise InputError(f'first_stage_scores: {error}') from error
  if found.shape != shape:
    raise InputError(f'first_stage_scores: of shape {found.shape}; {shape} is needed')
  if (wrong := np.argwhere(~np.isfinite(found))).size:
    place = tuple(wrong[0].tolist())
    raise InputError(f'first_stage_scores{[*place]} is {found[place]}; each needs a finite number')
  return found
