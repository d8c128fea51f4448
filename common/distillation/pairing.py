"""A distillation set from training texts, and unlabelled ones: blocks of pairs that share texts.

For tuples of more than two texts the left item is the first text and the right item the rest.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from common import files, flags
from common.data.items import Items
from common.data.tuples import Tuples, distinct
from common.distillation import blocks
from common.distillation.mean_pooled import MeanPooledEncoder
from common.errors import InputError
from common.modeling import checkpoints

_BLOCK = 8192  # texts embedded at a time


@dataclasses.dataclass(frozen=True)
class PairingConfig:
  """Pairs made from the training texts and unlabelled ones, and the blocks that they come in."""

  distillation_pairs: int = flags.option(
    300_000,
    'pairs to make from the training texts without a --distillation_file; 0: use the training '
    'pairs',
    bounds=(0, 10**12),
  )
  block_texts: tuple[int, ...] = flags.option(
    (64, 64), 'left and right texts of a block', bounds=(1, 10**6)
  )
  block_pairs: int = flags.option(
    128,
    'pairs of a block, its training pairs first; fewer: a larger share of training pairs, and '
    'more texts',
    bounds=(1, 10**9),
  )
  block_near: float = flags.option(
    0.75, "share of a block's pairs with near texts; the rest is random", bounds=(0, 1)
  )
  pairing_pretrained: str = flags.option('minilm', 'checkpoint whose vectors tell near texts')
  unlabelled_texts: tuple[str, ...] = flags.option(
    (),
    'more texts to make pairs of, each COLUMN:FILE, as product_title:catalogue.tsv; COLUMN is one '
    'of --text_columns; other columns of the table are not read',
  )
  augmentations: int = flags.option(
    0,
    'maximum variants per training row, made by masking words and sampling n-grams (Tang et al., '
    '2019); they replace made pairs: set --distillation_pairs=0',
    bounds=(0, 10**6),
  )

  def __post_init__(self):
    if len(self.block_texts) != 2:
      raise InputError(f'--block_texts={self.block_texts}: two numbers, lefts,rights, are needed')
    if self.augmentations and self.distillation_pairs:
      raise InputError(
        f'--augmentations={self.augmentations} excludes '
        f'--distillation_pairs={self.distillation_pairs}; set it to 0'
      )
    for flag in self.unlabelled_texts:
      if not all(parse(flag)):
        raise InputError(f'--unlabelled_texts={flag}: COLUMN:FILE is needed')
      if not self.distillation_pairs:
        raise InputError(
          f'--unlabelled_texts={flag}: pairs are made of them; --distillation_pairs=0 makes none'
        )

  @property
  def makes(self) -> bool:
    """Whether tuples are made where none are brought; if not, they are the training set's own."""
    return bool(self.distillation_pairs or self.augmentations)


def parse(flag: str) -> tuple[str, str]:
  """(column, file) of one of `--unlabelled_texts`."""
  column, _, path = flag.partition(':')
  return column, path


@dataclasses.dataclass(frozen=True)
class Side:
  """Distinct lefts, or rights, to make pairs of: those of the training set in order, then more.

  Attributes:
    items: [distinct, slots of the side] item numbers.
    index: [tuples] which of them a training tuple has.
  """

  items: np.ndarray
  index: np.ndarray

  @classmethod
  def of(cls, items: np.ndarray) -> 'Side':
    """The distinct rows of the side's columns [tuples, slots]."""
    return cls(*distinct(items))

  def joined(self, numbers: np.ndarray) -> 'Side':
    """A side of one slot, and such items as it lacks."""
    new = np.setdiff1d(numbers, self.items)
    return Side(np.concatenate([self.items, new[:, None]]), self.index)


@dataclasses.dataclass(frozen=True)
class Vectors:
  """Unit vectors of a side's members, computed when read: the mean of their texts' vectors.

  Attributes:
    texts: [texts, D] vectors of all texts, memory-mapped.
    rows: [members, slots] the texts of each member.
  """

  texts: np.ndarray
  rows: np.ndarray

  def __len__(self) -> int:
    return len(self.rows)

  def __getitem__(self, members: Any) -> np.ndarray:
    mean = np.mean([self.texts[of_slot] for of_slot in self.rows[members].T], 0)
    return mean / np.linalg.norm(mean, axis=-1, keepdims=True)


