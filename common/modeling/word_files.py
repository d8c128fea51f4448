"""A checkpoint's word pieces, in `vocab.txt` or `tokenizer.json`, and its letter case.

A tokenizer that splits texts otherwise than BERT's is refused.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from common import schema
from common.data.word_pieces import word_ids
from common.errors import InputError
from common.modeling.checkpoint_files import content, located, read_json

WORDS, TOKENIZER, SETTINGS = 'vocab.txt', 'tokenizer.json', 'tokenizer_config.json'
_SPLITS = {  # settings that BERT's tokenizer has; the last two are of Japanese ones
  'tokenize_chinese_chars': True,
  'do_basic_tokenize': True,
  'word_tokenizer_type': 'basic',
  'subword_tokenizer_type': 'wordpiece',
}
_PARTS: dict[str, dict[str, Any]] = {  # the same, in a `tokenizer.json`
  'model': {'type': 'WordPiece', 'unk_token': '[UNK]', 'continuing_subword_prefix': '##'},
  'normalizer': {'type': 'BertNormalizer', 'clean_text': True, 'handle_chinese_chars': True},
  'pre_tokenizer': {'type': 'BertPreTokenizer'},
}


class Words(NamedTuple):
  """Word pieces of a folder.

  Attributes:
    file: Name of the file that has them.
    vocabulary: In the order of their ids.
    lower_case: Whether texts are lower-cased before they are split.
  """

  file: str
  vocabulary: tuple[str, ...]
  lower_case: bool


def written(vocabulary: Sequence[str]) -> bytes:
  """Contents of `vocab.txt`: a word piece a line."""
  return ('\n'.join(vocabulary) + '\n').encode()


def read(folder: str, files: Collection[str]) -> Words:
  """The word pieces of a folder that has these files.

  Raises:
    InputError: There are none, or texts are split otherwise than by BERT's tokenizer.
  """
  file = next((name for name in (WORDS, TOKENIZER) if name in files), None)
  if file is None:
    raise InputError(f'no {WORDS}, nor {TOKENIZER}')
  with located(file):
    if file == WORDS:
      vocabulary, lower_case = _lines(content(folder, file))
    else:
      vocabulary, lower_case = _entries(read_json(folder, file))
    word_ids(vocabulary)
  with located(SETTINGS):
    settings = read_json(folder, SETTINGS) if SETTINGS in files else {}
  if settings.get('do_lower_case') is None and file != TOKENIZER and TOKENIZER in files:
    with located(TOKENIZER):
      lower_case = _normalizes_case(read_json(folder, TOKENIZER), lower_case)
  with located(SETTINGS):
    lower_case = _lower_case(settings, lower_case)
  return Words(file, vocabulary, lower_case)


def _lines(words: bytes) -> tuple[tuple[str, ...], bool]:
  """The words of a `vocab.txt`; lower-cased where none has a capital."""
  lines = words.decode().removesuffix('\n').split('\n')  # other line separators may be words
  vocabulary = tuple(line.removesuffix('\r') for line in lines)
  plain = (word for word in vocabulary if not re.fullmatch(r'\[.+\]|<.+>', word))
  return vocabulary, not any(re.search('[A-Z]', word) for word in plain)


def _entries(fields: dict[str, Any]) -> tuple[tuple[str, ...], bool]:
  """The words of a `tokenizer.json`, whose ids must have no gaps; and whether it lower-cases."""
  try:
    for part, expected in _PARTS.items():
      schema.check(fields.get(part), {}, part)
      for name, value in expected.items():
        if (found := fields[part].get(name)) != value:
          raise InputError(f'{part}.{name}={found!r} is not supported; {value!r} is')
    ids = fields['model'].get('vocab')
    schema.check(fields['normalizer'], {'lowercase': bool}, 'normalizer')
    schema.check(ids, {}, 'model.vocab')
    schema.check(list(ids.values()), list[int], 'ids of model.vocab')
  except ValueError as error:
    raise InputError(str(error)) from error
  lower_case = _normalizes_case(fields, False)
  words = sorted(ids, key=ids.__getitem__)
  if [ids[word] for word in words] != list(range(len(words))):
    raise InputError('model.vocab: its ids are not 0, 1, 2 and so on, each once')
  return tuple(words), lower_case


def _normalizes_case(fields: dict[str, Any], guess: bool) -> bool:
  """Whether the normalizer of a `tokenizer.json` lower-cases; where it does not say, a guess."""
  normalizer = fields.get('normalizer')
  if not isinstance(normalizer, dict) or not isinstance(found := normalizer.get('lowercase'), bool):
    return guess
  if (strip := normalizer.get('strip_accents')) not in (found, None):
    raise InputError(f'strip_accents={strip!r} beside lowercase={found} is not supported')
  return found


def _lower_case(settings: dict[str, Any], guess: bool) -> bool:
  """Whether a tokenizer lower-cases, by its `tokenizer_config.json`, else by a guess."""
  found = settings.get('do_lower_case')
  lower = guess if found is None else bool(found)
  for name, value in {'strip_accents': lower, **_SPLITS}.items():
    if settings.get(name) not in (value, None):
      beside = f' beside do_lower_case={lower}' if name == 'strip_accents' else ''
      raise InputError(f'{name}={settings[name]!r}{beside} is not supported; {value!r} is')
  return lower
