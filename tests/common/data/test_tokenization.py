"""Tokenizer: equal to BERT's own tokenizer, truncation, errors, tf.data and export."""

import random
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
import tokenizers
from official.nlp.tools import tokenization as bert

from common.data.tokenization import Tokenizer
from common.data.word_pieces import WordPieces

SPECIAL = ['[PAD]', '[UNK]', '[CLS]', '[SEP]']
WORDS = 'the black shoe cafe Cafe Café naive strasse straße ss σας σασ un ½ ™ 3 4 12 a b c'.split()
PIECES = '##s ##aff ##able ##a ##b ##c ##é ##2 ##ß ##σ ##ς ##\u0301'.split()
MARKS = '中 文 , . / - [ ] # $ ’ 😀 cls sep unk e é ñ n'.split()
VOCABULARY = SPECIAL + WORDS + PIECES + MARKS

TEXTS = {
  'empty': '',
  'whitespace only': ' \t\n\r \u00a0\u3000\u2028',
  'tabs, newlines, NBSP': 'the\tblack\nshoe\r\nthe\u00a0black\u3000shoe\u2028the\u2029black',
  'word pieces': 'unaffable shoes unknown',
  'accents': 'Café CAFÉ naïve ñ Ñ cafés',
  'combining marks': 'Cafe\u0301 a\u0301 \u0301 a\u20ddb un\u0345',
  'compatibility characters': '½ ™ shoe™ ﬁ ² ºC Ｋ',
  'sharp s': 'Straße strasse STRASSE ẞ aß',
  'final sigma': "ΣΑΣ ΣΑΣ. ΣΑΣ'Α ΣΑ\u200bΣ\u0301 Σ ΣΑΣΑ aΣ中",
  'dotted I': 'İ I ı i',
  'CJK': 'the中文shoe 豈 한국 カナ 𠀀a',
  'punctuation': "shoe,the.black/3-4 $12 black’s ‘the’ a_b a+b '' …",
  'numbers': '3/4 12 3.4 3,412 ٣',
  'control characters': 'sh\x00oe s\x01h\x7foe \x85b \x0b\x0c\x1ca',
  'zero width': 'sh\u200boe sh\u200doe \ufeffthe sh\u00adoe',
  'replacement character': 'sh\ufffdoe \ufffd',
  'emoji': '😀 😀😀 a😀 👍🏽 👩\u200d👩',
  'special tokens': '[CLS] the [SEP] [PAD][UNK] ##aff #a',
  'noncharacter': 'a\ufdd0b \ufdd0',
  'long words': ' '.join(['a' * 200, 'a' * 201, 'é' * 200, 'é' * 201, 'a\u0301' * 150]),
  'long and delimited': 'b-' + 'a' * 201 + ',' + 'a' * 200 + '中' + 'a' * 201 + '\u00a0the',
  'long without spaces': 'a,' * 150 + '中文' * 150,
}


class Reference:
  """google-research/bert's tokenizer, with its own limit of 200 characters a word."""

  def __init__(self, lower_case: bool):
    self.ids = {piece: index for index, piece in enumerate(VOCABULARY)}
    self.basic = bert.BasicTokenizer(lower_case)
    self.wordpiece = bert.WordpieceTokenizer(self.ids, max_input_chars_per_word=200)

  def __call__(self, text: str | bytes) -> list[int]:
    words = self.basic.tokenize(text)
    return [self.ids[piece] for word in words for piece in self.wordpiece.tokenize(word)]


@pytest.fixture(scope='module', params=[True, False], ids=['uncased', 'cased'])
def tokenizer(request):
  return Tokenizer(VOCABULARY, lower_case=request.param)


@pytest.fixture(scope='module')
def uncased():
  return Tokenizer(VOCABULARY, lower_case=True)


@pytest.fixture(name='pieces', params=['TensorFlow', 'tokenizers', 'file'])
def _pieces(request, tokenizer, tmp_path):
  """Texts to word ids, a list of lists, by each of the tokenizers."""
  if request.param == 'tokenizers':
    return tokenizer.word_pieces().pieces
  if request.param == 'file':
    return of_file(tokenizer, tmp_path / 'tokenizer.json')
  return lambda texts: tokenizer.pieces(tf.constant(texts)).to_list()


def of_file(tokenizer, path):
  """Texts to word ids, by a file for `tokenizers`."""
  tokenizer.word_pieces().save_tokenizer(str(path), 2**20)
  own = tokenizers.Tokenizer.from_file(str(path))

  def pieces(texts):
    texts = [t.decode('utf-8', 'ignore') if isinstance(t, bytes) else t for t in texts]
    found = own.encode_batch(texts, add_special_tokens=False)
    return [np.compress(one.attention_mask, one.ids).tolist() for one in found]

  return pieces


