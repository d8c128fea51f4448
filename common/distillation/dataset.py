"""A run's data: tables, or the built-in catalogue, as record sets, labelled and not."""

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf
from tqdm import tqdm

from common import flags
from common.data import catalog, examples, glue, glue_tfds, records
from common.data.examples import Example, TableConfig
from common.data.matching import SPLITS
from common.distillation import mining, pairing, transfer
from common.distillation.mining import MiningConfig
from common.distillation.pairing import PairingConfig
from common.errors import InputError
from common.serving import export

_FILE_BLOCK = 64  # rows of a file that stay together, so that a sorted one costs fewer encodings


@dataclasses.dataclass(frozen=True)
class DataConfig:
  """Files of a run, or a folder of GLUE's; without any, the built-in synthetic catalogue."""

  train_file: str = flags.option('', 'labelled training tuples (.tsv, .csv, .jsonl, .gz)')
  valid_file: str = flags.option('', 'labelled validation tuples')
  test_file: str = flags.option('', 'labelled test tuples')
  distillation_file: str = flags.option(
    '',
    'tuples for the teacher, labelled or not, or the folder that common.pipelines.annotate has '
    'written; empty: pairs made from the training texts',
  )
  data_dir: str = flags.option('', "folder of GLUE's own folders, for --task=mrpc and the like")
  tfds: str = flags.option(
    '', "the task's name in TensorFlow Datasets (glue/mrpc, snli), in place of GLUE's folders"
  )
  catalog_sizes: tuple[int, ...] = flags.option(
    (8000, 1000, 2000, 40_000), "the synthetic catalogue's train, valid, test, unlabelled pairs"
  )
  table: TableConfig = flags.group(TableConfig, heading='data, columns')
  pairing: PairingConfig = flags.group(PairingConfig, heading='data, pairs made')
  mining: MiningConfig = flags.group(MiningConfig, heading='data, mining')

  def __post_init__(self):
    if len(self.catalog_sizes) != 4 or min(self.catalog_sizes) < 1:
      raise InputError(f'--catalog_sizes={self.catalog_sizes}: four numbers above 0 are needed')
    if self.from_glue or self.data_dir or self.tfds:
      self._check_glue()
      return
    if self.mining.mine_from:
      self._check_mining()
      return
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
    return not (self.data_dir or self.tfds or self.mining.mine_from or any(self._given_files))

  @property
  def from_glue(self) -> bool:
    """Whether a GLUE task is the data."""
    return self.table.task in glue.NAMES

  @property
  def annotated(self) -> bool:
    """Whether the distillation file is a record set with the teacher's logits."""
    path = os.path.join(self.distillation_file, records.MANIFEST)
    return bool(self.distillation_file) and tf.io.gfile.exists(path)

  @property
  def _given_files(self) -> list[str]:
    return [self.train_file, self.valid_file, self.test_file, self.distillation_file]

  def _check_mining(self) -> None:
    if any(self._given_files):
      raise InputError('--mine_from or files of your own, not both')
    if (self.table.task, self.table.text_columns) != ('binary', mining.COLUMNS):
      columns = ','.join(mining.COLUMNS)
      raise InputError(f'--mine_from takes --task=binary and --text_columns={columns}')

  def _check_glue(self) -> None:
    if not self.data_dir and not self.tfds:
      raise InputError(f'--task={self.table.task}: --data_dir, the folder of its data, is needed')
    if not self.from_glue:
      names = ', '.join(glue.NAMES)
      raise InputError(f'--data_dir and --tfds hold GLUE tasks; --task is one of {names}')
    if any(self._given_files):
      raise InputError('--data_dir, --tfds or files of your own, not both')

  def labelled_sources(self) -> dict[str, Any]:
    """What the labelled sets are made from: flags, and each file's sha256."""
    paths = [self.train_file, self.valid_file, self.test_file]
    if self.from_glue and not self.tfds:
      files = glue.sets(self.table.task, self.data_dir).values()
      paths = sorted({path for parts in files for _, path in parts})
    values = {**flags.flat(self), **_digests(paths)}
    if self.table.teacher_scores == 'logit':
      del values['teacher_scores']  # runs from before there were probabilities stay as they are
    others = {**self._unlabelled_flags(), **flags.flat(self.mining)}
    return {name: v for name, v in values.items() if name not in others}

  def mined_sources(self) -> dict[str, Any]:
    """What a mined task's labelled sets are made from."""
    path = self.mining.mine_from
    if not os.path.exists(path):
      raise InputError(f'--mine_from={path}: no such file or folder')
    folder = os.path.isdir(path)
    digests = {f'sha256 of {path}': export.fingerprint(path)} if folder else _digests([path])
    return {**self.mining.labelled_flags(), **digests}

  def of_mined(self, mined: str, transferred: str) -> 'DataConfig':
    """The config with a mined task's files."""
    files: dict[str, Any] = {
      f'{name}_file': os.path.join(mined, f'{name}.jsonl') for name in SPLITS
    }
    files['distillation_file'] = os.path.join(transferred, f'{transfer.TRANSFER}.jsonl')
    return dataclasses.replace(self, mining=MiningConfig(), **files)

  def unlabelled_sources(self) -> dict[str, Any]:
    """What the unlabelled set is made from, beside the training set."""
    path = self.distillation_file
    path = os.path.join(path, records.MANIFEST) if self.annotated else path
    return {**self._unlabelled_flags(), **_digests([path])}

  def _unlabelled_flags(self) -> dict[str, Any]:
    return {'distillation_file': self.distillation_file, **flags.flat(self.pairing)}


