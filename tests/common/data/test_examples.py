"""Examples of tables: labels, classes, logits and ids by hand; each error with its line."""

import math
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from common.data import examples, memory_tables, tables
from common.data.examples import Example, TableConfig
from common.errors import InputError


def read(tmp_path, content: str, *, name='t.tsv', labels='all', **config) -> list[Example]:
  (tmp_path / name).write_text(content, 'utf-8', newline='')
  config = TableConfig(**config)
  return list(examples.read(str(tmp_path / name), config, labels=labels, scored=labels == 'none'))


def test_rows_are_numbered_and_texts_kept_as_they_are(tmp_path):
  found = read(tmp_path, 'label\tright\tleft\n1\t "b" \ta\n0\td\tc\n')
  assert found == [Example('2', ('a', ' "b" '), 1.0), Example('3', ('c', 'd'), 0.0)]


def test_three_texts_and_ids(tmp_path):
  columns = {'text_columns': ('c', 'a', 'b'), 'id_column': 'key'}
  found = read(tmp_path, 'key\ta\tb\tc\n k1 \t1\t2\t3\n', labels='none', **columns)
  assert found == [Example('k1', ('3', '1', '2'))]


def test_one_column_alone_and_what_is_wrong_with_it(tmp_path):
  path = tmp_path / 't.tsv'
  path.write_text('a\tb\n1\t x \n2\t\n', encoding='utf-8')
  texts = examples.column(str(path), 'b', 'utf-8')
  assert next(texts) == ' x '
  with pytest.raises(InputError, match="t.tsv:3: the text in column 'b' is empty"):
    next(texts)
  path.write_text('a\tb\n', encoding='utf-8')
  with pytest.raises(InputError, match='t.tsv: no rows below the header'):
    list(examples.column(str(path), 'b', 'utf-8'))


def test_a_tsv_that_is_quoted_as_a_csv_is_refused(tmp_path):
  for cell in ('12" pipe', '"so"', '""', '""so""', '"a"" b', '"a" "b"'):
    (found,) = read(tmp_path, f'left\tright\n{cell}\tx\n', labels='none')
    assert found.texts == (cell, 'x')
  for cell in ('"12"" pipe"', '""""', '"the ""best"""'):
    with pytest.raises(InputError, match=r"t.tsv:2: column 'left' is quoted as in a CSV; write it"):
      read(tmp_path, f'left\tright\n{cell}\tx\n', labels='none')


def test_of_parquet_and_arrow_tables_only_the_columns_needed_are_read(tmp_path, monkeypatch):
  columns = {'left ': ['a'], 'vector': [[0.5] * 3], 'right': ['b'], 'label': ['c']}
  path, kinds = str(tmp_path / 't.parquet'), []
  pq.write_table(table := pa.table(columns), path)
  values, plain = tables.values, tables.plain
  monkeypatch.setattr(
    tables, 'values', lambda column: (kinds.append(column.type), values(column))[1]
  )
  monkeypatch.setattr(tables, 'plain', lambda value: (kinds.append(type(value)), plain(value))[1])
  assert list(examples.read(path, TableConfig(), labels='none')) == [Example('1', ('a', 'b'))]
  for of in (table, [{name: cells[0] for name, cells in columns.items()}]):
    ((_, row),) = memory_tables.rows(of, 'train', ['left', 'right'])
    assert row == {'left ': 'a', 'right': 'b'}
    with pytest.raises(
      InputError, match='no column .vectr.; did you mean .vector.. It has left , vector, '
    ):
      row['vectr']
  assert set(kinds) == {pa.string(), str}


@pytest.mark.parametrize(
  ('label', 'expected'), [('1', 0), ('1.5', 0.25), ('2', 0.5), ('3', 1), (' 3.0', 1)]
)
def test_label_range_is_mapped_to_0_and_1(label, expected, tmp_path):
  (found,) = read(tmp_path, f'left\tright\tlabel\na\tb\t{label}\n', label_range=(1.0, 3.0))
  assert found.label == expected


def test_a_binary_label_may_be_true_or_false(tmp_path):
  content = ''.join(
    f'{{"left": "a", "right": "b", "label": {y}}}\n' for y in ('true', '"False "', 1)
  )
  found = read(tmp_path, content, name='t.jsonl', task='binary', label_range=(-1.0, 1.0))
  assert [example.label for example in found] == [1, 0, 1]


def test_classes_are_numbered_in_the_order_of_the_flag(tmp_path):
  content = 'left\tright\tgold \na\tb\tno\nc\td\tyes \ne\tf\tmaybe\n'
  classes = ('yes', 'maybe', 'no')
  config = {'task': 'multiclass', 'classes': classes, 'label_column': 'gold'}
  assert [e.label for e in read(tmp_path, content, **config)] == [2, 0, 1]
  assert TableConfig(**config).outputs == 3
  assert TableConfig().outputs == 1


