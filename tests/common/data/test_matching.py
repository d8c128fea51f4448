"""Public matching sets in their published formats, down to pairs by number."""

import gzip
import json

import numpy as np
import pytest
import tensorflow as tf

from common import files
from common.data import matching
from common.errors import InputError


def lines(path, *rows):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(''.join(row + '\n' for row in rows), encoding='utf-8')


def read(path):
  return matching.read(str(path), 'question', 'answer')


def pairs(found, numbers):
  return {(found.query_ids[query], found.passage_ids[passage]) for query, passage in numbers}


def split_of(found):
  numbers = found.splits(0.8, 0.1)
  return {key: matching.SPLITS[n] for key, n in zip(found.query_ids, numbers, strict=True)}


def test_a_table_of_questions_may_be_of_another_encoding(tmp_path):
  (tmp_path / 'qa.tsv').write_text('question\tanswer\nWhy?\tCafé\n', 'latin-1')
  found = matching.read(str(tmp_path), 'question', 'answer', 'latin-1')
  assert found.passages == ['Café']


def test_question_answers(tmp_path):
  lines(
    tmp_path / 'qa.tsv',
    'id\tquestion\tanswer',
    '7\tWhat is gout ?\tA disease.',
    '8\twhat is  GOUT\tOf the joints.',
    '9\tWho?\tA disease.',
  )
  found = read(tmp_path)  # a folder of one table
  assert found.queries == ['What is gout ?', 'Who?']  # alike but for case, spaces, punctuation
  assert found.passages == ['A disease.', 'Of the joints.']
  assert found.positives.tolist() == [[0, 0], [0, 1], [1, 0]]
  assert found.related.shape == (0, 2)
  joined = matching.read(str(tmp_path), 'question', 'question+answer')
  assert joined.passages[-1] == 'Who? A disease.'
  (tmp_path / 'qa.tsv.gz').write_bytes(gzip.compress((tmp_path / 'qa.tsv').read_bytes()))
  with pytest.raises(InputError, match='nor a folder of one table'):
    read(tmp_path)
  (tmp_path / 'qa.tsv').unlink()
  assert read(tmp_path).queries == found.queries


@pytest.mark.parametrize(
  ('query', 'expected'),
  [
    ('What is gout ?', 'what is gout'),
    ("It's a_b, 10.5 mg!", 'it s a_b 10 5 mg'),
    ('दिन', 'दिन'),
    ('दान', 'दान'),
    ('C++', 'c++'),
    ('(c#)', 'c#'),
    ('cafe\u0301', 'caf\xe9'),
    ('?!', '?!'),
  ],
)
def test_queries_are_alike_but_for_case_spaces_and_punctuation(query, expected):
  assert matching.plain(query) == expected


def test_ms_marco(tmp_path):
  lines(tmp_path / 'collection.tsv', '0\tp zero', '1\t"p ""one"""', '2\tp two')
  lines(tmp_path / 'queries.train.tsv', '10\ta', '11\tb', '12\tunjudged')
  lines(tmp_path / 'qrels.train.tsv', '10\t0\t0\t1', '11\t0\t1\t1')
  lines(tmp_path / 'queries.dev.tsv', *(f'{i}\tquery {i}' for i in range(20, 60)), '99\tA!')
  lines(tmp_path / 'qrels.dev.tsv', *(f'{i}\t0\t2\t1' for i in range(20, 60)), '99\t0\t1\t1')
  lines(tmp_path / 'queries.eval.tsv', '70\tnobody may learn from this')
  found = read(tmp_path)
  assert {('10', '0'), ('11', '1'), ('20', '2')} < pairs(found, found.positives)
  assert ('10', '1') in pairs(found, found.positives)  # 99 asks what 10 asks, and is in train
  split = split_of(found)
  assert [split[key] for key in ('10', '11', '12')] == ['train'] * 3
  assert {split[str(i)] for i in range(20, 60)} == {'valid', 'test'}
  assert '70' not in split and '99' not in split


