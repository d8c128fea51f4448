"""Documents of files and tables; which are held out; a vocabulary learnt from them."""

import gzip

import numpy as np
import pytest
import tensorflow as tf

from common.data import tokenization
from common.data.texts import hash64
from common.data.tokenization import Tokenizer
from common.errors import InputError
from common.pretrain import corpus, vocabulary
from common.pretrain.corpus import CorpusConfig

TEXT = 'one\n two, \n\n\n\nthree\x85four\r\nfive'


@pytest.mark.parametrize(
  ('documents', 'expected'),
  [
    ('lines', [('one',), ('two,',), ('three\x85four',), ('five',)]),
    ('blocks', [('one', 'two,'), ('three\x85four', 'five')]),
  ],
)
def test_a_document_is_a_line_or_a_block_of_lines(tmp_path, documents, expected):
  for name, opened in (('a.txt', open), ('b.txt.gz', gzip.open)):
    with opened(tmp_path / name, 'wb') as file:
      file.write(TEXT.encode())
  config = CorpusConfig(input_files=(f'{tmp_path}/*',), documents=documents)
  assert list(corpus.documents(config, 0)) == expected * 2


def test_a_cell_of_a_table_is_a_document_and_its_lines_are_passages(tmp_path):
  path = tmp_path / 'table.csv'
  path.write_text('id,title,text\n1,red shoes,"first\n\nsecond "\n2, ,x\n')
  config = CorpusConfig(input_files=(str(path),), text_columns=('title', 'text'))
  assert list(corpus.documents(config, 0)) == [('red shoes',), ('first', 'second'), ('x',)]


def test_documents_are_written_once_and_those_of_the_least_hashes_held_out(tmp_path):
  documents = [(f'text {i}', 'b') if i % 2 else (f'text {i}',) for i in [*range(9), 3, 4]]
  counts = corpus.write(lambda: iter(documents), 2, str(tmp_path))
  held_out = sorted(set(documents), key=lambda d: hash64('\n'.join(d)))[:2]
  written = {name: list(corpus.plain(str(tmp_path / f'{name}.txt'))) for name in corpus.SETS}
  assert written['valid'] == [d for d in documents[:9] if d in held_out]
  assert written['train'] == [d for d in documents[:9] if d not in held_out]
  passages = {name: sum(map(len, of)) for name, of in written.items()}
  assert counts == corpus.Counts(11, 2, 2, passages)


def test_what_cannot_be_read_is_refused(tmp_path):
  with pytest.raises(InputError, match='--held_out=3: the texts are 2 different documents'):
    corpus.write(lambda: iter([('a',), ('b',), ('a',)]), 3, str(tmp_path))
  with pytest.raises(InputError, match='no file has such a name'):
    CorpusConfig(input_files=(f'{tmp_path}/*.txt',)).paths()
  with pytest.raises(InputError, match=f'{tmp_path}: a folder; name its files'):
    CorpusConfig(input_files=(str(tmp_path),)).paths()
  for name in ('docs [2020].txt', 'docs.jsonl', 'docs.csv.gz'):
    (tmp_path / name).touch()
  (path,) = CorpusConfig(input_files=(f'{tmp_path}/docs [2020].txt',)).paths()  # no pattern
  assert path.endswith('docs [2020].txt')
  for name in ('docs.jsonl', 'docs.c*'):
    with pytest.raises(InputError, match='a table; name its --text_columns'):
      CorpusConfig(input_files=(f'{tmp_path}/{name}',)).paths()


@pytest.mark.parametrize(
  ('documents', 'pairs'),
  [
    ([('a', 'b'), ('c', 'd'), ('e', 'f'), ('g', 'h')], True),
    ([('a',), ('b',), ('c', 'd'), ('e', 'f')], None),
    ([('a',), ('b',), ('c',), ('d',)], False),
    ([('a', 'b'), ('c', 'd'), ('e', 'f')], False),  # of two held out one is left
  ],
)
def test_pairs_take_several_documents_and_passages_in_each_set(tmp_path, documents, pairs):
  counts = corpus.write(lambda: iter(documents), 2, str(tmp_path))
  lines = [(tmp_path / f'{name}.txt').read_text().split('\n\n')[:-1] for name in corpus.SETS]
  expected = all(len(of) > 1 and any('\n' in one for one in of) for of in lines)
  assert counts.pairs() == expected and pairs in (None, expected)


def test_words_are_split_as_the_tokenizer_splits_them():
  texts = ['Café-bar™ 2x\u20034\u200b!', 'ΑΣ 中文']
  found = tokenization.words(tf.constant(texts), lower_case=True).to_list()
  words = [[word.decode() for word in row] for row in found]
  assert words == [['cafe', '-', 'bar™', '2x', '4', '!'], ['ας', '中', '文']]
  counts = vocabulary.count([*texts, 'bar bar'], lower_case=True)
  assert counts['bar'] == 2 and counts['cafe'] == 1
  tokenizer = Tokenizer([*vocabulary.SPECIAL, *counts], lower_case=True)
  pieces = tokenizer.pieces(tf.constant(texts)).to_list()
  assert [[tokenizer.vocabulary[i] for i in row] for row in pieces] == words


def test_a_learnt_vocabulary_holds_the_frequent_words_and_every_character():
  counts = {'shoe': 90, 'shoes': 60, 'red': 50, 'blue': 3, 'oxford': 1}
  learnt = vocabulary.learn(counts, 60)
  assert learnt[:5] == list(vocabulary.SPECIAL)
  characters = sorted({character for word in counts for character in word})
  assert learnt[5 : 5 + len(characters)] == characters
  assert {f'##{character}' for character in characters} < set(learnt)
  assert {'shoe', 'shoes', 'red', 'blue'} < set(learnt) and 'oxford' not in learnt
  tokenizer = Tokenizer(learnt, lower_case=True)
  pieces = tokenizer.pieces(tf.constant(['shoes oxford'])).to_list()[0]
  assert tokenizer.unknown_id not in pieces and len(pieces) > 2


def test_a_vocabulary_is_never_larger_than_asked_for():
  rng = np.random.default_rng(0)
  words = {''.join(rng.choice(list('abcd'), 5)): 7 for _ in range(300)}
  for size in (13, 14, 40, 100):
    learnt = vocabulary.learn(words, size)
    assert len(learnt) <= size
    assert {*'abcd', *(f'##{c}' for c in 'abcd'), *vocabulary.SPECIAL} <= set(learnt)
  with pytest.raises(InputError, match='--vocab_size=12: .* are 13 pieces'):
    vocabulary.learn(words, 12)
  with pytest.raises(InputError, match='no word'):
    vocabulary.learn({}, 100)
  with pytest.raises(InputError, match='no word of at most 50 characters'):
    vocabulary.learn({'x' * 60: 5}, 100)


def test_a_vocabulary_has_room_for_many_characters():
  words = {chr(0x4E00 + number): 9 for number in range(1500)}
  assert words.keys() <= set(vocabulary.learn(words, 8000))
