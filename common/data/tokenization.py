"""BERT's word pieces, computed in the graph: text in, word ids out, from training to serving."""

import hashlib
from collections.abc import Iterator, Sequence

import tensorflow as tf
import tensorflow_text as tf_text

from common.data.word_pieces import MAX_WORD_CHARACTERS, SPECIAL_TOKENS, WordPieces, word_ids

# What the reference removes first: NUL, U+FFFD, control and format characters.
_REMOVED = r'[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\x{FFFD}\p{Cf}]'
_ACCENTS = r'\p{Mn}'
# Every character that ends a word: whitespace, punctuation (all of ASCII's symbols) and CJK.
_SPACES = r'[\p{Z}\s]'
_STAND_ALONE = (
  r'([!-/:-@\[-`{-~\p{P}\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAFF}'
  r'\x{20000}-\x{2A6DF}\x{2A700}-\x{2CEAF}\x{2F800}-\x{2FA1F}])'
)
_LONG_RUN = rf'\S{{{MAX_WORD_CHARACTERS + 1},}}'
_UNKNOWN_WORD = '\ufdd0'  # a noncharacter: no text and no vocabulary has it


class Tokenizer(tf.Module):
  """Splits texts into BERT's word pieces with TensorFlow operations alone.

  Equal to google-research/bert's `FullTokenizer`, which is the tokenizer of its checkpoints:
  invalid UTF-8 and control characters are dropped, accents stripped where `lower_case`, CJK and
  punctuation stand alone, and a word is its longest-match-first pieces, or one [UNK]. A special
  token written in a text is text. The one difference: characters that Unicode 14 and later added
  may be lower-cased or split otherwise: ICU, RE2 and Python have Unicode tables of their own.

  `tf_text.FastBertTokenizer(lower_case_nfd_strip_accents=True)` is not the reference's: it folds
  compatibility characters (½ to 1⁄2, ™ to tm, ß to ss) and puts a space for a control character.

  Works in eager code, in `tf.data` maps and in exported functions: it holds no file and no table.
  A program that loads such an export must import `tensorflow_text` first.

    tokenizer = Tokenizer(vocabulary, lower_case=True)
    ids = tokenizer.encode(titles, max_length=64)

  Args:
    vocabulary: the word pieces, in the order of their ids.
    lower_case: whether the checkpoint is uncased: lower-case the text and strip its accents.

  Raises:
    InputError: a special token is missing from the vocabulary, or an entry occurs twice.
  """

  def __init__(self, vocabulary: Sequence[str], lower_case: bool):
    super().__init__(name='tokenizer')
    ids = word_ids(vocabulary)
    self.vocabulary = tuple(vocabulary)
    self.lower_case = lower_case
    self.pad_id, self.unknown_id, self.start_id, self.end_id = (
      ids[token] for token in SPECIAL_TOKENS
    )
    content = f'{lower_case}\n' + '\n'.join(self.vocabulary)
    self.digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    # A word holds no whitespace; the operation would match an entry that does across words.
    reachable = [p if p.split() == [p] else f'[whitespace-{i}]' for i, p in enumerate(vocabulary)]
    self._wordpiece = tf_text.FastWordpieceTokenizer(
      reachable,
      max_bytes_per_word=4 * MAX_WORD_CHARACTERS,  # never reached: `pieces` counts characters
      token_out_type=tf.int32,
    )

  def word_pieces(self) -> WordPieces:
    """Word pieces split without TensorFlow, by the same rules."""
    return WordPieces(self.vocabulary, self.lower_case)

  def unlike(self, texts: Sequence[str]) -> Iterator[str]:
    """Yields the texts that `word_pieces` splits differently."""
    without = self.word_pieces()
    for start in range(0, len(texts), 1024):
      batch = texts[start : start + 1024]
      found = self.pieces(tf.constant(batch)).to_list()
      yield from (t for t, a, b in zip(batch, found, without.pieces(batch), strict=True) if a != b)

  def pieces(self, texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the texts' word pieces, without special tokens.

    Args:
      texts: UTF-8 strings [batch].

    Returns:
      Word ids, int32 [batch, (pieces)].
    """
    texts = _normalized(tf.convert_to_tensor(texts, tf.string), self.lower_case)
    long_run = tf.strings.regex_full_match(texts, rf'(?s).*{_LONG_RUN}.*')
    texts = tf.cond(tf.reduce_any(long_run), lambda: _hide_long_words(texts), lambda: texts)
    return self._wordpiece.tokenize(texts)

  def encode(self, texts: tf.Tensor, max_length: int) -> tf.RaggedTensor:
    """Returns `[CLS] pieces [SEP]`, with the first `max_length - 2` pieces of each text.

    Args:
      texts: UTF-8 strings [batch].
      max_length: most tokens in a row, special tokens included; 2 or more.

    Returns:
      Word ids, int32 [batch, (tokens)].
    """
    kept = self.pieces(texts)[:, : max_length - 2]
    return tf_text.combine_segments([kept], self.start_id, self.end_id)[0]


def words(texts: tf.Tensor, lower_case: bool) -> tf.RaggedTensor:
  """Returns the words that a `Tokenizer` cuts into pieces: UTF-8 strings, [batch, (words)].

  Args:
    texts: UTF-8 strings [batch].
    lower_case: As for `Tokenizer`.
  """
  return tf.strings.split(_apart(_normalized(tf.convert_to_tensor(texts, tf.string), lower_case)))


def _normalized(texts: tf.Tensor, lower_case: bool) -> tf.Tensor:
  """Cleans the texts as the reference does, up to what the word-piece operation does itself."""
  texts = tf.strings.unicode_transcode(texts, 'UTF-8', 'UTF-8', errors='ignore')
  texts = tf.strings.regex_replace(texts, _REMOVED, '')
  if lower_case:
    texts = tf_text.normalize_utf8(tf.strings.lower(texts, 'utf-8'), 'NFD')
    texts = tf.strings.regex_replace(texts, _ACCENTS, '')
  return texts


def _apart(texts: tf.Tensor) -> tf.Tensor:
  """Puts single spaces between words, punctuation and CJK characters among them."""
  texts = tf.strings.regex_replace(texts, _STAND_ALONE, r' \1 ')
  return tf.strings.regex_replace(texts, _SPACES, ' ')


def _hide_long_words(texts: tf.Tensor) -> tf.Tensor:
  """Puts an unknown character for each word of more than 200 characters."""
  return tf.strings.regex_replace(_apart(texts), _LONG_RUN, _UNKNOWN_WORD)
