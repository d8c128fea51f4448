"""A WordPiece vocabulary, learnt from texts by tensorflow-text's learner."""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Mapping

import tensorflow as tf
from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

from common import flags
from common.data import tokenization
from common.data.word_pieces import SPECIAL_TOKENS
from common.errors import InputError

MASK = '[MASK]'
SPECIAL = (*SPECIAL_TOKENS, MASK)
JOINER = '##'
_READ = 8192  # texts split at a time
_LEAST = 2  # occurrences of a piece
_CHARACTERS = 1000  # at the least, the most frequent ones, that are pieces


@dataclasses.dataclass(frozen=True)
class VocabularyConfig:
  """The vocabulary to learn."""

  vocab_size: int = flags.option(30_000, 'word pieces to learn at the most', bounds=(1, 10**6))
  lower_case: bool = flags.option(True, 'learn lower-cased pieces, without accents')


def count(texts: Iterable[str], lower_case: bool) -> collections.Counter[str]:
  """Occurrences of each word, split as a `Tokenizer` splits."""
  counts: collections.Counter[bytes] = collections.Counter()
  stream = iter(texts)
  while some := list(itertools.islice(stream, _READ)):
    counts.update(tokenization.words(tf.constant(some), lower_case).flat_values.numpy())
  return collections.Counter({word.decode(): n for word, n in counts.items()})


def learn(counts: Mapping[str, int], size: int) -> list[str]:
  """Learns word pieces, the special tokens first, then characters, then pieces by frequency.

  Characters are the most frequent ones: at most a thousand, or a quarter of `size` if that is more.
  The others are [UNK].

  Args:
    counts: Occurrences of each word.
    size: Most pieces.

  Raises:
    InputError: If the characters alone, each at a word's start and within, are more.
  """
  if not counts:
    raise InputError('the texts hold no word to learn a vocabulary of')
  characters = max(_CHARACTERS, size // 4)  # each is two pieces: at a word's start, and within
  found = learner.learn(
    counts, size, list(SPECIAL), lower_thresh=_LEAST, max_unique_chars=characters
  )
  if not {*found} - {*SPECIAL}:
    raise InputError('the texts hold no word of at most 50 characters, of which pieces are learnt')
  # The learner's last step may leave more than it was asked for: the rarest pieces go.
  longer = [
    piece for piece in found if len(piece.removeprefix(JOINER)) > 1 and piece not in SPECIAL
  ]
  surplus = len(found) - size
  if surplus > len(longer):
    raise InputError(
      f'--vocab_size={size}: special tokens and the characters of the texts are '
      f'{len(found) - len(longer)} pieces; name that many or more'
    )
  dropped = set(longer[len(longer) - surplus :]) if surplus > 0 else set()
  return [piece for piece in found if piece not in dropped]