@pytest.mark.parametrize(
  ('name', 'content', 'expected'),
  [
    ('t.tsv', 'left\tright\tz\na\tb\t-1.5\n', (-1.5,)),
    ('t.tsv', 'left\tright\tz\na\tb\t1 -2 0.5\n', (1, -2, 0.5)),
    ('t.csv', 'left,right,z\na,b,"[1, -2, 0.5]"\n', (1, -2, 0.5)),
    ('t.jsonl', '{"left": "a", "right": "b", "z": -1.5}\n', (-1.5,)),
    ('t.jsonl', '{"left": "a", "right": "b", "z": [1, -2, 0.5]}\n', (1, -2, 0.5)),
  ],
)
def test_teacher_logits(name, content, expected, tmp_path):
  config = {'teacher_logits_column': 'z'}
  if len(expected) > 1:
    config |= {'task': 'multiclass', 'classes': ('x', 'y', 'w')}
  (found,) = read(tmp_path, content, name=name, labels='none', **config)
  assert found == Example(found.id, ('a', 'b'), None, expected)


@pytest.mark.parametrize('labels', ['all', 'none'])
def test_probabilities_become_logits(labels, tmp_path):
  config = {'labels': labels, 'teacher_logits_column': 'p', 'teacher_scores': 'probability'}
  content = 'left\tright\tlabel\tp\n' + ''.join(f'a\tb\t1\t{p}\n' for p in (0.5, 0.75, 0, 1))
  found = [example.teacher_logits for example in read(tmp_path, content, **config)]
  odds = math.log(999_999)
  assert [z for (z,) in found] == pytest.approx([0, math.log(3), -odds, odds])
  config |= {'task': 'multiclass', 'classes': ('x', 'y', 'w')}
  (row,) = read(tmp_path, 'left\tright\tlabel\tp\na\tb\tx\t0.25 0.75 0\n', **config)
  assert row.teacher_logits == pytest.approx((math.log(0.25), math.log(0.75), math.log(1e-6)))


def test_one_logit_beyond_0_and_1_makes_a_column_of_logits(tmp_path):
  content = 'left\tright\tz\na\tb\t0.5\nc\td\t1.5\n'
  found = read(tmp_path, content, labels='none', teacher_logits_column='z')
  assert [example.teacher_logits for example in found] == [(0.5,), (1.5,)]
  content = 'left\tright\tlabel\nc\td\t1\n'
  assert read(tmp_path, content, teacher_logits_column='z')[0].teacher_logits is None


def test_labels_of_a_file_that_need_not_have_them_are_kept(tmp_path):
  rows = 'left\tright\tlabel\na\tb\t2\nc\td\t\ne\tf\t-1\ng\th\t-\n'
  found = {}
  for labels in ('some', 'none'):
    config = {'labels': labels, 'label_range': (1.0, 3.0)}
    found[labels] = [example.label for example in read(tmp_path, rows, **config)]
  assert found == dict.fromkeys(('some', 'none'), [0.5, None, None, None])
  (odd,) = read(tmp_path, 'left\tright\tlabel\na\tb\t4\n', **config)
  assert odd.label is None  # nothing reads it
  with pytest.raises(InputError, match=r'label 4 is outside --label_range=1,3'):
    read(tmp_path, 'left\tright\tlabel\na\tb\t4\n', **config | {'labels': 'some'})


def test_labelled_files_may_lack_the_logits(tmp_path):
  config = {'teacher_logits_column': 'z'}
  (without,) = read(tmp_path, 'left\tright\tlabel\na\tb\t1\n', **config)
  (with_both,) = read(tmp_path, 'left\tright\tlabel\tz\na\tb\t1\t4\n', **config)
  assert (without.teacher_logits, with_both.teacher_logits) == (None, (4.0,))