def test_beir(tmp_path):
  documents = [
    {'_id': 'd1', 'title': 'T', 'text': 'one'},
    {'_id': 'd2', 'title': '', 'text': 'two'},
  ]
  lines(tmp_path / 'corpus.jsonl', *map(json.dumps, documents))
  lines(
    tmp_path / 'queries.jsonl', *(json.dumps({'_id': f'q{i}', 'text': f'{i}'}) for i in range(4))
  )
  header = 'query-id\tcorpus-id\tscore'
  lines(tmp_path / 'qrels' / 'train.tsv', header, 'q0\td1\t2', 'q0\td2\t0')
  lines(tmp_path / 'qrels' / 'dev.tsv', header, 'q1\td1\t1')
  lines(tmp_path / 'qrels' / 'test.tsv', header, 'q2\td2\t1')
  found = read(tmp_path)
  assert found.passages == ['T one', 'two']
  assert pairs(found, found.positives) == {('q0', 'd1'), ('q1', 'd1'), ('q2', 'd2')}
  splits = {'q0': 'train', 'q1': 'valid', 'q2': 'test', 'q3': 'train'}
  assert split_of(found) == splits
  for name in ('validation.tsv', 'test-v2.tsv'):
    (tmp_path / 'qrels' / 'dev.tsv').rename(tmp_path / 'qrels' / name)
    if name == 'test-v2.tsv':
      break
    assert split_of(read(tmp_path)) == splits
    (tmp_path / 'qrels' / name).rename(tmp_path / 'qrels' / 'dev.tsv')
  with pytest.raises(InputError, match="test-v2.tsv: split 'test-v2'; train, test or one of dev, "):
    read(tmp_path)


def test_folders_in_a_bucket():
  root = 'ram://bucket/matching'  # in memory, by TensorFlow's file systems as gs:// is
  for name, text in {
    'beir/corpus.jsonl': '{"_id": "d", "text": "one"}\n',
    'beir/queries.jsonl': '{"_id": "q", "text": "two"}\n',
    'beir/qrels/test.tsv': 'query-id\tcorpus-id\tscore\nq\td\t1\n',
    'marco/collection.tsv': '2\tone\n',
    'marco/queries.dev.tsv': '1\ttwo\n',
    'marco/qrels.dev.tsv': '1\t0\t2\t1\n',
    'table/qa.tsv': 'question\tanswer\ntwo\tone\n',
  }.items():
    tf.io.gfile.makedirs(f'{root}/{name.rpartition("/")[0]}')
    with files.opened(f'{root}/{name}', 'w') as file:
      file.write(text)
  for folder in ('beir', 'marco', 'table', 'table/qa.tsv'):
    found = read(f'{root}/{folder}')
    assert (found.queries, found.passages, found.positives.tolist()) == (['two'], ['one'], [[0, 0]])


def test_wands(tmp_path):
  header = 'product_id\tproduct_name\tproduct_class\tproduct_description\taverage_rating'
  lines(
    tmp_path / 'product.csv',
    header,
    '0\toak bed\tBeds\t"a ""king"" bed,\nin oak"\t4.5',
    '1\tlamp\tLamps\t\t',
  )
  lines(tmp_path / 'query.csv', 'query_id\tquery\tquery_class', '5\tking bed\tBeds')
  label = ['id\tquery_id\tproduct_id\tlabel', '0\t5\t0\tExact', '1\t5\t1\tPartial']
  lines(tmp_path / 'label.csv', *label)
  found = read(tmp_path)
  assert found.passages == ['oak bed. a "king" bed,\nin oak', 'lamp']
  assert (found.positives.tolist(), found.related.tolist()) == ([[0, 0]], [[0, 1]])
  lines(tmp_path / 'label.csv', *label, '2\t5\t1\tMaybe')
  with pytest.raises(InputError, match="label.csv:4: label 'Maybe'; Exact, Partial or Irrelevant"):
    read(tmp_path)


def test_splits_keep_their_shares_and_their_queries(tmp_path):
  rows = [f'question {i}\tanswer {i}' for i in range(2000)]
  lines(tmp_path / 'a.tsv', 'question\tanswer', *rows)
  first = read(tmp_path).splits(0.8, 0.1)
  np.testing.assert_allclose(np.bincount(first) / 2000, [0.8, 0.1, 0.1], atol=0.03)
  lines(tmp_path / 'a.tsv', 'question\tanswer', 'new\tone', *rows)
  assert read(tmp_path).splits(0.8, 0.1)[1:].tolist() == first.tolist()


def test_what_is_refused(tmp_path):
  with pytest.raises(InputError, match=r'neither MS MARCO \(collection.tsv\), BEIR'):
    read(tmp_path)
  lines(tmp_path / 'a.tsv', 'question\tanswer', 'what?\t ')
  with pytest.raises(InputError, match="a.tsv:2: the text in column 'answer' is empty"):
    read(tmp_path)
  lines(tmp_path / 'collection.tsv', '0\tp')
  with pytest.raises(InputError, match=r'no qrels\.\*\.tsv'):
    read(tmp_path)
  lines(tmp_path / 'qrels.train.tsv', '1\t0\t5\t1')
  lines(tmp_path / 'queries.train.tsv', '1\ta')
  with pytest.raises(InputError, match="qrels.train.tsv:1: no passage of id '5'"):
    read(tmp_path)
