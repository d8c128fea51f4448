"""A first stage's own scores beside the model's: one weight for it, kept in the export.

A document's logit becomes z + weight (s - mean), s the first stage's score. A weight belongs to one
first stage, whose name stands in its runs; scores of another are never summed.

Dimensions: n candidates, q queries.
"""

import dataclasses
import os
from typing import Self

import numpy as np

from common import files, schema
from common.errors import InputError, damaged
from common.evaluation.ranking import Candidates

_FILE = 'first_stage.json'  # of an export
_METRIC = 'mrr@10'
_WEIGHTS = (0.0, *(2.0 ** np.arange(-4, 4.5, 0.5)))  # times the two deviations' ratio


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
      value = files.read_json(path, 'fit it anew: --fit_first_stage')
    except OSError:
      return None
    with damaged(path, 'delete it, and fit it anew: --fit_first_stage'):
      return schema.parsed(cls, value)

  def write(self, export: str) -> None:
    """Keeps it in an export's folder, in the place of an earlier one."""
    files.write_json(os.path.join(export, _FILE), dataclasses.asdict(self), sealed=True)

  def summed(self, logits: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Logits [n] with the first stage's scores [n]."""
    return logits + self.weight * (scores - self.mean)

  def check(self, name: str, path: str) -> None:
    """Refuses a run of another first stage."""
    if name != self.name:
      raise InputError(
        f'--run={path}: of {name!r}; the export has a weight for {self.name!r}: fit this one '
        '(--fit_first_stage), or rank by the model alone (--nosum_first_stage)'
      )


def fitted(
  name: str, candidates: Candidates, logits: np.ndarray, scores: np.ndarray
) -> FirstStageWeight:
  """The weight with the highest mean MRR@10; of equal ones the least.

  Args:
    name: The first stage's.
    candidates: Candidates of judged queries, which nothing has learnt from.
    logits: [n]; -inf of one that is not ranked anew.
    scores: The first stage's, [n].
  """
  anew = np.isfinite(logits)
  scale = float(logits[anew].std() / max(scores[anew].std(), 1e-9))
  mean = float(scores[anew].mean())
  found = [FirstStageWeight(name, scale * times, mean) for times in _WEIGHTS]
  means = [
    candidates.evaluate(one.summed(logits, scores), (_METRIC,))[_METRIC].mean() for one in found
  ]
  return found[int(np.argmax(means))]
