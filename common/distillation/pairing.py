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
from common.distillation.embedders import MeanPooledEncoder
from common.errors import InputError

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
  block_pairs: int = flags.option(
    128,
    'pairs of a block of 64 left and 64 right texts, its training pairs first; fewer: a larger '
    'share of training pairs, and more texts',
    bounds=(1, 10**9),
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


def parse(flag: str) -> tuple[str, str]:
  """(column, file) of one of `--unlabelled_texts`."""
  column, _, path = flag.partition(':')
  return column, path


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
  # Distinct members of each side, [members, slots], and which of them a training tuple has.
  lefts, left = distinct(train.items[:, :1])
  rights, right = distinct(train.items[:, 1:])
  sides = [lefts, rights]
  for slot, numbers in (more or {}).items():
    new = np.setdiff1d(numbers, sides[slot])
    sides[slot] = np.concatenate([sides[slot], new[:, None]])
  lefts, rights = sides
  encoder = MeanPooledEncoder(config.pairing_pretrained)
  left_vectors, right_vectors = _vectors(items, sides, encoder, folder)
  shape = min(blocks.TEXTS, len(lefts)), min(blocks.TEXTS, len(rights))
  pairs = min(config.block_pairs, shape[0] * shape[1])
  partners, near = np.stack([left, right], 1), blocks.NEAR
  made = blocks.pair_blocks(left_vectors, right_vectors, partners, shape, pairs, near, seed)
  count = -(-config.distillation_pairs // pairs)
  known, first = np.unique(left * len(rights) + right, return_index=True)
  for block in tqdm(itertools.islice(made, count), total=count, desc='pairs', unit=' blocks'):
    found = np.concatenate([lefts[block[:, 0]], rights[block[:, 1]]], 1)
    keys = block[:, 0] * len(rights) + block[:, 1]
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    label = np.where(known[place] == keys, train.labels[first[place]], np.float32(np.nan))
    yield Tuples(found, label[:, None])


def _vectors(
  items: Sequence[Items], sides: Sequence[np.ndarray], encoder: MeanPooledEncoder, folder: str
) -> list[Vectors]:
  """Vectors of each side's distinct members; a text is encoded once, whichever slots it is in."""
  texts: dict[str, int] = {}
  rows = []  # of each slot's items among the texts' vectors
  for slot, of_slot in enumerate(items):
    used = np.unique(sides[min(slot, 1)][:, max(slot - 1, 0)])
    row = np.zeros(len(of_slot), np.int64)
    row[used] = [texts.setdefault(t, len(texts)) for t in of_slot.texts(used)]
    rows.append(row)
  vectors = _encoded(list(texts), encoder, folder)
  return [
    Vectors(vectors, np.stack([row[side[:, i]] for i, row in enumerate(slots)], 1))
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
      some = texts[start : start + _BLOCK]
      vectors[start : start + _BLOCK] = encoder.encode(some, advance=bar.update)
  return vectors
