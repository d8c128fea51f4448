"""A distillation set from training texts: blocks of neighbouring lefts and rights, all paired.

A block pairs each of `lefts` left items with each of `rights` right ones, so lefts x rights pairs
cost lefts + rights encodings. Half the blocks grow from a group of neighbouring lefts, half from a
group of neighbouring rights; the other side is filled with the training partners of the group,
with nearest neighbours in turn, and with random items. For tuples of more than two texts the left
item is the first text and the right item the rest.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import faiss
import numpy as np

from common import flags
from common.data.examples import Example
from common.errors import InputError
from common.modeling import checkpoints
from common.modeling.embedding import MeanPooledEncoder

_NEIGHBOURS = 16


@dataclasses.dataclass(frozen=True)
class PairingConfig:
  """How many pairs are made from the training texts, and in what blocks."""

  distillation_pairs: int = flags.option(
    300_000, 'pairs made from the training texts where no --distillation_file is given'
  )
  block_texts: tuple[int, ...] = flags.option((16, 32), 'left and right texts of a block')
  block_near: float = flags.option(0.75, 'share of a block that is near; the rest is random')
  pairing_pretrained: str = flags.option('minilm', 'checkpoint whose vectors say what is near')

  def __post_init__(self):
    if len(self.block_texts) != 2 or min(self.block_texts) < 1:
      raise InputError(f'--block_texts={self.block_texts}: two numbers, lefts,rights, are needed')
    if not 0 <= self.block_near <= 1:
      raise InputError(f'--block_near={self.block_near}: a share from 0 to 1')
    if self.distillation_pairs < 1:
      raise InputError(f'--distillation_pairs={self.distillation_pairs}: must be above 0')


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
  vectors = [_item_vectors(items, encoder) for items in (lefts, rights)]
  blocks = pair_blocks(
    vectors[0], vectors[1], partners, shape=config.block_texts, near=config.block_near, seed=seed
  )
  size = int(np.prod(block_shape(examples, config)))
  for number in range(-(-config.distillation_pairs // size)):
    for row, (left, right) in enumerate(next(blocks)):
      yield Example(f'block-{number}-{row}', lefts[left] + rights[right])


def block_shape(examples: Sequence[Example], config: PairingConfig) -> tuple[int, int]:
  """Left and right items of a block: `config.block_texts`, or all where there are fewer."""
  lefts = len({example.texts[:1] for example in examples})
  rights = len({example.texts[1:] for example in examples})
  return min(config.block_texts[0], lefts), min(config.block_texts[1], rights)


def pair_blocks(
  left: np.ndarray,
  right: np.ndarray,
  partners: np.ndarray,
  *,
  shape: Sequence[int],
  near: float,
  seed: int,
) -> Iterator[np.ndarray]:
  """Yields blocks of (left, right) numbers without end.

  Args:
    left: [lefts, dim] vectors of length one.
    right: [rights, dim] vectors of length one.
    partners: [pairs, 2], the known pairs.
    shape: Lefts and rights of a block (all, where there are fewer).
    near: Share of a block's other side that is near its group.
    seed: Of all that is random.

  Yields:
    [shape[0] * shape[1], 2] int arrays, left by left.
  """
  rng = np.random.default_rng(seed)
  vectors = (left, right)
  counts = [min(size, len(side)) for size, side in zip(shape, vectors, strict=True)]
  neighbours = [_neighbours(left, right), _neighbours(right, left)]
  known = [_partners(partners, 0, len(left)), _partners(partners, 1, len(right))]
  groups = [_endless_groups(vectors[side], counts[side], rng) for side in (0, 1)]
  while True:
    for side in (0, 1):
      group, other = next(groups[side]), 1 - side
      candidates = [np.concatenate([known[side][i], neighbours[side][i]]) for i in group]
      chosen = _in_turn(candidates, round(near * counts[other]))
      rest = rng.permutation(len(vectors[other]))
      chosen = [*chosen, *rest[~np.isin(rest, chosen)][: counts[other] - len(chosen)]]
      sides = (group, chosen) if side == 0 else (chosen, group)
      yield np.stack(np.meshgrid(*sides, indexing='ij'), -1).reshape(-1, 2)


def _endless_groups(vectors: np.ndarray, size: int, rng: np.random.Generator) -> Iterator:
  """Groups of `size` neighbours that cover all, in random order, then other groups again."""
  while True:
    order = _neighbour_order(vectors, size, rng)
    starts = rng.permutation(range(0, len(order) - size + 1, size))
    yield from (order[start : start + size] for start in starts)


def _neighbour_order(vectors: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
  """Halves the items along the line between two random ones, again and again, down to `size`."""
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
  index = faiss.IndexFlatIP(items.shape[1])
  if len(items) > 200_000:  # exact search would take hours
    cells = int(4 * len(items) ** 0.5)
    index = faiss.IndexIVFFlat(index, items.shape[1], cells, faiss.METRIC_INNER_PRODUCT)
    index.train(items[np.linspace(0, len(items) - 1, 40 * cells, dtype=int)])
    index.nprobe = 16
  index.add(items)
  return index.search(queries, min(_NEIGHBOURS, len(items)))[1]


def _partners(partners: np.ndarray, side: int, count: int) -> list[np.ndarray]:
  order = np.argsort(partners[:, side], kind='stable')
  ends = np.searchsorted(partners[order, side], np.arange(count), side='right')
  return np.split(partners[order, 1 - side], ends[:-1])


def _in_turn(candidates: Sequence[np.ndarray], count: int) -> list[int]:
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
