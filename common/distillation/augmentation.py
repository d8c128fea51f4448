"""A distillation set made from training tuples by masking and n-grams (Tang et al., 2019, §3.3).

Each word of a text is masked with probability 0.1. Then, with probability 0.25, only 1 to 5
neighbouring words of the text stay. A tuple's texts change in turn: the first alone, the second
alone, and so on, then all of them. The paper's third way puts in another word of the same part of
speech; it needs a tagger and is left out.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from common.data.examples import Example
from common.data.records import RecordSet

# Stands for a masked word: a noncharacter is [UNK] in every vocabulary, the teacher's too.
MASK = '\ufdd0'
_MASKED, _NGRAM, _LONGEST = 0.1, 0.25, 5
_TOGETHER = 4096  # training tuples whose first ones come first, then their second ones, and so on


def from_training(train: RecordSet, count: int, seed: int) -> Iterator[Example]:
  """Yields each training tuple with its label, and up to `count` tuples made of it, none twice.

  Tuples made of one stand far apart, so that a batch mixes many.

  Args:
    train: The training set.
    count: Attempts for each tuple; an attempt that gives the tuple itself, or an earlier one, is
      dropped.
    seed: Seed of what is masked and sampled.
  """
  rng = np.random.default_rng(seed)
  stream = zip(train.texts(), train.tuples().labels, strict=True)
  while some := list(itertools.islice(stream, _TOGETHER)):
    of_each = [_of_one(texts, float(label), count, rng) for texts, label in some]
    for together in itertools.zip_longest(*of_each):
      yield from filter(None, together)


def _of_one(
  texts: tuple[str, ...], label: float, count: int, rng: np.random.Generator
) -> list[Example]:
  """A training tuple, and those made of it."""
  found = [Example('', texts, label)]
  plain = tuple(' '.join(text.split()) for text in texts)
  seen = {plain}
  for number in range(count):
    slot = number % (len(texts) + 1)
    made = tuple(augmented(t, rng) if slot in (i, len(texts)) else t for i, t in enumerate(plain))
    if made not in seen:
      seen.add(made)
      found.append(Example('', made))
  return found


def augmented(text: str, rng: np.random.Generator) -> str:
  """A text with some words masked or, of these, an n-gram alone; words are what spaces part."""
  words = text.split()
  words = [
    MASK if draw < _MASKED else w for w, draw in zip(words, rng.random(len(words)), strict=True)
  ]
  if rng.random() < _NGRAM:
    length = min(int(rng.integers(1, _LONGEST + 1)), len(words))
    start = rng.integers(len(words) - length + 1)
    words = words[start : start + length]
  return ' '.join(words)
