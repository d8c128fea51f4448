"""A run's data as record sets, labelled and not, from whichever source its flags ask for."""

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterable
from typing import Any

import tf_keras

from common import flags
from common.data import examples, glue, record_writer
from common.data.examples import Labels, TableConfig
from common.data.records import BLOCKS, Manifest, RecordSet, open_items
from common.digests import contents
from common.distillation import augmentation, held_out, mining, pairing
from common.distillation.mining import MiningConfig
from common.distillation.pairing import PairingConfig
from common.distillation.sources.catalogue import Catalogue, CatalogueConfig
from common.distillation.sources.glue import Glue, GlueConfig
from common.distillation.sources.mined import Mined
from common.distillation.sources.source import (
  Source,
  UnlabelledSet,
  counted,
  digests,
  write_examples,
)
from common.distillation.sources.tables import Tables, TablesConfig
from common.errors import InputError


@dataclasses.dataclass(frozen=True)
class DataConfig:
  """The sources' flags, what a tuple is, and how pairs are made where no tuples are brought."""

  files: TablesConfig = flags.group(TablesConfig, heading='data')
  glue: GlueConfig = flags.group(GlueConfig, heading='data')
  catalogue: CatalogueConfig = flags.group(CatalogueConfig, heading='data')
  table: TableConfig = flags.group(TableConfig, heading='data, columns')
  pairing: PairingConfig = flags.group(PairingConfig, heading='data, pairs made')
  mining: MiningConfig = flags.group(MiningConfig, heading='data, mining')

  def __post_init__(self):
    if self.mining.mine_from:
      object.__setattr__(self, 'table', mining.table_of(self.table))
    self.source.check()
    if self.source.pairs and (texts := len(self.table.text_columns)) > 2:
      raise InputError(
        f'{self.source.named}: holds pairs of texts, and --text_columns names {texts}; name two, '
        'or give tables (--train_file)'
      )
    if self.table.teacher_logits_column and not self.files.distillation_file:
      raise InputError(
        '--teacher_logits_column is a column of --distillation_file, which is missing'
      )
    if self.table.vector_columns and not self.files.distillation_file:
      raise InputError(
        f'--vector_columns={",".join(self.table.vector_columns)}: pairs are made of texts alone; a '
        '--distillation_file is needed'
      )
    for flag in self.pairing.unlabelled_texts:
      self._check_unlabelled(flag)
    if self.pairing.augmentations and (self.files.distillation_file or self.mining.mine_from):
      raise InputError(
        f'--augmentations={self.pairing.augmentations} needs the training set; remove '
        '--distillation_file or --mine_from'
      )

  def _check_unlabelled(self, flag: str) -> None:
    """Refuses one of `--unlabelled_texts` that pairs are not made of."""
    columns, column = self.table.text_columns, pairing.parse(flag)[0]
    if column not in columns:
      raise InputError(f'--unlabelled_texts={flag}: not one of --text_columns={",".join(columns)}')
    if len(columns) > 2 and column != columns[0]:
      raise InputError(
        f'--unlabelled_texts={flag}: pairs are made of {columns[0]!r} and the other '
        f'{len(columns) - 1} texts together; give whole tuples as a --distillation_file'
      )
    if not isinstance(self.source, Tables) or self.files.distillation_file:
      raise InputError(
        f'--unlabelled_texts={flag}: pairs of a --train_file are made with them, and of no other '
        'source; a --distillation_file is taken as it is'
      )

  @functools.cached_property
  def source(self) -> Source:
    """The source that the flags ask for; where they ask for none, the built-in catalogue."""
    asked = [source for make in SOURCES if (source := make(self))]
    if len(asked) > 1:
      raise InputError(f'{asked[0].named} or {asked[1].named}, not both')
    blocks = self.pairing.distillation_pairs > 0
    return asked[0] if asked else Catalogue(self.catalogue, blocks)

  @property
  def brings_labels(self) -> bool:
    """Whether the distillation set may have labels: the source's own, or the training set's."""
    return self.source.brings_labels or not self.source.brings_tuples

  @property
  def makes(self) -> bool:
    """Whether it is of tuples made of the training set's, most without a label."""
    makes = self.pairing.distillation_pairs or self.pairing.augmentations
    return bool(makes) and not self.source.brings_tuples

  def labelled_inputs(self) -> dict[str, Any]:
    """Inputs of the labelled sets: flags, and each file's sha256."""
    schema = {'schema of record sets': Manifest.form}
    return {**schema, **flags.flat(self.table), **self.source.labelled_inputs()}

  def unlabelled_inputs(self) -> dict[str, Any]:
    """Inputs of the unlabelled set, beside the labelled ones."""
    texts = digests(path for _, path in map(pairing.parse, self.pairing.unlabelled_texts))
    near = contents(self.pairing.pairing_pretrained)
    return {**flags.flat(self.pairing), **texts, **near, **self.source.unlabelled_inputs()}


