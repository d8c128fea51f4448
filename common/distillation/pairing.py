"""A distillation set from training texts: blocks of pairs that share texts.

A block has `lefts` left items and `rights` right ones, and `pairs` of their combinations, so that
many pairs cost few encodings. Half the blocks grow from a group of neighbouring lefts, half from a
group of neighbouring rights; the other side is the group's training partners (others each time), then its
nearest neighbours, in turn. Of the combinations, the training pairs come first, then each item's
nearest in turn, then random ones. For tuples of more than two texts the left item is the first text
and the right item the rest.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from common import flags
from common.data.examples import Example
from common.errors import InputError
from common.modeling import checkpoints
from common.modeling.embedding import MeanPooledEncoder
from common.serving import neighbors

_NEIGHBOURS = 16


@dataclasses.dataclass(frozen=True)
class PairingConfig:
  """How many pairs are made from the training texts, and in what blocks."""

  distillation_pairs: int = flags.option(
    300_000,
    'pairs made from the training texts where no --distillation_file is given; 0: train itself',
  )
  block_texts: tuple[int, ...] = flags.option((64, 64), 'left and right texts of a block')
  block_pairs: int = flags.option(512, 'pairs of a block')
  block_near: float = flags.option(
    0.75, "share of a block's pairs that is near; the rest is random"
  )
  pairing_pretrained: str = flags.option('minilm', 'checkpoint whose vectors say what is near')

  def __post_init__(self):
    if len(self.block_texts) != 2 or min(self.block_texts) < 1:
      raise InputError(f'--block_texts={self.block_texts}: two numbers, lefts,rights, are needed')
    if self.block_pairs < 1:
      raise InputError(f'--block_pairs={self.block_pairs}: must be above 0')
    if not 0 <= self.block_near <= 1:
      raise InputError(f'--block_near={self.block_near}: a share from 0 to 1')
    if self.distillation_pairs < 0:
      raise InputError(f'--distillation_pairs={self.distillation_pairs}: must be 0 or more')


def from_training(
  examples: Sequence[Example], config: PairingConfig, seed: int
) -> Iterator[Example]:
  """Makes unlabelled tuples, block by block, from the texts of labelled ones.

  Args:
    examples: The training set.
    config: Sizes.
    seed: Of the groups and of what is random.

  Yields:
    About `config.distillation_pairs` examples, in whole blocks.
  """
  left_ids: dict[tuple[str, ...], int] = {}
  right_ids: dict[tuple[str, ...], int] = {}
  partners = np.array(
    [
      (
        left_ids.setdefault(e.texts[:1], len(left_ids)),
        right_ids.setdefault(e.texts[1:], len(right_ids)),
      )
      for e in examples
    ]
  )
  lefts, rights = list(left_ids), list(right_ids)
  encoder = MeanPooledEncoder(checkpoints.read(config.pairing_pretrained))
  left, right = (_item_vectors(items, encoder) for items in (lefts, rights))
  shape, pairs = block_shape(examples, config)
  blocks = pair_blocks(left, right, partners, shape, pairs, config.block_near, seed)
  for number in range(-(-config.distillation_pairs // pairs)):
    for row, (i, j) in enumerate(next(blocks)):
      yield Example(f'block-{number}-{row}', lefts[i] + rights[j])


def block_shape(examples: Sequence[Example], config: PairingConfig) -> tuple[tuple[int, int], int]:
  """Left and right items of a block, and its pairs: as configured, or all where there are fewer."""
  lefts = min(config.block_texts[0], len({example.texts[:1] for example in examples}))
  rights = min(config.block_texts[1], len({example.texts[1:] for example in examples}))
  return (lefts, rights), min(config.block_pairs, lefts * rights)


def pair_blocks(
  left: np.ndarray,
  right: np.ndarray,
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
    pairs: Of a block, at most shape[0] * shape[1].
    near: Share of the pairs that is known or near; the rest is random.
    seed: Of all that is random.

  Yields:
    [pairs, 2] ints, sorted; no pair twice.
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
      rest = rng.permutation(len(vectors[other]))
      chosen = [*chosen, *rest[~np.isin(rest, chosen)][: shape[other] - len(chosen)]]
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
    rng: Of the random ones.

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


def _endless_groups(vectors: np.ndarray, size: int, rng: np.random.Generator) -> Iterator:
  """Groups of `size` neighbours that cover all, in random order, then other groups again."""
  while True:
    order = neighbour_order(vectors, size, rng)
    starts = rng.permutation(range(0, len(order) - size + 1, size))
    yield from (order[start : start + size] for start in starts)


def neighbour_order(vectors: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
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
    items = items[np.argsort(vectors[items] @ direction, kind='stable')]
    middle = max(size, len(items) // 2 // size * size)
    stack += [items[middle:], items[:middle]]
  return np.concatenate(order)


def _neighbours(queries: np.ndarray, items: np.ndarray) -> np.ndarray:
  """[queries, k] numbers of each query's nearest items, by inner product, nearest first."""
  return neighbors.index_of(items).search(queries, min(_NEIGHBOURS, len(items)))[1]


def partners_of(partners: np.ndarray, side: int, count: int) -> list[np.ndarray]:
  """What each of `count` items of a side stands with in the pairs [n, 2]."""
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


def _item_vectors(items: Sequence[tuple[str, ...]], encoder: MeanPooledEncoder) -> np.ndarray:
  """An item's vector: the mean of its texts' vectors, of length one."""
  texts = list({text: None for item in items for text in item})
  row = {text: number for number, text in enumerate(texts)}
  vectors = encoder.encode(texts, progress='embed')
  means = np.stack([vectors[[row[text] for text in item]].mean(0) for item in items])
  return means / np.linalg.norm(means, axis=1, keepdims=True)