def write_labelled(config: DataConfig, folder: str, seed: int) -> dict[str, int]:
  """Writes the record sets `train`, `valid` and `test` into `folder`, those that are missing.

  Args:
    config: Files and columns. A run with brought logits may have no training set.
    folder: Of the sets.
    seed: Of the catalogue.

  Returns:
    Tuples in each set.
  """
  counts = {}
  if config.from_glue:
    for name, rows in _glue_sets(config).items():
      counts[name] = _write((Example(*row) for row in rows), os.path.join(folder, name))
    return counts
  for name in SPLITS:
    path = getattr(config, f'{name}_file')
    if config.from_catalog:
      counts[name] = _write(_of_catalog(config, name, seed), os.path.join(folder, name))
    elif path:
      rows = examples.read(path, config.table, labelled=True)
      counts[name] = _write(rows, os.path.join(folder, name), info={'source': path})
  return counts


def write_unlabelled(
  config: DataConfig, data: str, folder: str, seed: int, labelled: bool = False
) -> int:
  """Writes the tuples that the teacher will score into `folder`.

  Args:
    config: The file; or how tuples are made from the training texts.
    data: Folder of the labelled sets.
    folder: Of the record set.
    seed: Of the catalogue and of the tuples made.
    labelled: Whether every tuple of a file must have a label; if not, those there are are kept.

  Returns:
    Tuples written.
  """
  train_set = os.path.join(data, 'train')
  if config.distillation_file:
    info: dict[str, Any] = {'source': config.distillation_file}
    if config.annotated:
      return _write(_annotated(config, labelled), folder, block=_FILE_BLOCK, info=info)
    path, table = config.distillation_file, config.table
    rows = examples.read(path, table, labelled=labelled, scored=True)
    block = transfer.block_of(config.distillation_file) or {'pairs': _FILE_BLOCK}
    if 'texts' in block:
      info['block_texts'] = block['texts']
    return _write(rows, folder, block=block['pairs'], info=info)
  if not config.pairing.distillation_pairs:
    return _write(records.read(train_set), folder)
  if config.from_catalog:
    rows, texts = _of_catalog(config, 'distillation', seed), catalog.BLOCK
    pairs = texts[0] * texts[1] // catalog.KEPT
  else:
    train = list(records.read(train_set))
    texts, pairs = pairing.block_shape(train, config.pairing)
    rows = pairing.from_training(train, config.pairing, seed)
  return _write(rows, folder, block=pairs, info={'block_texts': list(texts)})


def _glue_sets(config: DataConfig) -> dict[str, Iterator[tuple[str, tuple[str, str], float]]]:
  """Rows of each set, from folders or from TensorFlow Datasets."""
  task, data_dir = config.table.task, config.data_dir
  if config.tfds:
    made = glue_tfds.builder(task, config.tfds, data_dir)
    return {name: glue_tfds.read(task, made, name) for name in glue_tfds.sets(task, made)}
  return {name: glue.read(task, data_dir, name) for name in glue.sets(task, data_dir)}


def _of_catalog(config: DataConfig, name: str, seed: int) -> Iterator[Example]:
  sizes = dict(zip((*SPLITS, 'distillation'), config.catalog_sizes, strict=True))
  for pair in catalog.splits(seed, **sizes)[name]:
    yield Example(pair.id, (pair.term, pair.product), pair.relevance)


def _annotated(config: DataConfig, labelled: bool) -> Iterator[Example]:
  """A record set's tuples; one that does not fit the task, or lacks a label, is refused."""
  for example in records.read(config.distillation_file):
    found = len(example.texts), len(example.teacher_logits or ())
    needed = len(config.table.text_columns), config.table.outputs
    if found != needed:
      raise InputError(
        f'{config.distillation_file}: tuples of {found[0]} texts and {found[1]} teacher logits; '
        f'--text_columns and --task need {needed[0]} and {needed[1]}'
      )
    if labelled and example.label is None:
      raise InputError(f'{config.distillation_file}: tuple {example.id!r} has no label')
    yield example


def _write(rows: Iterable[Example], folder: str, **options: Any) -> int:
  """Writes a record set, unless it is there, and refuses an empty one; returns its size."""
  if not tf.io.gfile.exists(os.path.join(folder, records.MANIFEST)):
    bar = tqdm(rows, desc=os.path.basename(folder).removesuffix('.part'), unit=' tuples')
    records.write(folder, bar, **options)
  if not (count := records.read_manifest(folder).count):
    raise InputError(f'{os.path.basename(folder)}: no tuples; train needs more of them')
  return count


def _digests(paths: Iterable[str]) -> dict[str, str]:
  """Each file's sha256: a run whose files changed is another run."""
  found = {}
  for path in filter(None, paths):
    digest = hashlib.sha256()
    try:
      with tf.io.gfile.GFile(path, 'rb') as file:
        while part := file.read(1 << 24):
          digest.update(part)
    except tf.errors.OpError as error:
      raise InputError(f'{path}: no such file') from error
    found[f'sha256 of {path}'] = digest.hexdigest()[:16]
  return found