def words(ids):
  return ' '.join(VOCABULARY[index] for index in ids)


def random_text(random_state: random.Random) -> str:
  """A text of words, odd characters and any character that every Unicode table knows."""
  known = unicodedata.ucd_3_2_0
  parts = []
  for _ in range(random_state.randrange(25)):
    kind = random_state.random()
    if kind < 0.4:
      parts.append(random_state.choice(VOCABULARY).removeprefix('##'))
    elif kind < 0.6:
      parts.append(random_state.choice("   \t.,/'-_"))
    elif kind < 0.8:
      parts.append(random_state.choice(''.join(TEXTS.values())))
    elif kind < 0.85:
      parts.append(random_state.choice('abé') * random_state.choice((99, 101, 200)))
    else:
      character = chr(random_state.randrange(0xD800 if kind < 0.95 else 0x20000))
      parts.append(character if known.category(character) not in ('Cn', 'Cs') else ' ')
  return ''.join(parts)


class TestPieces:
  def test_by_hand(self, uncased):
    pieces = uncased.pieces(tf.constant(['The unaffable Café, 3/4 zzz', '']))
    assert words(pieces[0].numpy()) == 'the un ##aff ##able cafe , 3 / 4 [UNK]'
    assert pieces[1].shape == (0,)
    assert pieces.dtype == tf.int32

  @pytest.mark.parametrize('text', TEXTS.values(), ids=TEXTS.keys())
  def test_equals_reference(self, tokenizer, pieces, text):
    expected = [Reference(tokenizer.lower_case)(text), [VOCABULARY.index('the')]]
    assert pieces([text, 'the']) == expected

  def test_fuzz_equals_reference(self, tokenizer, pieces):
    random_state = random.Random(20)
    texts = [random_text(random_state) for _ in range(500)]
    reference = Reference(tokenizer.lower_case)
    for text, found in zip(texts, pieces(texts), strict=True):
      assert found == reference(text), ascii(text)

  def test_word_pieces_of_every_character_are_the_graphs(self, tokenizer, tmp_path):
    newest = unicodedata.unidata_version == '14.0.0'  # as all three tables know it
    known = unicodedata if newest else unicodedata.ucd_3_2_0
    codes = (chr(code) for code in range(0x110000))
    characters = [c for c in codes if known.category(c) not in ('Cs', 'Cn')]
    texts = [f'a{character}b' for character in characters]
    of_graph = tokenizer.pieces(tf.constant(texts)).to_list()
    of_words = tokenizer.word_pieces().pieces(texts)
    assert of_file(tokenizer, tmp_path / 'tokenizer.json')(texts) == of_words
    different = [c for c, a, b in zip(characters, of_graph, of_words, strict=True) if a != b]
    ahom = ['\U0001171e'] if newest and tokenizer.lower_case else []  # a vowel sign
    assert different == ahom

  def test_invalid_utf8_equals_reference(self, tokenizer, pieces):
    random_state = random.Random(21)
    texts = [b'sh\xffoe \xe4\xb8 \xed\xa0\x80the', b'\xc3', b'\xf0\x9f\x98']
    for _ in range(200):
      text = bytearray(random_text(random_state).encode() + b' the')
      for _ in range(4):
        text[random_state.randrange(len(text))] = random_state.randrange(0x80, 0x100)
      texts.append(bytes(text))
    reference = Reference(tokenizer.lower_case)
    known = unicodedata.ucd_3_2_0
    compared = 0
    for text, found in zip(texts, pieces(texts), strict=True):
      if all(known.category(character) != 'Cn' for character in text.decode('utf-8', 'ignore')):
        assert found == reference(text), text
        compared += 1
    assert compared > 150

  def test_no_texts(self, uncased):
    assert uncased.pieces(tf.constant([], tf.string)).to_list() == []
    assert uncased.encode(tf.constant([], tf.string), 8).to_list() == []