def from_training(
  train: Tuples,
  items: Sequence[Items],
  config: PairingConfig,
  folder: str,
  seed: int,
  more: Mapping[int, np.ndarray] | None = None,
) -> Iterator[Tuples]:
  """Makes tuples, a group a block, of the items of labelled ones, and of more.

  Args:
    train: The training set's tuples.
    items: Each slot's items.
    config: Sizes.
    folder: A local folder with room for the vectors of all texts; no file stays there.
    seed: Seed of the groups and of what is random.
    more: Numbers of further items, by slot; of a side of one slot.

  Yields:
    Whole blocks, about `config.distillation_pairs` tuples in all. A training tuple has its label;
    if it occurs more than once, the first one's.
  """
  sides = [Side.of(train.items[:, :1]), Side.of(train.items[:, 1:])]
  for slot, numbers in (more or {}).items():
    sides[slot] = sides[slot].joined(numbers)
  left, right = sides
  encoder = MeanPooledEncoder(checkpoints.read(config.pairing_pretrained))
  left_vectors, right_vectors = _vectors(items, sides, encoder, folder)
  partners = np.stack([left.index, right.index], 1)
  shape, pairs = block_shape(len(left.items), len(right.items), config)
  near = config.block_near
  made = blocks.pair_blocks(left_vectors, right_vectors, partners, shape, pairs, near, seed)
  count = -(-config.distillation_pairs // pairs)
  known, first = np.unique(left.index * len(right.items) + right.index, return_index=True)
  for block in tqdm(itertools.islice(made, count), total=count, desc='pairs', unit=' blocks'):
    both = [left.items[block[:, 0]], right.items[block[:, 1]]]
    keys = block[:, 0] * len(right.items) + block[:, 1]
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    label = np.where(known[place] == keys, train.labels[first[place]], np.float32(np.nan))
    yield Tuples(np.concatenate(both, 1), label[:, None])


def block_shape(lefts: int, rights: int, config: PairingConfig) -> tuple[tuple[int, int], int]:
  """Counts of a block's left and right items and pairs: as configured, or fewer if so few exist."""
  lefts, rights = min(config.block_texts[0], lefts), min(config.block_texts[1], rights)
  return (lefts, rights), min(config.block_pairs, lefts * rights)


def _vectors(
  items: Sequence[Items], sides: Sequence[Side], encoder: MeanPooledEncoder, folder: str
) -> list[Vectors]:
  """Vectors of each side's distinct members; a text is encoded once, whichever slots it is in."""
  texts: dict[str, int] = {}
  rows = []  # of each slot's items among the texts' vectors
  for slot, of_slot in enumerate(items):
    used = np.unique(sides[min(slot, 1)].items[:, max(slot - 1, 0)])
    row = np.zeros(len(of_slot), np.int64)
    row[used] = [texts.setdefault(t, len(texts)) for t in of_slot.texts(used)]
    rows.append(row)
  vectors = _encoded(list(texts), encoder, folder)
  return [
    Vectors(vectors, np.stack([row[side.items[:, i]] for i, row in enumerate(slots)], 1))
    for side, slots in zip(sides, (rows[:1], rows[1:]), strict=True)
  ]


def _encoded(texts: Sequence[str], encoder: MeanPooledEncoder, folder: str) -> np.ndarray:
  """Vectors [texts, D] in a memory-mapped file that has no name and goes with its last reader."""
  path = os.path.join(folder, 'vectors.npy')
  vectors = np.lib.format.open_memmap(path, 'w+', np.float32, (len(texts), encoder.dim))
  files.reserve(path)
  os.remove(path)
  with tqdm(total=len(texts), desc='embed', unit=' texts') as bar:
    for start in range(0, len(texts), _BLOCK):
      vectors[start : start + _BLOCK] = encoder.encode(texts[start : start + _BLOCK], bar.update)
  return vectors
