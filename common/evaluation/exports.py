"""A finished export as a scorer of a set's tuples: each distinct item is encoded once."""

import numpy as np

from common.data.tuple_set import TupleSet
from common.evaluation.evaluation import SetScorer
from common.scoring.scorer import Gathered, PairScorer


def scorer_of(scorer: PairScorer) -> SetScorer:
  """A function of sets to the export's logits before calibration, [n, outputs]."""

  def score(records: TupleSet) -> np.ndarray:
    sides = [side(scorer, name, records, slot) for slot, name in enumerate(scorer.slots)]
    return scorer.scored(*sides)[0]

  return score


def side(scorer: PairScorer, name: str, records: TupleSet, slot: int) -> Gathered:
  """Vectors of a slot's items, each distinct one encoded once, and each tuple's row."""
  items, rows = np.unique(records.tuples().items[:, slot], return_inverse=True)
  found = list(records.items(slot).contents(items))
  return scorer.encode(found, name, progress=True), rows.reshape(-1)
