"""The best of many scores, and of candidates that are scored block by block."""

from collections.abc import Callable
from typing import Any

import numpy as np

from common.errors import InputError
from common.scoring.runtime import Vectors
from common.vectors.store import VectorStore

_READ = 8192  # candidates read at a time, for all queries


def top(scores: np.ndarray, top_k: int) -> np.ndarray:
  """Indices of the `top_k` highest scores, best first; ties stay in input order."""
  numbers = np.arange(len(scores))
  if top_k < len(scores):  # what ties with the last one stays, so that order decides
    numbers = np.flatnonzero(scores >= np.partition(scores, -top_k)[-top_k])
  return numbers[np.argsort(-scores[numbers], kind='stable')][:top_k]


def ranked(
  score: Callable[[int, Vectors, np.ndarray | None], np.ndarray],
  queries: int,
  candidates: np.ndarray | VectorStore,
  top_k: int,
  parts: np.ndarray | None,
  rows: np.ndarray | None,
) -> list[list[tuple[int, float]]]:
  """The best candidates of each query; all are read once.

  Args:
    score: Scores [b] of a query, by its number, with a block of candidates and their parts.
    queries: Number of queries.
    candidates: [n, *vector shape], or a store of them.
    top_k: Results a query at the most.
    parts: [n, *part shape], where they have been computed.
    rows: The candidates to be ranked, where it is not all.

  Returns:
    [(row of the candidates, score)] a query, best first; equal scores in the candidates' order.
  """
  best = [(np.zeros([0], np.int64), np.zeros([0], np.float32))] * queries
  for start in range(0, len(candidates if rows is None else rows), _READ):
    picked: Any = slice(start, start + _READ)
    picked = picked if rows is None else rows[picked]
    block = candidates[picked] if isinstance(candidates, np.ndarray) else candidates.stored(picked)
    numbers = np.arange(start, start + len(block)) if rows is None else picked
    own = None if parts is None else parts[picked]
    for query, (kept, kept_scores) in enumerate(best):
      found = score(query, block, own)
      if (wrong := np.isnan(found)).any():
        raise InputError(f'candidates: the score of row {numbers[wrong][0]} is NaN')
      scores, both = np.append(kept_scores, found), np.append(kept, numbers)
      order = top(scores, top_k)
      best[query] = both[order], scores[order]
  return [[(int(row), float(of_row)) for row, of_row in zip(*of, strict=True)] for of in best]
