"""The user's tables; and, in place of the last of them, an annotated record set."""

import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from common import files, flags, sharded
from common.data import examples, record_writer, vector_cells
from common.data.examples import Example, Labels, TableConfig
from common.data.items import ItemWriter
from common.data.matching import SPLITS, plain, split_of
from common.data.records import Manifest, RecordSet
from common.data.texts import hash64
from common.data.tuples import Tuples
from common.data.vector_cells import VectorColumn
from common.distillation.sources.source import Source, UnlabelledSet, digests, write_examples
from common.errors import InputError


@dataclasses.dataclass(frozen=True)
class TablesConfig:
  """The user's files."""

  train_file: str = flags.option(
    '',
    'labelled training tuples (.tsv, .csv or .jsonl, also with .gz; .parquet); without '
    '--valid_file and --test_file, split by left texts (--split_shares)',
  )
  valid_file: str = flags.option('', 'labelled validation tuples')
  test_file: str = flags.option('', 'labelled test tuples')
  distillation_file: str = flags.option(
    '',
    'tuples for the teacher, labelled or not, or the output folder of common.pipelines.annotate; '
    'empty: make pairs from the training texts',
  )

  @property
  def alone(self) -> bool:
    """Whether the training file is the only labelled one, and split."""
    return bool(self.train_file) and not (self.valid_file or self.test_file)

  @property
  def annotated(self) -> bool:
    """Whether the distillation file is a record set with the teacher's logits."""
    path = os.path.join(self.distillation_file, sharded.NAME)
    return bool(self.distillation_file) and files.stat(path) is not None


@dataclasses.dataclass(frozen=True)
class Tables(Source):
  """Rows of files, column by name; of a training file alone, three sets that share no left text.

  Left texts that differ in case, spaces and punctuation alone are one. Its hash says which set it
  is in, so that added rows move no others.
  """

  config: TablesConfig
  table: TableConfig
  split_shares: tuple[float, ...]
  named = 'files of your own'

  @property
  def brings_logits(self) -> bool:
    return bool(self.table.teacher_logits_column) or self.config.annotated

  @property
  def brings_tuples(self) -> bool:
    return bool(self.config.distillation_file)

  @property
  def brings_labels(self) -> bool:
    return self.brings_tuples

  def check(self) -> None:
    for name in ('valid_file', 'test_file'):
      if not (getattr(self.config, name) or self.config.alone):
        raise InputError(
          f'--{name} is needed where any file is given; a --train_file without both is split'
        )
    if not self.config.train_file and not self.config.distillation_file:
      raise InputError('--train_file or --distillation_file is needed where any file is given')

  def labelled_inputs(self) -> dict[str, Any]:
    paths = self._labelled_files()
    arrays = [path for _, path in map(vector_cells.parse, self.table.vector_columns) if path]
    also = [*arrays, *map(vector_cells.ids_path, arrays)]
    brought = [*paths.values(), *also]
    shares = {'split_shares': self.split_shares} if self.config.alone else {}
    return {**{f'{name}_file': path for name, path in paths.items()}, **shares, **digests(brought)}

  def unlabelled_inputs(self) -> dict[str, Any]:
    path = self.config.distillation_file
    known_by = os.path.join(path, sharded.NAME) if self.config.annotated else path
    return {'distillation_file': path, **digests([known_by])}

  def write_labelled(self, folder: str, seed: int) -> dict[str, Manifest]:
    if self.config.alone:
      paths = dict.fromkeys(SPLITS, self.config.train_file)
      sets: Mapping[str, Iterable[Example]] = self._split()
    else:
      paths = {name: path for name, path in self._labelled_files().items() if path}
      sets = {name: self._rows(path, 'all') for name, path in paths.items()}
    made = write_examples(folder, sets, len(self.table.text_columns), info={'source': paths})
    empty = [name for name in made if not made[name].count] if self.config.alone else []
    if empty:
      raise InputError(
        f'{self.config.train_file}: no left text is in {empty[0]}, by its hash: more of them are '
        'needed, another --split_shares, or --valid_file and --test_file'
      )
    return made

  def write_unlabelled(self, data: str, folder: str, seed: int, labels: Labels) -> UnlabelledSet:
    path, slots = self.config.distillation_file, len(self.table.text_columns)
    info = {'source': path}
    if self.config.annotated:
      groups = functools.partial(self._annotated, labels)
      sets = record_writer.write_sets(folder, {'': groups}, slots, info=info)
    else:
      sets = write_examples(folder, {'': self._rows(path, labels, scored=True)}, slots, info=info)
    return UnlabelledSet(sets[''].count)

  @functools.cached_property
  def _vectors(self) -> dict[str, VectorColumn]:
    return examples.vector_columns(self.table)

  def _labelled_files(self) -> dict[str, str]:
    return {name: getattr(self.config, f'{name}_file') for name in SPLITS}

  def _rows(self, path: str, labels: Labels, *, scored: bool = False) -> Iterator[Example]:
    """A file's rows; those without an id column have no ids. All bring logits, or none."""
    scored_rows: set[bool] = set()
    rows = examples.read(path, self.table, labels=labels, scored=scored, vectors=self._vectors)
    for example in rows:
      scored_rows.add(example.teacher_logits is not None)
      if len(scored_rows) > 1:
        raise InputError(f'{path}: row {example.id}: all rows have teacher logits, or none')
      yield example if self.table.id_column else dataclasses.replace(example, id='')

  def _split(self) -> dict[str, Iterable[Example]]:
    """The training file's rows by set, by their left texts; to be taken set after set.

    The file is read with the first set; rows of later ones wait in memory.
    """
    first, *later = SPLITS
    waiting: dict[str, list[Example]] = {name: [] for name in later}

    def read() -> Iterator[Example]:
      for example in self._rows(self.config.train_file, 'all'):
        if (name := self._set_of(example)) == first:
          yield example
        else:
          waiting[name].append(example)

    return {first: read(), **waiting}

  def _set_of(self, example: Example) -> str:
    """The set, of `SPLITS`, of a row's left text."""
    train, valid, _ = self.split_shares
    left = example.texts[0]
    key = plain(left) if isinstance(left, str) else str(hash64(left))
    return SPLITS[split_of(key, train, valid)]

  def _annotated(self, labels: Labels, writers: Sequence[ItemWriter]) -> Iterator[Tuples]:
    """A record set's groups, after its items; a set that does not fit is refused."""
    path, records = self.config.distillation_file, RecordSet(self.config.distillation_file)
    needed = len(self.table.text_columns), self.table.outputs
    logits = records.head(1).teacher_logits
    found = records.slots, 0 if logits is None else logits.shape[1]
    if found != needed:
      raise InputError(
        f'{path}: tuples of {found[0]} texts and {found[1]} teacher logits; '
        f'--text_columns and --task need {needed[0]} and {needed[1]}'
      )
    if labels == 'some' and not any(group.labelled.any() for group in records.groups()):
      raise InputError(f'{path}: no tuple has a label, and this loss needs labels; use --alpha=1')
    for slot, writer in enumerate(writers):
      writer.copy(records.items(slot))
    for group in records.groups():
      if labels == 'all' and not group.labelled.all():
        key = next(iter(group.ids), 'the first of a group')
        raise InputError(f'{path}: a tuple near {key!r} has no label')
      yield group
