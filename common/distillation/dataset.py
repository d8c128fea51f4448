"""A run's data: tables, or the built-in catalogue, as the record sets train, valid, test, unlabelled."""

import dataclasses
import os
from collections.abc import Iterable

import tensorflow as tf
from tqdm import tqdm

from common import flags
from common.data import catalog, examples, records
from common.data.examples import Example, TableConfig
from common.distillation import pairing
from common.distillation.pairing import PairingConfig
from common.errors import InputError

LABELLED = ('train', 'valid', 'test')
UNLABELLED = 'unlabelled'


@dataclasses.dataclass(frozen=True)
class DataConfig:
  """Files of a run. Without any, the built-in synthetic catalogue is the data."""

  train_file: str = flags.option('', 'labelled training tuples (.tsv, .csv, .jsonl, .gz)')
  valid_file: str = flags.option('', 'labelled validation tuples')
  test_file: str = flags.option('', 'labelled test tuples')
  distillation_file: str = flags.option(
    '', 'unlabelled tuples for the teacher; empty: pairs made from the training texts'
  )
  catalog_sizes: tuple[int, ...] = flags.option(
    (8000, 1000, 1000, 40_000), "the synthetic catalogue's train, valid, test, unlabelled pairs"
  )
  table: TableConfig = flags.group(TableConfig)
  pairing: PairingConfig = flags.group(PairingConfig)

  def __post_init__(self):
    if len(self.catalog_sizes) != 4 or min(self.catalog_sizes) < 1:
      raise InputError(f'--catalog_sizes={self.catalog_sizes}: four numbers above 0 are needed')
    if self.from_catalog:
      return
    for name in ('valid_file', 'test_file'):
      if not getattr(self, name):
        raise InputError(f'--{name} is needed where any file is given')
    if not self.train_file and not self.distillation_file:
      raise InputError('--train_file or --distillation_file is needed where any file is given')
    if self.table.teacher_logits_column and not self.distillation_file:
      raise InputError(
        '--teacher_logits_column is a column of --distillation_file, which is missing'
      )

  @property
  def from_catalog(self) -> bool:
    """Whether the built-in catalogue is the data."""
    return not (self.train_file or self.valid_file or self.test_file or self.distillation_file)

  def sources(self) -> dict[str, list[float | int]]:
    """Size and time of change of each file: a run whose files changed is another run."""
    paths = [self.train_file, self.valid_file, self.test_file, self.distillation_file]
    found = {}
    for path in filter(None, paths):
      try:
        stat = tf.io.gfile.stat(path)
      except tf.errors.OpError as error:
        raise InputError(f'{path}: no such file') from error
      found[path] = [stat.length, stat.mtime_nsec]
    return found


def prepare(config: DataConfig, folder: str, seed: int) -> dict[str, int]:
  """Writes the run's record sets into `folder`, those that are missing.

  Args:
    config: Files and columns.
    folder: Of the sets `train`, `valid`, `test` (labelled) and `unlabelled`.
    seed: Of the catalogue and of the pairs made.

  Returns:
    Tuples in each set.
  """
  counts = {}
  for name in (*LABELLED, UNLABELLED):
    path = os.path.join(folder, name)
    if not tf.io.gfile.exists(os.path.join(path, records.MANIFEST)):
      source, block, info = _source(config, name, folder, seed)
      if source is None:
        continue
      bar = tqdm(source, desc=f'data/{name}', unit=' tuples')
      records.write(path, bar, block=block, info=info)
    counts[name] = records.read_manifest(path).count
  return counts


def _source(
  config: DataConfig, name: str, folder: str, seed: int
) -> tuple[Iterable[Example] | None, int, dict]:
  """A set's examples, the size of its blocks, and what its manifest says of it."""
  if config.from_catalog:
    sizes = dict(zip(('train', 'valid', 'test', 'distillation'), config.catalog_sizes, strict=True))
    pairs = catalog.splits(seed, **sizes)['distillation' if name == UNLABELLED else name]
    rows = (Example(pair.id, (pair.term, pair.product), pair.relevance) for pair in pairs)
    if name == UNLABELLED:
      return rows, catalog.BLOCK[0] * catalog.BLOCK[1], {'block_texts': list(catalog.BLOCK)}
    return rows, 1, {}
  path = config.distillation_file if name == UNLABELLED else getattr(config, f'{name}_file')
  if path:
    return examples.read(path, config.table, labelled=name in LABELLED), 1, {'source': path}
  if name == 'train':
    return None, 1, {}
  train = list(records.read(os.path.join(folder, 'train')))
  made = pairing.from_training(train, config.pairing, seed)
  lefts, rights = pairing.block_shape(train, config.pairing)
  return made, lefts * rights, {'block_texts': [lefts, rights]}
