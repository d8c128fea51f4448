"""Tuples of texts from TSV, CSV, JSONL and Parquet files, by column names, checked row by row.

Rows are streamed, never held.
"""

import dataclasses
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from common import flags
from common.data import glue, tables
from common.data.task import KINDS, Task
from common.data.texts import Item, hash64
from common.data.vector_cells import VectorColumn, numbers_of, parse
from common.errors import InputError

# Asked of a table's labels: all rows have one; some have one, and these must fit; or nothing, and
# labels that fit are kept.
Labels = Literal['all', 'some', 'none']
SCORES = ('logit', 'probability')
_NO_ROWS = 'no rows below the header; an empty file is no data set'
_SUM_OFF = 0.02  # of classes' probabilities from 1, rounded as they are written
_TRUTH = {'true': 1.0, 'false': 0.0}  # as tables of other programs have a binary label
# As GLUE, pandas and others write that there is none.
_NO_LABEL = frozenset(('', '-', '-1', '-1.0', 'na', 'n/a', '<na>', 'nan', 'none', 'null'))
_LEAST = 1e-6  # a probability's distance from 0 and 1, so that its logit is finite


@dataclasses.dataclass(frozen=True)
class Example:
  """A tuple of n texts (or vectors), with its label and its teacher's logits where they are known.

  `label` is in [0, 1] for regression and binary tasks, a class index for multiclass tasks.
  """

  id: str
  texts: tuple[Item, ...]
  label: float | None = None
  teacher_logits: tuple[float, ...] | None = None
  soft_labels: tuple[float, ...] | None = None


@dataclasses.dataclass(frozen=True)
class TableConfig:
  """Columns of a table, and the meaning of its labels."""

  text_columns: tuple[str, ...] = flags.option(
    ('left', 'right'),
    'columns of the texts, in the order of the encoders (two or more); title+description joins two '
    'columns into one text',
  )
  vector_columns: tuple[str, ...] = flags.option(
    (),
    '--text_columns that hold vectors of one width instead of texts: COLUMN for cells with lists '
    'of numbers; COLUMN:FILE.npy for cells with ids, the lines of FILE.txt',
  )
  label_column: str = flags.option('label', 'column of the label in labelled files')
  label_range: tuple[float, ...] = flags.option(
    (0.0, 1.0),
    'lowest and highest label of a regression; they become 0 and 1',
    bounds=(-(10**12), 10**12),
  )
  task: str = flags.option(
    'regression', 'kind of the labels, or the GLUE task in --data_dir', (*KINDS, *glue.NAMES)
  )
  classes: tuple[str, ...] = flags.option((), "a multiclass task's labels, in order of the outputs")
  id_column: str = flags.option('', 'column of a unique id; empty: rows are numbered')
  teacher_logits_column: str = flags.option(
    '',
    "column of the teacher's scores in --distillation_file (space-separated for classes); the run "
    'trains no teacher',
  )
  teacher_scores: str = flags.option(
    'logit',
    'kind of the scores in --teacher_logits_column or of a Python function as teacher: logits, or '
    'probabilities from 0 to 1',
    SCORES,
  )
  encoding: str = flags.option('utf-8', 'character encoding of the files')

  def __post_init__(self):
    if len(self.text_columns) < 2 or not all(self.text_columns):
      raise InputError(
        f'--text_columns={",".join(self.text_columns)}: two or more names are needed'
      )
    if not all(self.classes):
      raise InputError(f'--classes={",".join(self.classes)}: one of them is empty')
    for flag in ('text_columns', 'classes'):
      names = getattr(self, flag)
      if len(set(names)) < len(names):
        raise InputError(f'--{flag}={",".join(names)}: each once')
    if len({parse(flag)[0] for flag in self.vector_columns}) < len(self.vector_columns):
      raise InputError(f'--vector_columns={",".join(self.vector_columns)}: each column once')
    for flag in self.vector_columns:
      if parse(flag)[0] not in self.text_columns:
        raise InputError(
          f'--vector_columns={flag}: not one of --text_columns={",".join(self.text_columns)}'
        )
    if len(self.label_range) != 2 or not self.label_range[0] < self.label_range[1]:
      raise InputError(f'--label_range={self.label_range}: two numbers, low,high, are needed')
    if (self.task == 'multiclass') != bool(self.classes) or len(self.classes) == 1:
      raise InputError('--classes names two or more labels for --task=multiclass, and only for it')
    tables.check_encoding(self.encoding)

  def task_of(self, metric: str = '') -> Task:
    """The task and its deciding metric; a GLUE task becomes one of the three kinds."""
    kind = self.task
    if kind not in KINDS:
      kind = 'multiclass' if glue.classes(self.task) else 'regression'
    return Task(kind, self.class_names, metric)

  @property
  def outputs(self) -> int:
    """Number of logits: one, or one a class."""
    return self.task_of().outputs

  @property
  def class_names(self) -> tuple[str, ...]:
    """Labels of a task of classes, in the order of the outputs."""
    return self.classes or glue.classes(self.task)


def vector_columns(config: TableConfig) -> dict[str, VectorColumn]:
  """Readers of the columns of vectors, by name."""
  return {column.name: column for column in map(VectorColumn, config.vector_columns)}


