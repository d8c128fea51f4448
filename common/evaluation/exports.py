"""A finished export as a scorer of a set's tuples: each distinct item is encoded once."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from common.data.tuple_set import TupleSet
from common.evaluation.evaluation import SetScorer
from common.modeling.calibration import Calibration
from common.scoring.scorer import PairScorer

_TOGETHER = 4096  # tuples whose vectors are gathered at a time


@dataclasses.dataclass(frozen=True)
class Side:
  """Vectors of a slot's distinct items, and the row among them of each tuple's.

  Attributes:
    vectors: [U, ...] float32.
    rows: [n].
  """

  vectors: np.ndarray
  rows: np.ndarray


def scorer_of(scorer: PairScorer) -> SetScorer:
  """A function of sets to the export's logits before calibration, [n, outputs]."""

  def score(records: TupleSet) -> np.ndarray:
    sides = [side(scorer, name, records, slot) for slot, name in enumerate(scorer.slots)]
    _, logits = scored(scorer, sides)
    return logits

  return score


def calibration_of(scorer: PairScorer) -> Calibration:
  """The calibration of an export."""
  return Calibration(**scorer.calibration)


def side(scorer: PairScorer, name: str, records: TupleSet, slot: int) -> Side:
  """A slot's items, each distinct one encoded once."""
  items, rows = np.unique(records.tuples().items[:, slot], return_inverse=True)
  found = list(records.items(slot).contents(items))
  return Side(scorer.encode(found, name, progress=True), rows.reshape(-1))


def scored(scorer: PairScorer, sides: Sequence[Side]) -> tuple[np.ndarray, np.ndarray]:
  """Scores [n] or [n, C] of tuples, a side a slot, and logits [n, outputs] before calibration.

  In float32, high logits have equal scores: logits tell them apart. Those of classes are made of
  the scores, and differ from the head's by a number a tuple.
  """
  count = len(sides[0].rows)
  gathered = (
    [of_slot.vectors[of_slot.rows[start : start + _TOGETHER]] for of_slot in sides]
    for start in range(0, count, _TOGETHER)
  )
  if scorer.outputs > 1:
    scores = np.concatenate([scorer.score(*vectors) for vectors in gathered])
    logs = np.log(np.clip(scores.astype(np.float64), 1e-12, 1))
    return scores, logs * calibration_of(scorer).temperature
  found = [scorer.scored(*vectors) for vectors in gathered]
  logits, scores = (np.concatenate(of) for of in zip(*found, strict=True))
  return scores, logits[:, None]