CLASSES = {'task': 'multiclass', 'classes': ('x', 'y')}
ID, LOGITS = {'id_column': 'key'}, {'teacher_logits_column': 'z'}
PROBABILITIES = {**LOGITS, 'teacher_scores': 'probability'}
ONE, KEYED, SCORED = 'left|right|label\n', 'key|left|right|label\n', 'left|right|label|z\n'
ERRORS = [  # '|' for a tab
  ('lef|right|label\na|b|1', {}, r":1: no column 'left'; did you mean 'lef'\?"),
  ('left|right|lable\na|b|1', {}, r":1: no column 'label'; did you mean 'lable'"),
  (f'{ONE}a|b|1', ID, ":1: no column 'key'"),
  (f'{ONE}a|b|1\nc| |1', {}, ":3: the text in column 'right' is empty"),
  (f'{ONE}a|b|1.1', {}, ':2: label 1.1 is outside --label_range=0,1'),
  (f'{ONE}a|b|0.9', {'label_range': (1.0, 3.0)}, ':2: label 0.9 is outside --label_range=1,3'),
  *(
    (f'{ONE}a|b|{label}', {}, f":2: label '{label}' is not a finite number")
    for label in ('nan', 'inf', 'good', '', '1_0')  # which Python alone reads
  ),
  (f'{ONE}a|b|z', CLASSES, ":2: label 'z' is none of --classes=x,y"),
  (ONE, {}, ': no rows below the header; an empty file is no data set'),
  (f'{ONE}a|b', {}, ':2: 2 columns; the header names 3'),
  (f'{KEYED}k1|a||1', ID, r":2 \(id k1\): the text in column 'right' is empty"),
  (f'{KEYED} |a|b|1', ID, ":2: column 'key' is empty; every row needs an id"),
  (f'{KEYED}k1|a|b|1\nk2|a|b|1\n k1|a|b|1', ID, ":4: id 'k1' also stands at line 2"),
  (f'{SCORED}a|b|x|1 2 3', {**CLASSES, **LOGITS}, ':2: 3 teacher scores; --task needs 2'),
  (f'{SCORED}a|b|1|high', LOGITS, ":2: teacher logit 'high' is not a finite number"),
  (
    f'{SCORED}a|b|1|0\nc|d|1|0.7\ne|f|0|1',
    LOGITS,
    r": column 'z' lies within \[0, 1\], .*; --teacher_scores=probability takes it$",
  ),
  (
    f'{SCORED}a|b|1|0.5\nc|d|1|1.01',
    PROBABILITIES,
    r':3: teacher probability 1.01 is outside \[0, 1\]',
  ),
  (
    f'{SCORED}a|b|x|0.9 0.9',
    {**CLASSES, **PROBABILITIES},
    ':2: teacher probability 0.9 0.9 of classes adds up to 1.8, not to 1, as of a softmax',
  ),
  (
    f'{SCORED}a|b|x|0.5 -0.1',
    {**CLASSES, **PROBABILITIES},
    r':2: teacher probability 0.5 -0.1 is outside \[0, 1\]',
  ),
]


@pytest.mark.parametrize(('content', 'config', 'message'), ERRORS)
def test_refused_in_one_line_with_file_and_line(content, config, message, tmp_path):
  with pytest.raises(InputError) as caught:
    read(tmp_path, content.replace('|', '\t'), **config)
  assert '\n' not in str(caught.value)
  assert re.match(re.escape(f'{tmp_path}/t.tsv') + message, str(caught.value))


@pytest.mark.parametrize(
  ('label', 'config', 'takes'),
  [
    (
      'yes',
      {'task': 'binary'},
      'binary: 0 to 1, true, false; words are --task=multiclass --classes',
    ),
    ('2', {'task': 'binary'}, 'binary: 0 to 1, true, false'),
    ('', {'label_range': (1, 3)}, 'regression: 1 to 3; words are --task=multiclass --classes'),
  ],
)
def test_a_wrong_label_is_told_with_what_its_column_takes(label, config, takes, tmp_path):
  with pytest.raises(InputError) as caught:
    read(tmp_path, f'left\tright\tlabel\na\tb\t{label}\n', **config)
  assert str(caught.value).endswith(f"; column 'label', --task={takes}")


def test_no_rows_of_jsonl_and_missing_logits_column(tmp_path):
  with pytest.raises(InputError, match='t.jsonl: no rows'):
    read(tmp_path, '', name='t.jsonl')
  with pytest.raises(InputError, match=r"t.tsv:1: no column 'z'"):
    read(tmp_path, 'left\tright\na\tb\n', labels='none', teacher_logits_column='z')


@pytest.mark.parametrize(
  ('config', 'message'),
  [
    ({'text_columns': ('a',)}, '--text_columns=a: two or more names are needed'),
    ({'text_columns': ('a', '')}, '--text_columns=a,: two or more names are needed'),
    ({'text_columns': ('a', 'a')}, '--text_columns=a,a: each once'),
    ({'task': 'multiclass', 'classes': ('x', 'y', 'x')}, '--classes=x,y,x: each once'),
    ({'label_range': (1.0, 1.0)}, r'--label_range=\(1.0, 1.0\): two numbers, low,high, are needed'),
    ({'label_range': (0.0, 1.0, 2.0)}, '--label_range=.*: two numbers'),
    ({'label_range': (0.0, float('nan'))}, '--label_range=.*: two numbers'),
    ({'task': 'multiclass', 'classes': ('x', 'y', '')}, '--classes=x,y,: one of them is empty'),
    ({'task': 'multiclass'}, '--classes names two or more labels'),
    ({'task': 'multiclass', 'classes': ('x',)}, '--classes names two or more labels'),
    ({'classes': ('x', 'y')}, '--classes .* only for it'),
    ({'classes': ('x',)}, '--classes .* only for it'),
    ({'encoding': 'utf-16'}, '--encoding=utf-16: bytes must extend ASCII; convert to UTF-8'),
    ({'encoding': 'utf-32-le'}, '--encoding=utf-32-le: bytes must extend ASCII'),
    ({'encoding': 'undefined'}, '--encoding=undefined: .*undefined encoding'),
    ({'encoding': 'utf-7'}, '--encoding=utf-7: bytes must extend ASCII'),
    ({'encoding': 'utf-9'}, '--encoding=utf-9: unknown encoding: utf-9'),
  ],
)
def test_config_is_refused_when_made(config, message):
  with pytest.raises(InputError, match=message) as caught:
    TableConfig(**config)
  assert '\n' not in str(caught.value)