def read(
  path: str,
  config: TableConfig,
  *,
  labels: Labels,
  scored: bool = False,
  vectors: Mapping[str, VectorColumn] | None = None,
) -> Iterator[Example]:
  """Streams the rows of a table as examples.

  Args:
    path: `.tsv`, `.csv` or `.jsonl`, with or without `.gz`, or `.parquet`; local or remote.
    config: The columns.
    labels: What is asked of them.
    scored: Whether every row must have the teacher's scores, where `config` names their column.
    vectors: Its `vector_columns`, of one width in all files that they read; None: this file's own.

  Yields:
    Examples in the file's order.

  Raises:
    InputError: At the first bad row, with file, line and what would be right. At the end of the
      file: logits that are all from 0 to 1, and duplicate ids, in 8 bytes of memory a row.
  """
  hashes = array('Q')
  vectors = vector_columns(config) if vectors is None else vectors
  row_id, lowest, highest = '', math.inf, -math.inf
  columns = (
    *config.text_columns,
    config.label_column,
    config.id_column,
    config.teacher_logits_column,
  )
  for number, row in tables.rows(path, config.encoding, columns=columns):
    where = f'{path}:{number}'
    if config.id_column:
      row_id = row[config.id_column].strip()
      if not row_id:
        raise InputError(f'{where}: column {config.id_column!r} is empty; every row needs an id')
      hashes.append(hash64(row_id))
      where += f' (id {row_id})'
    else:
      row_id = f'{number}'
    cells = [tables.text(row, column, where) for column in config.text_columns]
    texts = tuple(
      vectors[column].read(cell, where) if column in vectors else cell
      for column, cell in zip(config.text_columns, cells, strict=True)
    )
    label = _read_label(row, config, where, labels)
    z, column = None, config.teacher_logits_column
    if column and (column in row or scored):
      what = f'teacher {config.teacher_scores}'
      scores = [tables.number(cell, what, where) for cell in numbers_of(row[column])]
      z = logits(scores, config, where)
      lowest, highest = min(lowest, *z), max(highest, *z)
    yield Example(row_id, texts, label, z)
  if not row_id:
    raise InputError(f'{path}: {_NO_ROWS}')
  if config.teacher_scores == 'logit' and 0 <= lowest <= highest <= 1:
    raise InputError(
      f'{path}: column {config.teacher_logits_column!r} lies within [0, 1], as probabilities do '
      'and logits do not; --teacher_scores=probability takes it'
    )
  _refuse_duplicates(path, config, hashes)


def column(path: str, name: str, encoding: str) -> Iterator[str]:
  """Streams the texts of one column of a table; an empty text is refused."""
  number = 0
  for number, row in tables.rows(path, encoding, columns=(name,)):
    yield tables.text(row, name, f'{path}:{number}')
  if not number:
    raise InputError(f'{path}: {_NO_ROWS}')


def _read_label(row: tables.Row, config: TableConfig, where: str, labels: Labels) -> float | None:
  """The label of a row; None where it has none, and need not."""
  if labels != 'all' and config.label_column not in row:
    return None
  text = row[config.label_column]
  try:
    return _label(text, config, where)
  except InputError:
    if labels == 'none' or (labels == 'some' and text.strip().casefold() in _NO_LABEL):
      return None
    raise


def _label(text: str, config: TableConfig, where: str) -> float:
  named = f'column {config.label_column!r}'
  if config.task == 'multiclass':
    if text not in config.classes:
      text = text.strip()  # as a flag's names are
    if text not in config.classes:
      classes = ','.join(config.classes)
      raise InputError(f'{where}: label {text!r} is none of --classes={classes}; {named}')
    return float(config.classes.index(text))
  (low, high), truth = config.label_range, _TRUTH if config.task == 'binary' else {}
  if (word := text.strip().casefold()) in truth:
    return truth[word]
  takes = f'{named}, --task={config.task}: ' + ', '.join([f'{low:g} to {high:g}', *truth])
  words = 'words are --task=multiclass --classes'
  value = tables.number(text, 'label', where, f'; {takes}; {words}')
  if not low <= value <= high:
    raise InputError(f'{where}: label {text} is outside --label_range={low:g},{high:g}; {takes}')
  return (value - low) / (high - low)


def logits(scores: Sequence[float], config: TableConfig, where: str) -> tuple[float, ...]:
  """A tuple's logits z of its teacher's scores, in the order of the outputs.

  Logits are as they stand; of probabilities p, z = log(p / (1 - p)), or log p of each class.

  Raises:
    InputError: At a wrong number of them, or one that is not finite, or no probability.
  """
  what = f'teacher {config.teacher_scores}'
  if len(scores) != config.outputs:
    raise InputError(f'{where}: {len(scores)} teacher scores; --task needs {config.outputs}')
  shown = ' '.join(f'{score:g}' for score in scores)
  if not all(map(math.isfinite, scores)):
    raise InputError(f'{where}: {what} {shown} is not a finite number')
  if config.teacher_scores == 'logit':
    return tuple(scores)
  if not all(0 <= p <= 1 for p in scores):
    raise InputError(f'{where}: {what} {shown} is outside [0, 1]; or is it --teacher_scores=logit?')
  if len(scores) > 1 and abs(sum(scores) - 1) > _SUM_OFF:
    raise InputError(
      f'{where}: {what} {shown} of classes adds up to {sum(scores):.3g}, not to 1, as of a softmax'
    )
  clipped = [min(max(p, _LEAST), 1 - _LEAST) for p in scores]
  return tuple(math.log(p) - (math.log1p(-p) if len(clipped) == 1 else 0) for p in clipped)


def _refuse_duplicates(path: str, config: TableConfig, hashes: array) -> None:
  ordered = np.sort(np.frombuffer(hashes, np.uint64))
  repeated = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
  if not repeated:
    return
  first: dict[str, int] = {}
  for number, row in tables.rows(path, config.encoding, columns=(config.id_column,)):
    row_id = row[config.id_column].strip()
    if hash64(row_id) in repeated:
      if row_id in first:
        raise InputError(f'{path}:{number}: id {row_id!r} also stands at line {first[row_id]}')
      first[row_id] = number