def _glue(data: DataConfig) -> Source | None:
  named = data.table.task in glue.NAMES or data.glue.data_dir or data.glue.tfds
  return Glue(data.glue, data.table) if named else None


def _mined(data: DataConfig) -> Source | None:
  return Mined(data.mining, data.table) if data.mining.mine_from else None


def _tables(data: DataConfig) -> Source | None:
  given = any(flags.flat(data.files).values())
  return Tables(data.files, data.table, data.mining.split_shares) if given else None


# Each makes a source of the run's flags, or None where they do not ask for it.
SOURCES: list[Callable[[DataConfig], Source | None]] = [_glue, _mined, _tables]


@dataclasses.dataclass(frozen=True)
class LabelledSets:
  """Tuples in each set; and how many the training set had that stand in a set that judges."""

  counts: dict[str, int]
  left_out: int = 0


def write_labelled(config: DataConfig, folder: str, seed: int) -> LabelledSets:
  """Writes the record sets `train`, `valid` and `test` into `folder`.

  Args:
    config: The source. A run with brought logits may have no training set.
    folder: Gets a folder a set, and their items.
    seed: Seed of whatever the source draws.

  Returns:
    Tuples in each set; an empty one is refused.
  """
  tf_keras.utils.set_random_seed(seed)  # an embedder of random weights is the same again
  counts = {name: m.count for name, m in config.source.write_labelled(folder, seed).items()}
  left_out = 0
  if counts.get('train'):
    train, judging = os.path.join(folder, 'train'), held_out.judging_sets(folder)
    left_out = held_out.leave_out(judging, train, 'train')
    counts['train'] = len(RecordSet(train))
  for name, count in counts.items():
    _refuse_empty(name, count)
  return LabelledSets(counts, left_out)


def write_unlabelled(
  config: DataConfig, data: str, folder: str, seed: int, labels: Labels = 'none'
) -> UnlabelledSet:
  """Writes the tuples that the teacher will score into `folder`: the source's own, or made ones.

  Args:
    config: The source, and how pairs are made.
    data: Folder of the labelled sets.
    folder: The record set's folder.
    seed: Seed of whatever is drawn.
    labels: What is asked of them; those that there are are kept.
  """
  tf_keras.utils.set_random_seed(seed)
  if config.source.brings_tuples:
    made = config.source.write_unlabelled(data, folder, seed, labels)
  else:
    made = UnlabelledSet(_write_made(config, RecordSet(os.path.join(data, 'train')), folder, seed))
  left_out = held_out.leave_out(held_out.judging_sets(data), folder, 'unlabelled')
  count = len(RecordSet(folder))
  _refuse_empty('unlabelled', count)
  return dataclasses.replace(made, count=count, left_out=left_out)


def _write_made(config: DataConfig, train: RecordSet, folder: str, seed: int) -> int:
  """Writes the training tuples, with others made of each, or pairs made of their texts."""
  pairing_config = config.pairing
  if pairing_config.augmentations:
    rows = augmentation.from_training(train, pairing_config.augmentations, seed)
    return write_examples(folder, {'': rows}, train.slots)[''].count
  tables, more = record_writer.extended(train, folder, _more_texts(config))
  groups = train.groups()
  if blocks := pairing_config.distillation_pairs > 0:
    items = [open_items(folder, of_slot) for of_slot in tables]
    groups = pairing.from_training(train.tuples(), items, pairing_config, folder, seed, more)
  return record_writer.write(folder, groups, tables, info={BLOCKS: blocks}).count


def _more_texts(config: DataConfig) -> dict[int, Iterable[str]]:
  """The texts of `--unlabelled_texts`, by slot."""
  more: dict[int, list[Iterable[str]]] = {}
  for column, path in map(pairing.parse, config.pairing.unlabelled_texts):
    texts = examples.column(path, column, config.table.encoding)
    slot = config.table.text_columns.index(column)
    more.setdefault(slot, []).append(counted(texts, f'{column}, unlabelled', 'texts'))
  return {slot: itertools.chain(*streams) for slot, streams in more.items()}


def _refuse_empty(name: str, count: int) -> None:
  if not count:
    raise InputError(f'{name}: no tuples; train needs more of them')
