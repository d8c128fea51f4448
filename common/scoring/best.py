"""The best of many scores, and of candidates that are scored block by block."""

from collections.abc import Callable
from typing import Any

import numpy as np

from common.errors import InputError
from common.scoring.runtime import Vectors
from common.vectors.store import VectorStore
from common.vectors.values import Stored, finite

_READ = 8192  # candidates read at a time, for all queries
_Block = tuple[np.ndarray, np.ndarray, np.ndarray]  # rows, logits, scores [b]


def top(scores: np.ndarray, top_k: int) -> np.ndarray:
  """Indices of the `top_k` highest scores, best first; ties stay in input order."""
  numbers = np.arange(len(scores))
  if top_k < len(scores):  # what ties with the last one stays, so that order decides
    numbers = np.flatnonzero(scores >= np.partition(scores, -top_k)[-top_k])
  return numbers[np.argsort(-scores[numbers], kind='stable')][:top_k]


def ranked(
  score: Callable[[int, Vectors, np.ndarray | None, slice], tuple[np.ndarray, np.ndarray]],
  queries: int,
  candidates: Vectors | VectorStore,
  top_k: int,
  parts: np.ndarray | None,
  rows: np.ndarray | None,
  read: bool = True,
) -> list[list[tuple[int, float]]]:
  """The best candidates of each query; all are read once.

  It holds a block, and 3 `top_k` results a query at the most.

  Args:
    score: Logits and scores [b] of a query, by its number, with a block of candidates, their parts,
      and the block's place among those that are ranked.
    queries: Number of queries.
    candidates: [n, *vector shape], or a store of them.
    top_k: Results a query at the most.
    parts: [n, *part shape], where they have been computed.
    rows: The candidates to be ranked, where it is not all.
    read: Whether `score` takes vectors beside parts; if not, it is given parts in their place too.

  Returns:
    [(row of the candidates, score)] a query, best first; equal logits in the candidates' order.
  """
  none = np.zeros([0], np.float32)
  held: list[list[_Block]] = [[(np.zeros([0], np.int64), none, none)] for _ in range(queries)]
  for start in range(0, len(candidates if rows is None else rows), _READ):
    places = slice(start, start + _READ)
    picked: Any = places if rows is None else rows[places]
    numbers = np.arange(start, min(start + _READ, len(candidates))) if rows is None else picked
    own = None if parts is None else parts[picked]
    if own is not None and not read:
      block: Vectors = own
    elif isinstance(candidates, VectorStore):
      block = candidates.stored(picked)
    elif isinstance(candidates, Stored):
      block = candidates.at(picked)
    else:
      block = finite(candidates[picked], 'candidates', numbers)
    for query, blocks in enumerate(held):
      logits, scores = score(query, block, own, places)
      if (wrong := np.isnan(logits)).any():
        raise InputError(f'candidates: the score of row {numbers[wrong][0]} is NaN')
      blocks.append(_cut([(numbers, logits, scores)], top_k))
      if sum(len(rows_of) for rows_of, *_ in blocks) > 2 * top_k:
        blocks[:] = [_cut(blocks, top_k)]  # a sort of all that is held: not at each block
  return [
    list(zip(numbers.tolist(), scores.tolist(), strict=True))
    for numbers, _, scores in (_cut(blocks, top_k) for blocks in held)
  ]


def _cut(blocks: list[_Block], top_k: int) -> _Block:
  """The best of some blocks, as one."""
  numbers, logits, scores = (np.concatenate(of) for of in zip(*blocks, strict=True))
  order = top(logits, top_k)
  return numbers[order], logits[order], scores[order]
