"""The built-in synthetic catalogue, which is the data where no flag names any."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from common import flags
from common.data import catalog
from common.data.examples import Example, Labels
from common.data.records import BLOCKS, Manifest
from common.distillation.sources.source import Source, UnlabelledSet, write_examples
from common.errors import InputError

_BLOCK_PAIRS = catalog.BLOCK[0] * catalog.BLOCK[1] // catalog.KEPT


@dataclasses.dataclass(frozen=True)
class CatalogueConfig:
  """Sizes of the catalogue's sets."""

  catalog_sizes: tuple[int, ...] = flags.option(
    (8000, 1000, 2000, 40_000),
    'pairs of the synthetic catalogue: train, valid, test, unlabelled',
    bounds=(1, 10**9),
  )

  def __post_init__(self):
    if len(self.catalog_sizes) != 4:
      raise InputError(f'--catalog_sizes={self.catalog_sizes}: four numbers are needed')


@dataclasses.dataclass(frozen=True)
class Catalogue(Source):
  """Terms and products, rated; where no other source is asked for.

  Args:
    config: Sizes.
    blocks: Whether the unlabelled tuples are the catalogue's own blocks; else it has none.
  """

  config: CatalogueConfig
  blocks: bool
  named = '--catalog_sizes'
  pairs = True
  language = 'en'

  @property
  def brings_tuples(self) -> bool:
    return self.blocks

  def labelled_inputs(self) -> dict[str, Any]:
    return {'catalog_sizes': self.config.catalog_sizes[:3]}

  def unlabelled_inputs(self) -> dict[str, Any]:
    return {'catalog_sizes': self.config.catalog_sizes}

  def write_labelled(self, folder: str, seed: int) -> dict[str, Manifest]:
    train, valid, test, _ = self.config.catalog_sizes
    sets = catalog.splits(seed, train, valid, test, 0)
    rated = {name: _examples(sets[name]) for name in ('train', 'valid', 'test')}
    return write_examples(folder, rated, 2)

  def write_unlabelled(self, data: str, folder: str, seed: int, labels: Labels) -> UnlabelledSet:
    pairs = catalog.splits(seed, *self.config.catalog_sizes)['distillation']
    sets = {'': _examples(pairs)}
    written = write_examples(folder, sets, 2, group=_BLOCK_PAIRS, info={BLOCKS: True})
    return UnlabelledSet(written[''].count)


def _examples(pairs: Iterable[catalog.Pair]) -> Iterator[Example]:
  return (Example('', (pair.term, pair.product), pair.relevance) for pair in pairs)
