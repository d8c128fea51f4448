"""SentEval's downstream sets, from its own files (Conneau and Kiela, 2018; §4.2).

A line ends at a line feed alone, and blank lines are left out: of CR's 3,775 lines 3,771 are
sentences, of MPQA's 10,606 10,603. MR, CR, SUBJ, MPQA and TREC are in latin-1, the others in UTF-8.
"""

import dataclasses
import os
from collections.abc import Collection, Sequence

import numpy as np

from common.errors import InputError


@dataclasses.dataclass(frozen=True)
class Split:
  """Rows of one file or several.

  Attributes:
    texts: The sentences, a list a slot: one, or two for pairs.
    labels: A class or a score for each row.
  """

  texts: tuple[list[str], ...]
  labels: np.ndarray


@dataclasses.dataclass(frozen=True)
class Dataset:
  """A task and its splits. 'train' is always there; alone, it is cross-validated."""

  name: str
  splits: dict[str, Split]
  scored: bool = False  # its labels are scores of pairs, others are classes


@dataclasses.dataclass(frozen=True)
class _Columns:
  """Tab-separated files: a file a split, header lines, least columns; where texts and label are."""

  files: dict[str, str]
  header: int
  least: int
  texts: tuple[int, ...]
  label: int
  scored: bool = False


_SPLITS = ('train', 'dev', 'test')
_FOLDERS = {  # by task, in the order of Table 2
  **{name: name for name in ('MR', 'CR', 'SUBJ', 'MPQA')},
  **{'SST': 'SST/binary', 'TREC': 'TREC', 'MRPC': 'MRPC', 'SICK-R': 'SICK', 'SICK-E': 'SICK'},
  'STS-B': 'STS/STSBenchmark',
}
_CLASSES = {  # files of positive and of negative sentences
  'MR': ('rt-polarity.pos', 'rt-polarity.neg'),
  'CR': ('custrev.pos', 'custrev.neg'),
  'SUBJ': ('subj.objective', 'subj.subjective'),
  'MPQA': ('mpqa.pos', 'mpqa.neg'),
}
_QUESTIONS = {'train': 'train_5500.label', 'test': 'TREC_10.label'}
_SICK = {'train': 'SICK_train.txt', 'dev': 'SICK_trial.txt', 'test': 'SICK_test_annotated.txt'}
_MRPC = {split: f'msr_paraphrase_{split}.txt' for split in ('train', 'test')}
_COLUMNS = {
  'SST': _Columns({s: f'sentiment-{s}' for s in _SPLITS}, 0, 2, (0,), 1),
  'MRPC': _Columns(_MRPC, 1, 5, (3, 4), 0),
  'SICK-R': _Columns(_SICK, 1, 5, (1, 2), 3, scored=True),
  'SICK-E': _Columns(_SICK, 1, 5, (1, 2), 4),
  'STS-B': _Columns({s: f'sts-{s}.csv' for s in _SPLITS}, 0, 7, (5, 6), 4, scored=True),
}


def read(data_dir: str, tasks: Collection[str] = ()) -> list[Dataset]:
  """Tasks with a folder, in the order of Table 2.

  Args:
    data_dir: Folder of SentEval's downstream folders.
    tasks: Names of the tasks to read; empty: all.

  Raises:
    InputError: No folder is there, or none of a task's; a file is missing, empty or broken.
  """
  paths = {name: os.path.join(data_dir, folder) for name, folder in _FOLDERS.items()}
  there = [name for name, path in paths.items() if os.path.isdir(path)]
  if not there:
    folders = ', '.join(_FOLDERS.values())
    raise InputError(f"--data_dir={data_dir}: none of SentEval's folders {folders} is there")
  if missing := set(tasks).difference(there):
    raise InputError(f'--tasks={min(missing)}: in {data_dir} are {", ".join(there)}')
  return [_dataset(name, paths[name]) for name in there if name in (tasks or there)]


def _dataset(name: str, folder: str) -> Dataset:
  if name in _CLASSES:
    classes = [_lines(os.path.join(folder, file), 'latin-1') for file in _CLASSES[name]]
    labels = np.repeat([1, 0], [len(lines) for lines in classes])
    return Dataset(name, {'train': Split((classes[0] + classes[1],), labels)})
  if name == 'TREC':
    files = _QUESTIONS.items()
    return Dataset(name, {split: _questions(os.path.join(folder, file)) for split, file in files})
  columns = _COLUMNS[name]
  splits = {
    split: _table(os.path.join(folder, file), columns) for split, file in columns.files.items()
  }
  return Dataset(name, splits, columns.scored)


def _lines(path: str, encoding: str = 'utf-8', header: int = 0) -> list[str]:
  """A file's lines that are not blank, after its header lines."""
  try:
    with open(path, encoding=encoding, newline='\n') as file:
      found = [line for line in (line.rstrip('\r\n').strip() for line in file) if line]
  except OSError as error:
    raise InputError(f'{path}: {error.strerror}') from error
  except UnicodeDecodeError as error:
    raise InputError(f'{path}: {error}') from error
  if len(found) <= header:
    raise InputError(f'{path}: no sentence in it: it was not downloaded whole')
  return found[header:]


def _questions(path: str) -> Split:
  """TREC's lines: 'NUM:dist How far ?' is a question of class NUM."""
  rows = [line.split(' ', 1) for line in _lines(path, 'latin-1')]
  if bad := [row for row in rows if len(row) < 2]:
    raise InputError(f'{path}: a line without a question: {bad[0][0][:60]!r}')
  return Split(([text for _, text in rows],), np.array([of.split(':')[0] for of, _ in rows]))


def _table(path: str, columns: _Columns) -> Split:
  rows: list[Sequence[str]] = [line.split('\t') for line in _lines(path, header=columns.header)]
  if bad := [row for row in rows if len(row) < columns.least]:
    found = f'a line of {len(bad[0])} columns, of {columns.least}'
    raise InputError(f'{path}: {found}: {chr(9).join(bad[0])[:60]!r}')
  labels = [row[columns.label].strip() for row in rows]
  texts = tuple([row[column].strip() for row in rows] for column in columns.texts)
  try:
    return Split(texts, np.array([float(x) for x in labels] if columns.scored else labels))
  except ValueError as error:
    raise InputError(f'{path}: a score that is no number: {error}') from error
