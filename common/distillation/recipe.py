"""Values of the flags that a run leaves open: set once, printed, and kept in its `flags.txt`.

An open flag has a value that says nothing: an empty list, -1, or auto. What flags and devices tell
is settled before the first stage (`settled`), what the data tell after the data's stages
(`of_data`). A later start takes the values that are kept.
"""

import os
from typing import Any

import numpy as np

from common import flags
from common.data.records import RecordSet
from common.data.word_pieces import WordPieces
from common.distillation import function_teacher
from common.distillation.config import AUTO, RUNTIMES
from common.modeling import encoders, saving

_TEXTS = 4096  # of a slot that are measured
_TUPLES = 65_536  # whose texts these are
_TOKENS = (4, 16)  # kept of a text, the least and the most
_LENGTHS = (16, 128)  # the least and the most --max_lengths
_OF_VECTOR = 4  # tokens that a vector becomes
# Tuples of a phase for each tuple of the training set (the teacher's), or for each text, and the
# least and the most steps.
_STEPS = {
  'teacher_steps': (3, 1500, 6000),
  'stage1_steps': (24, 300, 10_000),
  'stage2_steps': (5, 300, 4000),
}
_LABELS = 20_000  # of fewer, the teacher alone is learnt: the student would learn them by heart
_OF_TEXTS = ('max_lengths', 'output_tokens')
_OF_DATA = ('alpha', *_OF_TEXTS, *_STEPS)
_SETTLED = ('precision', 'annotation_runtime', 'head')


def settled(config: Any) -> Any:
  """A config with what its other flags and the devices say.

  Args:
    config: A run's, with `experiment`.
  """
  given, experiment = flags.flat(config), config.experiment
  found: dict[str, Any] = {'precision': experiment.devices.settled().precision}
  # A list's or a margin's loss has a scale of its own, beside which labels have no natural weight.
  if given['alpha'] < 0 and not (experiment.data.makes and given['loss'] == 'cross_entropy'):
    found['alpha'] = 1.0
  if given['annotation_runtime'] == AUTO and not experiment.labels_alone:
    of_folder = not (
      experiment.brings_logits or any(map(function_teacher.is_named, experiment.teachers))
    )
    converted = of_folder and not experiment.devices.accelerated
    found['annotation_runtime'] = RUNTIMES[1] if converted else RUNTIMES[0]
  if given.get('head') == AUTO:
    pairs = len(experiment.data.table.text_columns) == 2
    found['head'] = 'lite' if pairs else 'transformer'
  if folder := given.get('freeze_right'):
    there = os.path.join(folder, 'student')
    if saving.is_there(there):
      own = saving.read(there)[0]['config']
      found |= {name: own[name] for name in ('head', *_OF_TEXTS) if is_open(given[name])}
  return filled(config, found)


def is_open(value: Any) -> bool:
  """Whether a value leaves a flag open."""
  return value in ((), -1, AUTO)


def open_flags(config: Any) -> list[str]:
  """The flags that a run is still to set."""
  given = flags.flat(config)
  return [name for name in (*_SETTLED, *_OF_DATA) if name in given and is_open(given[name])]


def of_data_flags(config: Any) -> list[str]:
  """The open flags that the data set; no steps of a teacher that is there already."""
  names = [name for name in open_flags(config) if name in _OF_DATA]
  return names if config.experiment.fine_tunes else [n for n in names if n != 'teacher_steps']


def filled(config: Any, values: dict[str, Any]) -> Any:
  """A config with other values of some flags."""
  return flags.build(type(config), {**flags.flat(config), **values})


def difference(asked: Any, config: Any) -> dict[str, Any]:
  """The flags that were set, of what was asked for."""
  given = flags.flat(asked)
  return {name: value for name, value in flags.flat(config).items() if value != given[name]}


def of_data(config: Any, train: str, tuples: str) -> Any:
  """A config with what the data say.

  Lists hold a number a text. `max_lengths` holds 99 of 100 texts, and no more than 128 tokens.
  `output_tokens` is the median length, from 4 to 16. Steps follow the texts. `alpha` is 0.5 for
  many labels, else 1.

  Args:
    config: A run's.
    train: Folder of the training set; there need be none where a run brings the logits.
    tuples: Folder of the tuples that the student learns from.
  """
  names, given = of_data_flags(config), flags.flat(config)
  found: dict[str, Any] = {}
  if {'max_lengths', 'output_tokens'} & set(names):
    lengths = _lengths(RecordSet(tuples), given['pretrained'])
    kept = given['output_tokens'] or [
      _rounded(float(np.median(of)), 4, _TOKENS) if len(of) else _OF_VECTOR for of in lengths
    ]
    longest = given['max_lengths'] or [
      max(tokens, _rounded(float(np.percentile(of, 99)), 8, _LENGTHS)) if len(of) else tokens
      for of, tokens in zip(lengths, kept, strict=True)
    ]
    found['max_lengths'] = tuple(longest)
    found['output_tokens'] = tuple(map(min, kept, longest))
  if 'alpha' in names:
    found['alpha'] = 0.5 if len(RecordSet(train)) >= _LABELS else 1.0
  texts = 0
  if {'stage1_steps', 'stage2_steps'} & set(names):
    items = RecordSet(tuples).tuples().items
    texts = sum(len(np.unique(of_slot)) for of_slot in items.T)
  for name in _STEPS.keys() & set(names):
    (times, least, most), batch = _STEPS[name], given[name.replace('steps', 'batch_size')]
    of = texts
    if name == 'teacher_steps':
      of = len(RecordSet(train)) if os.path.exists(train) else 0
    found[name] = min(most, max(least, times * of // batch))
  return filled(config, {name: found[name] for name in names})


def _lengths(records: RecordSet, pretrained: str) -> list[np.ndarray]:
  """Tokens of texts of each slot, special ones included; none of a slot of vectors."""
  checkpoint, found = encoders.read(pretrained), []
  pieces = WordPieces(checkpoint.vocabulary, checkpoint.lower_case)
  items = records.head(_TUPLES).items
  for slot, width in enumerate(records.widths):
    numbers = np.unique(items[:, slot])
    numbers = numbers[:: -(-len(numbers) // _TEXTS)]
    texts = [] if width else list(records.items(slot).texts(numbers))
    found.append(np.array([2 + len(of) for of in pieces.pieces(texts)]))
  return found


def _rounded(tokens: float, step: int, span: tuple[int, int]) -> int:
  """Tokens, rounded up to a multiple of `step`, in `span`."""
  least, most = span
  return min(most, max(least, int(-(-tokens // step)) * step))