class TestEncode:
  def test_word_pieces_encode_the_same_and_are_kept(self, tokenizer, tmp_path):
    path = str(tmp_path / 'pieces.json')
    tokenizer.word_pieces().save(path)
    texts = ['the black shoe', 'Café', '']
    expected = tokenizer.encode(tf.constant(texts), 4).to_list()
    assert [ids.tolist() for ids in WordPieces.load(path).encode(texts, 4)] == expected
    tokenizer.word_pieces().save_tokenizer(path, 4)
    found = tokenizers.Tokenizer.from_file(path).encode_batch(texts)
    padded = tokenizer.encode(tf.constant(texts), 4).to_tensor(tokenizer.pad_id)
    np.testing.assert_array_equal([one.ids for one in found], padded)

  def test_of_a_long_text_what_is_kept_is_split(self, tokenizer, monkeypatch):
    rng, pieces = random.Random(0), tokenizer.word_pieces()
    few = ['x' * 250, ' ' * 200 + 'the', '\u200b ' * 90]  # characters that give few pieces, or none
    texts = [' '.join(rng.choices([*TEXTS.values(), *few], k=30)) for _ in range(40)]
    whole = pieces.pieces(texts)
    for most in (0, 1, 7, 40):
      found = pieces.encode([text.encode() for text in texts], most + 2)
      assert [ids.tolist()[1:-1] for ids in found] == [ids[:most] for ids in whole]
    split, lengths = pieces._split, []
    monkeypatch.setattr(
      pieces, '_split', lambda some: lengths.extend(map(len, some)) or split(some)
    )
    pieces.encode(['the black shoe ' * 100_000], 128)
    assert max(lengths) <= 16 * 126

  def test_keeps_the_first_pieces(self, uncased):
    texts = tf.constant(['the black shoe', 'the', ''])
    rows = [words(row) for row in uncased.encode(texts, 4).to_list()]
    assert rows == ['[CLS] the black [SEP]', '[CLS] the [SEP]', '[CLS] [SEP]']
    assert uncased.encode(texts, 4).dtype == tf.int32
    assert uncased.encode(texts, 2).to_list() == [[uncased.start_id, uncased.end_id]] * 3


class TestVocabulary:
  def test_attributes(self, uncased):
    assert uncased.vocabulary == tuple(VOCABULARY)
    ids = (uncased.pad_id, uncased.unknown_id, uncased.start_id, uncased.end_id)
    assert ids == (0, 1, 2, 3)

  @pytest.mark.parametrize('token', SPECIAL)
  def test_missing_special_token(self, token):
    vocabulary = [piece for piece in VOCABULARY if piece != token]
    with pytest.raises(ValueError, match='lacks ' + token.replace('[', r'\[') + ';') as error:
      Tokenizer(vocabulary, lower_case=True)
    assert '\n' not in str(error.value)

  def test_duplicate(self):
    with pytest.raises(ValueError, match="'the' is both entry 4 and entry"):
      Tokenizer([*VOCABULARY, 'the'], lower_case=True)

  @pytest.mark.parametrize('entry', ['\u2028', ' ', '', 'a b'])
  def test_entry_with_whitespace_matches_no_text(self, entry):
    tokenizer = Tokenizer([*VOCABULARY, entry], lower_case=True)
    pieces = tokenizer.pieces(tf.constant([f'a b{entry} a\u2028b  the']))
    assert pieces.to_list() == [Reference(lower_case=True)(f'a b{entry} a b the')]


def test_in_tf_data(uncased):
  texts = tf.data.Dataset.from_tensor_slices(['the', 'a b the shoe', 'a' * 300])
  batches = texts.batch(2).map(lambda batch: uncased.encode(batch, 5))
  rows = [words(row) for ids in batches for row in ids.to_list()]
  assert rows == ['[CLS] the [SEP]', '[CLS] a b the [SEP]', '[CLS] [UNK] [SEP]']


RELOAD = """
import sys
import numpy as np, tensorflow as tf, tensorflow_text
folder, *names = sys.argv[1:]
texts = np.load(f'{folder}/texts.npy', allow_pickle=False)
for name in names:
  loaded = tf.saved_model.load(f'{folder}/{name}')
  np.save(f'{folder}/{name}.npy', loaded.encode(tf.constant(texts)).numpy())
"""


def encoding_module(lower_case):
  module = tf.Module()
  module.tokenizer = Tokenizer(VOCABULARY, lower_case)
  module.encode = tf.function(
    lambda texts: module.tokenizer.encode(texts, 32).to_tensor(module.tokenizer.pad_id),
    input_signature=[tf.TensorSpec([None], tf.string)],
  )
  return module


def test_exported_and_reloaded_in_another_process(python, tmp_path):
  texts = np.array([text.replace('\0', '').encode() for text in TEXTS.values()])
  np.save(tmp_path / 'texts.npy', texts)
  expected = {}
  for name, lower_case in (('uncased', True), ('cased', False)):
    module = encoding_module(lower_case)
    tf.saved_model.save(module, str(tmp_path / 'first'))
    (tmp_path / 'first').rename(tmp_path / name)
    expected[name] = module.encode(tf.constant(texts)).numpy()
  done = python('-c', RELOAD, str(tmp_path), *expected)
  assert done.returncode == 0, done.stderr[-3000:]
  for name, ids in expected.items():
    np.testing.assert_array_equal(np.load(tmp_path / f'{name}.npy'), ids)
