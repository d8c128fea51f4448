"""Blocks of pairs that share items: of neighbours, and of what they are known to match.

A block has so many left items and right ones, and `pairs` of their combinations, so that many pairs
cost few encodings. Half the blocks grow from a group of neighbouring lefts, half from a group of
neighbouring rights; the other side is the group's partners (others each time), then its nearest
neighbours, in turn. Of the combinations, the known pairs come first, then each item's nearest in
turn, then random ones.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from common.vectors.neighbors import Index, Vectors

TEXTS = 64  # of a block's side, where there are so many
NEAR = 0.75  # share of a block's pairs that is known or near; the rest is random
_NEIGHBOURS = 16
_BLOCK = 8192  # vectors read at a time


def pair_blocks(
  left: Vectors,
  right: Vectors,
  partners: np.ndarray,
  shape: tuple[int, int],
  pairs: int,
  near: float,
  seed: int,
) -> Iterator[np.ndarray]:
  """Yields blocks of (left, right) numbers without end.

  Args:
    left: [lefts, dim] vectors of length one.
    right: [rights, dim] vectors of length one.
    partners: [known pairs, 2].
    shape: Lefts and rights of a block, at most all.
    pairs: Pairs of a block, at most shape[0] * shape[1].
    near: Share of the pairs that is known or near; the rest is random.
    seed: Seed of the order and of the random pairs.

  Yields:
    [pairs, 2] ints, sorted; no pair twice, though another block may have it too.
  """
  rng = np.random.default_rng(seed)
  vectors = (left, right)
  neighbours = [_neighbours(left, right), _neighbours(right, left)]
  known = [partners_of(partners, 0, len(left)), partners_of(partners, 1, len(right))]
  groups = [_endless_groups(vectors[side], shape[side], rng) for side in (0, 1)]
  while True:
    for side in (0, 1):
      group, other = next(groups[side]), 1 - side
      candidates = [
        np.concatenate([rng.permutation(known[side][i]), neighbours[side][i]]) for i in group
      ]
      chosen = in_turn(candidates, shape[other])
      if missing := shape[other] - len(chosen):
        rest = rng.choice(len(vectors[other]), shape[other], replace=False)
        chosen = [*chosen, *rest[~np.isin(rest, chosen)][:missing]]
      lefts, rights = (group, np.array(chosen)) if side == 0 else (np.array(chosen), group)
      matches = [known[0][item] for item in lefts]
      i, j = combinations(left[lefts] @ right[rights].T, rights, matches, pairs, near, rng)
      yield np.stack([lefts[i], rights[j]], axis=1)


def combinations(
  similarity: np.ndarray,
  rights: np.ndarray,
  matches: Sequence[np.ndarray],
  pairs: int,
  near: float,
  rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
  """A block's pairs: those known, the best of each row and column in turn, then random ones.

  Args:
    similarity: [lefts, rights] inner products.
    rights: Their numbers.
    matches: Numbers that each left is known to match.
    pairs: Kept, at the most.
    near: Share of them that is known or near.
    rng: Generator of the random ones.

  Returns:
    Rows [pairs] and columns [pairs], in order.
  """
  known = np.array([np.isin(rights, of_left) for of_left in matches])  # [lefts, rights]
  similarity = np.where(known, np.inf, similarity)
  ranks = [np.argsort(np.argsort(-similarity, axis), axis) for axis in (0, 1)]
  rank = np.where(known, -1, np.minimum(*ranks))
  order = np.lexsort([-similarity.ravel(), rank.ravel()])
  best = round(near * pairs)
  kept = np.concatenate([order[:best], rng.permutation(order[best:])[: pairs - best]])
  return np.divmod(np.sort(kept), similarity.shape[1])


def _endless_groups(vectors: Vectors, size: int, rng: np.random.Generator) -> Iterator:
  """Groups of `size` neighbours that cover all, in random order, then other groups again."""
  while True:
    order = neighbour_order(vectors, size, rng)
    starts = rng.permutation(range(0, len(order) - size + 1, size))
    yield from (order[start : start + size] for start in starts)


def neighbour_order(vectors: Vectors, size: int, rng: np.random.Generator) -> np.ndarray:
  """An order of items that puts near ones together.

  Halves the items along the line between two random ones, again and again, down to `size`.
  """
  order, stack = [], [rng.permutation(len(vectors))]
  while stack:
    items = stack.pop()
    if len(items) <= size:
      order.append(items)
      continue
    direction = vectors[items[0]] - vectors[items[1]]
    parts = np.split(items, range(_BLOCK, len(items), _BLOCK))
    along = np.concatenate([vectors[part] @ direction for part in parts])
    items = items[np.argsort(along, kind='stable')]
    middle = max(size, len(items) // 2 // size * size)
    stack += [items[middle:], items[:middle]]
  return np.concatenate(order)


def _neighbours(queries: Vectors, items: Vectors) -> np.ndarray:
  """[queries, k] numbers of each query's nearest items, by inner product, nearest first."""
  index, count = Index.of(items), min(_NEIGHBOURS, len(items))
  starts = range(0, len(queries), _BLOCK)
  return np.concatenate([index.search(queries[i : i + _BLOCK], count)[1] for i in starts])


def partners_of(partners: np.ndarray, side: int, count: int) -> list[np.ndarray]:
  """Partners of each of `count` items of a side in the pairs [n, 2]."""
  order = np.argsort(partners[:, side], kind='stable')
  ends = np.searchsorted(partners[order, side], np.arange(count), side='right')
  return np.split(partners[order, 1 - side], ends[:-1])


def in_turn(candidates: Sequence[np.ndarray], count: int) -> list[int]:
  """The first `count` distinct candidates, one from each list in turn."""
  chosen: dict[int, None] = {}
  for rank in range(max(map(len, candidates))):
    for options in candidates:
      if len(chosen) == count:
        return list(chosen)
      if rank < len(options) and options[rank] >= 0:
        chosen[int(options[rank])] = None
  return list(chosen)
