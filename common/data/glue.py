"""GLUE's sentence-pair tasks, from their own TSV folders: MRPC, MNLI, QQP, QNLI, RTE, STS-B, SNLI.

Columns are found by the header's names, nothing is quoted, a byte order mark is no text. Rows that
were published broken or undecided are skipped, and counted: too few cells, an empty text, the label
"-" (raters who did not agree).

GLUE keeps the labels of most test sets. Where a folder holds a labelled one (MRPC's, SNLI's), it is
`test` and the dev set is `valid`; elsewhere the dev set is `test`, and a tenth of train, cut by the
first sentence, is `valid`.
"""

import dataclasses
import os
from collections.abc import Iterator

from common.data import tables
from common.data.texts import hash64
from common.errors import InputError
from common.files import exists, is_folder

_YES_NO = ('0', '1')
_NLI = ('entailment', 'neutral', 'contradiction')
_MISMATCHED = 'dev_mismatched.tsv'
_VALID_SHARE = 10  # one in so many training rows


@dataclasses.dataclass(frozen=True)
class GlueTask:
  """Files of a GLUE task, and the meaning of their columns.

  Attributes:
    folder: Below --data_dir.
    texts: Columns of the two sentences.
    label: Column of the label.
    classes: Labels in the order of the outputs; none for a regression.
    most: Highest label of a regression, whose lowest is 0.
    dev: The dev sets: the first, and one of another domain.
    test: A labelled test set that the folder may hold.
    tfds_texts: Features of the two sentences in TensorFlow Datasets.
    hub: Its data set on Hugging Face's hub.
  """

  folder: str
  texts: tuple[str, str]
  label: str
  classes: tuple[str, ...] = ()
  most: float = 1.0
  dev: tuple[str, ...] = ('dev.tsv',)
  test: str = ''
  tfds_texts: tuple[str, str] = ('sentence1', 'sentence2')
  hub: str = 'nyu-mll/glue'


_ENTAILED = ('entailment', 'not_entailment')
_QUESTIONS, _ANSWER = ('question1', 'question2'), ('question', 'sentence')
_PREMISE = ('premise', 'hypothesis')
_PAIR = ('sentence1', 'sentence2')
TASKS = {
  'mrpc': GlueTask(
    'MRPC', ('#1 String', '#2 String'), 'Quality', _YES_NO, test='msr_paraphrase_test.txt'
  ),
  'mnli': GlueTask(
    'MNLI', _PAIR, 'gold_label', _NLI, dev=('dev_matched.tsv', _MISMATCHED), tfds_texts=_PREMISE
  ),
  'qqp': GlueTask('QQP', _QUESTIONS, 'is_duplicate', _YES_NO, tfds_texts=_QUESTIONS),
  'qnli': GlueTask('QNLI', _ANSWER, 'label', _ENTAILED, tfds_texts=_ANSWER),
  'rte': GlueTask('RTE', _PAIR, 'label', _ENTAILED),
  'stsb': GlueTask('STS-B', _PAIR, 'score', most=5.0),
  'snli': GlueTask(
    'SNLI',
    _PAIR,
    'gold_label',
    _NLI,
    test='test.tsv',
    tfds_texts=_PREMISE,
    hub='stanfordnlp/snli',
  ),
}
_JOINED = {'allnli': ('snli', 'mnli')}  # §4.2
NAMES = (*TASKS, *_JOINED)


def classes(task: str) -> tuple[str, ...]:
  """Labels of a task, in the order of the outputs; none for a regression."""
  return TASKS[_JOINED[task][0] if task in _JOINED else task].classes if task in NAMES else ()


def on_hub(task: str, data_dir: str) -> list[str]:
  """Data sets of a task on Hugging Face's hub; arguments as for `sets`."""
  return [member.hub for member in _members(task, data_dir)]


def sets(task: str, data_dir: str) -> dict[str, list[tuple[GlueTask, str]]]:
  """The sets of a task, each with the task (one, but for `allnli`) and path of its files.

  Args:
    task: One of `NAMES`; 'allnli' is what there is of SNLI and MNLI.
    data_dir: Holds a folder a task, as GLUE names them.

  Returns:
    'train', 'valid', 'test' and, for MNLI, 'test_mismatched'.

  Raises:
    InputError: If a folder or one of its files is missing.
  """
  found: dict[str, list[tuple[GlueTask, str]]] = {}
  for member in _members(task, data_dir):
    folder = os.path.join(data_dir, member.folder)
    train, dev = (os.path.join(folder, name) for name in ('train.tsv', member.dev[0]))
    test = os.path.join(folder, member.test)
    files = {'train': train, 'valid': train, 'test': dev}
    if member.test and exists(test):
      files = {'train': train, 'valid': dev, 'test': test}
    if len(member.dev) > 1:
      files['test_mismatched'] = os.path.join(folder, member.dev[1])
    for name, path in files.items():
      if not exists(path):
        raise InputError(f'{path}: no such file; --task={task} needs it')
      found.setdefault(name, []).append((member, path))
  return found


def read(task: str, data_dir: str, name: str) -> Iterator[tuple[str, tuple[str, str], float]]:
  """Streams (id, texts, label) of a set; labels are class numbers, or in [0, 1].

  Args:
    task: As for `sets`.
    data_dir: As for `sets`.
    name: Name of the set.

  Raises:
    InputError: At a label that the task does not have, with file and line.
  """
  files = sets(task, data_dir)
  for member, path in files[name]:
    shared = (member, path) in files['train'] and (member, path) in files['valid']
    for row_id, texts, label in _rows(member, path):
      if not shared or (name == 'valid') == for_validation(texts[0]):
        yield row_id, texts, label


def for_validation(text: str) -> bool:
  """Whether training rows of this first sentence validate, where there is no other valid set."""
  return hash64(text) % _VALID_SHARE == 0


def _members(task: str, data_dir: str) -> list[GlueTask]:
  """The tasks that a task joins; of several, those that are there."""
  members = [TASKS[name] for name in _JOINED.get(task, (task,))]
  there = [member for member in members if is_folder(os.path.join(data_dir, member.folder))]
  if not there:
    folders = ' or '.join(member.folder for member in members)
    raise InputError(f'--data_dir={data_dir}: no folder {folders} there; --task={task} needs it')
  return there


def _rows(member: GlueTask, path: str) -> Iterator[tuple[str, tuple[str, str], float]]:
  rows = undecided = broken = 0
  for number, row in tables.rows(path, ragged=True, literal=True):
    rows += 1
    texts, label = (row[member.texts[0]], row[member.texts[1]]), row[member.label]
    if label == '-':
      undecided += 1
    elif not all(text.strip() for text in texts) or not label:
      broken += 1
    else:
      stem = os.path.basename(path).rsplit('.', 1)[0]
      yield f'{member.folder}-{stem}-{number}', texts, _label(member, label, f'{path}:{number}')
  say_skipped(path, rows, undecided, broken)


def say_skipped(where: str, rows: int, undecided: int, broken: int) -> None:
  """Prints how many rows were skipped, if any."""
  if undecided or broken:
    print(
      f'{where}: of {rows:,} rows, {undecided:,} undecided and {broken:,} broken ones are skipped'
    )


def _label(member: GlueTask, text: str, where: str) -> float:
  if member.classes:
    if text not in member.classes:
      raise InputError(f'{where}: label {text!r} is none of {", ".join(member.classes)}')
    return float(member.classes.index(text))
  try:
    value = float(text)
  except ValueError:
    value = -1.0
  if not 0 <= value <= member.most:
    raise InputError(f'{where}: label {text!r} is no number from 0 to {member.most:g}')
  return value / member.most
