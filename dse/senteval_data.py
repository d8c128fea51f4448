"""SentEval's downstream sets, from its own files (Conneau and Kiela, 2018; §4.2).

Lines end at a line feed alone. MR, CR, SUBJ, MPQA and TREC are read as latin-1, the others as UTF-8. Blank lines
are left out: of CR's 3,775 lines 3,771 are sentences, of MPQA's 10,606 10,603.
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
  """A task: its splits, of which 'train' is always there; alone, it is cross-validated."""

  name: str
  kind: str  # 'classes', 'pairs' (classes of pairs) or 'relatedness' (scores of pairs)
  splits: dict[str, Split]


def read(data_dir: str, tasks: Collection[str] = ()) -> list[Dataset]:
  """Tasks whose folders are there, in the order of Table 2.

  Args:
    data_dir: Folder of SentEval's downstream folders.
    tasks: Names of those that are read; empty: all.

  Raises:
    InputError: If none is there, or not one of `tasks`; if a file of one is missing, empty or broken.
  """
  paths = {name: os.path.join(data_dir, folder) for name, (folder, _) in _READERS.items()}
  there = [name for name, path in paths.items() if os.path.isdir(path)]
  if not there:
    folders = ', '.join(folder for folder, _ in _READERS.values())
    raise InputError(f"--data_dir={data_dir}: none of SentEval's folders {folders} is there")
  if missing := set(tasks).difference(there):
    raise InputError(f'--tasks={min(missing)}: in {data_dir} are {", ".join(there)}')
  return [_READERS[name][1](name, paths[name]) for name in there if name in (tasks or there)]


def _lines(path: str, encoding: str = 'utf-8', header: int = 0) -> list[str]:
  """A file's lines that are not blank, without so many of a header."""
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


def _binary(name: str, folder: str) -> Dataset:
  """Two files, of positive and negative sentences."""
  positive, negative, encoding = {
    'MR': ('rt-polarity.pos', 'rt-polarity.neg', 'latin-1'),
    'CR': ('custrev.pos', 'custrev.neg', 'latin-1'),
    'SUBJ': ('subj.objective', 'subj.subjective', 'latin-1'),
    'MPQA': ('mpqa.pos', 'mpqa.neg', 'latin-1'),
  }[name]
  classes = [_lines(os.path.join(folder, file), encoding) for file in (positive, negative)]
  labels = np.repeat([1, 0], [len(lines) for lines in classes])
  return Dataset(name, 'classes', {'train': Split((classes[0] + classes[1],), labels)})


def _sst(name: str, folder: str) -> Dataset:
  splits = {}
  for split in ('train', 'dev', 'test'):
    path = os.path.join(folder, f'sentiment-{split}')
    rows = [_cells(line, 2, path) for line in _lines(path)]
    splits[split] = _split(rows, [0], 1, path)
  return Dataset(name, 'classes', splits)


def _trec(name: str, folder: str) -> Dataset:
  splits = {}
  for split, file in (('train', 'train_5500.label'), ('test', 'TREC_10.label')):
    path = os.path.join(folder, file)
    rows = [line.split(' ', 1) for line in _lines(path, 'latin-1')]
    if bad := [row for row in rows if len(row) < 2]:
      raise InputError(f'{path}: a line without a question: {bad[0][0][:60]!r}')
    labels = [label.split(':')[0] for label, _ in rows]
    splits[split] = Split(([question for _, question in rows],), np.array(labels))
  return Dataset(name, 'classes', splits)


def _mrpc(name: str, folder: str) -> Dataset:
  splits = {}
  for split in ('train', 'test'):
    path = os.path.join(folder, f'msr_paraphrase_{split}.txt')
    rows = [_cells(line, 5, path) for line in _lines(path, header=1)]
    splits[split] = _split(rows, [3, 4], 0, path)
  return Dataset(name, 'pairs', splits)


def _sick(name: str, folder: str) -> Dataset:
  splits = {}
  files = {'train': 'SICK_train', 'dev': 'SICK_trial', 'test': 'SICK_test_annotated'}
  for split, file in files.items():
    path = os.path.join(folder, f'{file}.txt')
    rows = [_cells(line, 5, path) for line in _lines(path, header=1)]
    scored = name == 'SICK-R'
    splits[split] = _split(rows, [1, 2], 3 if scored else 4, path, scored)
  return Dataset(name, 'relatedness' if name == 'SICK-R' else 'pairs', splits)


def _stsb(name: str, folder: str) -> Dataset:
  splits = {}
  for split in ('train', 'dev', 'test'):
    path = os.path.join(folder, f'sts-{split}.csv')
    rows = [_cells(line, 7, path) for line in _lines(path)]
    splits[split] = _split(rows, [5, 6], 4, path, True)
  return Dataset(name, 'relatedness', splits)


def _cells(line: str, least: int, path: str) -> list[str]:
  cells = line.split('\t')
  if len(cells) < least:
    raise InputError(f'{path}: a line of {len(cells)} columns, of {least}: {line[:60]!r}')
  return cells


def _split(
  rows: Sequence[Sequence[str]],
  texts: Sequence[int],
  label: int,
  path: str,
  scored: bool = False,
) -> Split:
  labels = [row[label].strip() for row in rows]
  columns = tuple([row[column].strip() for row in rows] for column in texts)
  try:
    return Split(columns, np.array([float(x) for x in labels] if scored else labels))
  except ValueError as error:
    raise InputError(f'{path}: a score that is no number: {error}') from error


_READERS = {
  'MR': ('MR', _binary),
  'CR': ('CR', _binary),
  'SUBJ': ('SUBJ', _binary),
  'MPQA': ('MPQA', _binary),
  'SST': ('SST/binary', _sst),
  'TREC': ('TREC', _trec),
  'MRPC': ('MRPC', _mrpc),
  'SICK-R': ('SICK', _sick),
  'SICK-E': ('SICK', _sick),
  'STS-B': ('STS/STSBenchmark', _stsb),
}
