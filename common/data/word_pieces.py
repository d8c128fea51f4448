"""BERT's word pieces for scoring without TensorFlow; same ids as `tokenization.Tokenizer`."""

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers, processors

from common import digests, files, schema
from common.errors import InputError, damaged

SPECIAL_TOKENS = ('[PAD]', '[UNK]', '[CLS]', '[SEP]')
_TEXTS = 1024  # split at a time
_CHARACTERS = 16  # split of a text for each piece wanted, all where these give too few
_REMEDY = 'export the run anew: delete its folder and run again'
MAX_WORD_CHARACTERS = 200  # the reference's: a longer word is one [UNK]

# What the reference removes first, what it strips with case, what stands alone.
_CLEAN = normalizers.Replace(Regex(r'[\x00-\x08\x0b\x0c\x0e-\x1f\u007f-\u009f\uFFFD\p{Cf}]'), '')
_WITHOUT_ACCENTS = normalizers.Sequence(
  [normalizers.NFD(), normalizers.Replace(Regex(r'\p{Mn}'), '')]
)
_LOWER = normalizers.Sequence(  # Python's lower case, which knows the final sigma
  [
    normalizers.Replace(
      Regex(r'\p{Cased}\p{Case_Ignorable}*\KΣ(?!\p{Case_Ignorable}*\p{Cased})'), 'ς'
    ),
    normalizers.Lowercase(),
  ]
)
_WORDS = pre_tokenizers.Sequence(
  [
    pre_tokenizers.WhitespaceSplit(),
    pre_tokenizers.Split(
      Regex(
        r'[!-/:-@\[-`{-~\p{P}\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF'
        r'\x{20000}-\x{2A6DF}\x{2A700}-\x{2CEAF}\x{2F800}-\x{2FA1F}]'
      ),
      'isolated',
    ),
  ]
)


def normal(text: str) -> str:
  """A text as an uncased tokenizer reads it: its words and punctuation, a space between any two."""
  clean = _WITHOUT_ACCENTS.normalize_str(_CLEAN.normalize_str(text).lower())
  return ' '.join(word for word, _ in _WORDS.pre_tokenize_str(clean))


def word_ids(vocabulary: Sequence[str]) -> dict[str, int]:
  """The id of each piece of a vocabulary, which is its place.

  Raises:
    InputError: A special token is missing, or a piece occurs twice.
  """
  ids: dict[str, int] = {}
  for index, piece in enumerate(vocabulary):
    if ids.setdefault(piece, index) != index:
      raise InputError(
        f'vocabulary: {piece!r} is both entry {ids[piece]} and entry {index}; each may occur once'
      )
  if missing := [token for token in SPECIAL_TOKENS if token not in ids]:
    raise InputError(
      f'vocabulary of {len(ids)} entries lacks {", ".join(missing)}; '
      f'it needs {", ".join(SPECIAL_TOKENS)}'
    )
  return ids


class WordPieces:
  """Splits texts into word pieces, by the `tokenizers` library.

  Lower case is Python's, as the reference's is: it knows the final sigma. `tokenizers`' own
  `BertNormalizer` is not the reference's: it strips vowel signs (Mc) as accents.

  Args:
    vocabulary: The word pieces, in the order of their ids, `SPECIAL_TOKENS` among them.
    lower_case: Whether the checkpoint is uncased.
  """

  def __init__(self, vocabulary: Sequence[str], lower_case: bool):
    self.vocabulary, self.lower_case = tuple(vocabulary), lower_case
    ids = {piece: number for number, piece in enumerate(vocabulary)}
    self.pad_id, unknown, self._start, self._end = (ids[token] for token in SPECIAL_TOKENS)
    self._tokenizer = tokenizers.Tokenizer(
      tokenizers.models.WordPiece(
        ids, unk_token=vocabulary[unknown], max_input_chars_per_word=MAX_WORD_CHARACTERS
      )
    )
    if lower_case:
      self._tokenizer.normalizer = _WITHOUT_ACCENTS
    self._tokenizer.pre_tokenizer = _WORDS

  def pieces(self, texts: Sequence[str | bytes]) -> list[list[int]]:
    """Word ids of texts, without special tokens; invalid UTF-8 in bytes is dropped."""
    return list(self._pieces(texts, None))

  def encode(self, texts: Sequence[str | bytes], max_length: int) -> list[np.ndarray]:
    """`[CLS] pieces [SEP]` of each text, int32, cut to `max_length` tokens, 2 or more."""
    found = self._pieces(texts, max_length - 2)
    return [np.array([self._start, *ids, self._end], np.int32) for ids in found]

  def _pieces(self, texts: Sequence[str | bytes], most: int | None) -> Iterator[list[int]]:
    """The first ids of each text.

    A few texts at a time: the library keeps the pieces and positions of all that it is given.
    """
    for start in range(0, len(texts), _TEXTS):
      some = [_text(text) for text in texts[start : start + _TEXTS]]
      firsts = some if most is None else [_first(text, _CHARACTERS * most) for text in some]
      for text, first, ids in zip(some, firsts, self._split(firsts), strict=True):
        if most is not None and len(ids) < most and len(first) < len(text):
          (ids,) = self._split([text])
        yield ids[:most]

  def save_tokenizer(self, path: str, max_length: int) -> None:
    """Writes a file for `tokenizers.Tokenizer.from_file`, which then gives the ids of `encode`.

    A batch is padded to its longest text. Characters of Unicode 15 and later may be lower-cased
    otherwise: Python and the library have tables of their own.
    """
    own = tokenizers.Tokenizer.from_str(self._tokenizer.to_str())
    lower = [_LOWER, _WITHOUT_ACCENTS] if self.lower_case else []
    own.normalizer = normalizers.Sequence([_CLEAN, *lower])
    start, end = ((self.vocabulary[i], i) for i in (self._start, self._end))
    own.post_processor = processors.TemplateProcessing(
      single=f'{start[0]} $A {end[0]}', special_tokens=[start, end]
    )
    own.enable_truncation(max_length)
    own.enable_padding(pad_id=self.pad_id, pad_token=self.vocabulary[self.pad_id])
    own.save(path)

  def save(self, path: str) -> None:
    """Writes a JSON file, for `load`."""
    files.write_json(path, {'lower_case': self.lower_case, 'vocabulary': self.vocabulary})

  @classmethod
  def load(cls, path: str) -> Self:
    """Reads a file that `save` wrote, of a folder with digests."""
    digests.check(path, _REMEDY)
    fields = files.read_json(path, _REMEDY)
    with damaged(path, _REMEDY):
      schema.check(fields, {'lower_case': bool, 'vocabulary': list[str]})
      return cls(fields['vocabulary'], fields['lower_case'])

  def _split(self, texts: Sequence[str]) -> list[list[int]]:
    clean = [_CLEAN.normalize_str(text) for text in texts]
    lower = [text.lower() for text in clean] if self.lower_case else clean
    return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(lower)]


def _text(text: str | bytes) -> str:
  return text.decode('utf-8', 'ignore') if isinstance(text, bytes) else text


def _first(text: str, most: int) -> str:
  """Whole words at the start of a text, in so many characters; they split as in the whole text."""
  end = text.rfind(' ', 0, most) if len(text) > most else -1
  return text[:end] if end > 0 else text
