"""GLUE's tasks from TensorFlow Datasets: `--task=mrpc --tfds=glue/mrpc`.

Sets are as of `glue`: where the test split's labels were published it is `test` and the validation
split is `valid`; elsewhere the validation split is `test`, and a tenth of train is `valid`.
"""

from collections.abc import Iterator
from typing import Any

import tensorflow_datasets as tfds

from common.data import glue
from common.errors import InputError


def builder(task: str, name: str, data_dir: str) -> Any:
  """The data set's builder, its files in place.

  Args:
    task: One of GLUE's.
    name: Name in TensorFlow Datasets: 'glue/mrpc', 'snli'.
    data_dir: Folder of TensorFlow Datasets; empty: its own default.

  Raises:
    InputError: If there is no such data set, or it has not the task's features.
  """
  if task not in glue.TASKS:
    raise InputError(f'--tfds={name}: --task is one of {", ".join(glue.TASKS)}')
  try:
    made = tfds.builder(name, data_dir=data_dir or None)
    made.download_and_prepare()
  except Exception as error:  # downloads fail in many ways
    raise InputError(f'--tfds={name}: {" ".join(str(error).split())[:300]}') from error
  wanted = {*glue.TASKS[task].tfds_texts, 'label'}
  if missing := wanted - set(made.info.features):
    raise InputError(f'--tfds={name}: has no {", ".join(sorted(missing))}, which {task} takes')
  return made


def sets(task: str, made: Any) -> dict[str, str]:
  """The split of each set."""
  dev = [f'validation{name}' for name in (('_matched', '_mismatched') if task == 'mnli' else ('',))]
  found = {'train': 'train', 'valid': 'train', 'test': dev[0]}
  if task != 'mnli' and _labelled(made):
    found |= {'valid': dev[0], 'test': 'test'}
  return found | ({'test_mismatched': dev[1]} if len(dev) > 1 else {})


def read(task: str, made: Any, name: str) -> Iterator[tuple[str, tuple[str, str], float]]:
  """Streams (id, texts, label) of a set, as `glue.read`.

  Undecided rows (label -1) and rows with an empty text are skipped and counted.
  """
  of_task, splits = glue.TASKS[task], sets(task, made)
  shared, split = splits['valid'] == 'train' and name in ('train', 'valid'), splits[name]
  rows = undecided = broken = 0
  for row in tfds.as_numpy(made.as_dataset(split=split, shuffle_files=False)):
    rows += 1
    first, second = (row[feature].decode() for feature in of_task.tfds_texts)
    if row['label'] < 0:
      undecided += 1
    elif not first.strip() or not second.strip():
      broken += 1
    elif not shared or (name == 'valid') == glue.for_validation(first):
      yield f'{task}-{split}-{rows - 1}', (first, second), float(row['label']) / of_task.most
  glue.say_skipped(f'{made.info.full_name}, {split}', rows, undecided, broken)


def _labelled(made: Any) -> bool:
  """Whether the test split's labels are there."""
  return next(iter(tfds.as_numpy(made.as_dataset(split='test'))))['label'] >= 0
