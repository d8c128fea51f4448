"""Units: every row of a file is in one of them; shards appear whole or not at all."""

import datetime
import decimal
import gzip
import json
import os
import pathlib
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from common.errors import InputError
from common.pipelines import parquet, reading, shards, units
from common.pipelines.jobs import FilesConfig
from common.pipelines.shards import Shard
from common.pipelines.units import Unit


def record(**values):
  """A serialized `tf.train.Example` of texts and lists of floats."""
  example = tf.train.Example()
  for name, value in values.items():
    feature = example.features.feature[name]
    if isinstance(value, str):
      feature.bytes_list.value.append(value.encode())
    else:
      feature.float_list.value.extend(value)
  return example.SerializeToString()


def refuse(where, why, row):
  raise AssertionError(f'{where}: {why}: {row}')


def rows(path, unit_bytes=1 << 20, refuse=refuse):
  return [
    dict(row)
    for unit in units.of_files([str(path)], unit_bytes)
    for row in reading.rows(unit, refuse)
  ]


TSV = 'id\ttext\n1\té, "quoted\r\n2\t日本\n3\t\n4\tlast'
TEXTS = ('é, "quoted', '日本', '', 'last')
EXPECTED = [{'id': str(i), 'text': text} for i, text in enumerate(TEXTS, 1)]


@pytest.mark.parametrize('unit_bytes', [1, 2, 3, 7, 8, 11, 19, 1000])
@pytest.mark.parametrize('mark', ['', '\ufeff'])
def test_each_line_is_in_one_unit(tmp_path, unit_bytes, mark):
  (tmp_path / 'a.tsv').write_bytes((mark + TSV).encode())
  assert rows(tmp_path / 'a.tsv', unit_bytes) == EXPECTED
  lines = '\n'.join(json.dumps(row, ensure_ascii=False) for row in EXPECTED)
  (tmp_path / 'a.jsonl').write_bytes((mark + lines + '\n').encode())
  assert rows(tmp_path / 'a.jsonl', unit_bytes) == EXPECTED


@pytest.mark.parametrize('unit_bytes', [1, 4, 1000])
def test_a_blank_line_is_no_row(tmp_path, unit_bytes):
  (tmp_path / 'a.tsv').write_text('id\ttext\n\n1\tx\n\n\n')
  (tmp_path / 'a.jsonl').write_text('{"id": 1, "text": "x"}\n\n')
  for name in ('a.tsv', 'a.jsonl'):
    assert rows(tmp_path / name, unit_bytes) == [{'id': '1', 'text': 'x'}]


def test_whole_files(tmp_path):
  with gzip.open(tmp_path / 'a.tsv.gz', 'wb') as file:
    file.write(TSV.encode())
  assert rows(tmp_path / 'a.tsv.gz', 5) == EXPECTED
  (tmp_path / 'a.csv').write_bytes('id,text\r\n\r\n1,"two\nlines, ""x"""\r\n2,é\r\n'.encode())
  assert rows(tmp_path / 'a.csv', 5) == [
    {'id': '1', 'text': 'two\nlines, "x"'},
    {'id': '2', 'text': 'é'},
  ]
  table = pa.table({'id': [1, 2, 3], 'ids': [['a'], [], None]})
  pq.write_table(table, tmp_path / 'a.parquet', row_group_size=2)
  assert len(units.of_files([str(tmp_path / 'a.parquet')], 5)) == 2
  assert [list(row.values()) for row in rows(tmp_path / 'a.parquet')] == [
    ['1', '["a"]'],
    ['2', '[]'],
    ['3', ''],
  ]
  with tf.io.TFRecordWriter(str(tmp_path / 'a.tfrecord')) as writer:
    writer.write(record(id='7', text='é', label=[0.5], logits=[1.0, 2.0]))
  found = {'id': '7', 'text': 'é', 'label': '0.5', 'logits': '[1.0, 2.0]'}
  assert rows(tmp_path / 'a.tfrecord') == [found]
  example = tf.train.Example()
  example.features.feature['id'].bytes_list.SetInParent()  # of no values
  example.features.feature['text'].SetInParent()  # of no kind
  with tf.io.TFRecordWriter(str(tmp_path / 'empty.tfrecord')) as writer:
    writer.write(example.SerializeToString())
  assert rows(tmp_path / 'empty.tfrecord') == [{'id': '', 'text': ''}]
  assert rows(tmp_path / 'a.*v') == rows(tmp_path / 'a.csv')
  page = 'first, second\n' * 12_000  # more than Python's csv takes by itself
  (tmp_path / 'page.csv').write_text(f'id,text\n1,"{page}"\n')
  assert rows(tmp_path / 'page.csv') == [{'id': '1', 'text': page}]


def test_bad_rows_are_put_aside_with_their_place_and_reason(tmp_path):
  bad = []
  (tmp_path / 'a.tsv').write_bytes(b'id\ttext\n1\ta\tb\n2\t\xff\n3\tok\n')
  deep = '{"id": ' + '[' * 200_000
  (tmp_path / 'b.jsonl').write_text(f'{{"id": 1}}\n[1]\n{{"id"\n{{"id": 1, "id": 2}}\n{deep}\n')
  (tmp_path / 'c.csv').write_text('id,text\n1,2,3\n4,"5\n')
  for name in ('a.tsv', 'b.jsonl', 'c.csv'):
    rows(tmp_path / name, 9, lambda *refused: bad.append(refused))
  assert [(os.path.basename(where), why) for where, why, _ in bad] == [
    ('a.tsv:byte 8', '3 columns; the header names 2'),
    ('a.tsv:byte 14', "'utf-8' codec can't decode byte 0xff in position 2: invalid start byte"),
    ('b.jsonl:byte 10', 'a list; each line holds one object'),
    ('b.jsonl:byte 14', "not JSON: Expecting ':' delimiter: line 1 column 6 (char 5)"),
    ('b.jsonl:byte 20', "not JSON: the key 'id' stands twice in an object"),
    ('b.jsonl:byte 39', 'lists or objects nested too deep'),
    ('c.csv:2', '3 columns; the header names 2'),
    ('c.csv:3', 'unexpected end of data'),
  ]
  assert bad[0][2] == '1\ta\tb'
  (tmp_path / 'd.csv').write_text('id,text\n1,x\n2,"5 inch\n3,y\n')
  with pytest.raises(InputError, match=r'd.csv:3: not a CSV row up to line 4: .*not closed'):
    rows(tmp_path / 'd.csv', 9, lambda *refused: None)


def test_a_row_of_a_tsv_that_is_quoted_as_in_a_csv_is_put_aside(tmp_path):
  (tmp_path / 'a.tsv').write_text('id\ttext\n1\t"12"" pipe"\n"2 ""x"""\tb\n3\t"so"\n')
  bad = []
  found = rows(tmp_path / 'a.tsv', 9, lambda *refused: bad.append(refused))
  assert found == [{'id': '3', 'text': '"so"'}]
  assert [why[:36] for _, why, _ in bad] == [
    "column 'text' is quoted as in a CSV;",
    "column 'id' is quoted as in a CSV; w",
  ]


def test_empty_cells_are_refused_and_columns_are_known(tmp_path):
  (tmp_path / 'a.tsv').write_text(TSV, encoding='utf-8')
  (unit,) = units.of_files([str(tmp_path / 'a.tsv')], 1 << 20)
  bad = []
  found = reading.cells(unit, ('text', 'id'), 2, lambda *r: bad.append(r))
  assert list(found) == [(['é, "quoted', '日本'], ['1', '2']), (['last'], ['4'])]
  assert bad[0][1:] == ("the text in column 'text' is empty", '{"id": "3", "text": ""}')
  with pytest.raises(InputError, match="no column 'txt'; did you mean 'text'"):
    reading.check_columns([unit], ['id', 'txt'])


def test_a_parquet_cell_of_another_kind_puts_its_row_aside(tmp_path):
  when = [datetime.datetime(2024, 1, 1, 12), None]
  nanoseconds = pa.array([1, None], pa.timestamp('ns'))  # as_py refuses them without pandas
  no_text = pa.array([b'\xff', b'ok'])
  columns = {
    'when': pa.array(when),
    'then': nanoseconds,
    'some': pa.array([{'a': b'x'}, None]),
    'raw': no_text,
    'text': pa.Array.from_buffers(pa.string(), 2, no_text.buffers()),
  }
  for name, values in columns.items():
    path = tmp_path / f'{name}.parquet'
    pq.write_table(pa.table({'id': [1, 2], name: values}), path)
    bad = []
    (unit,) = units.of_files([str(path)], 1)
    found = list(reading.cells(unit, ('id', name), 8, lambda *refused: bad.append(refused)))  # noqa: B023
    why = f"column '{name}' holds no text, number or list of such"
    assert bad[0] == (f'{path}:row group 0, row 0', why, '{"id": "1"}')
    assert found == ([(['2'], ['ok'])] if name in ('text', 'raw') else [])


def test_cells_are_read_as_runs_read_them(tmp_path):
  path = tmp_path / 'a.parquet'
  price = pa.array([decimal.Decimal('1.5'), None])
  pq.write_table(pa.table({'text': [b'x', b'\xc3\xa9'], 'price': price}), path)
  assert [dict(row) for row in rows(path)] == [
    {'text': 'x', 'price': '1.5'},
    {'text': 'é', 'price': ''},
  ]
  (tmp_path / 'a.csv').write_bytes(b'left,right\na,"b\rc"\nd,e\rf,g\nh,i\n')
  bad = []
  found = rows(tmp_path / 'a.csv', refuse=lambda *refused: bad.append(refused))
  assert [[*row.values()] for row in found] == [['a', 'b\rc'], ['h', 'i']]
  assert [where for where, *_ in bad] == [f'{tmp_path}/a.csv:3']


def test_of_a_parquet_file_only_the_columns_needed_are_read(tmp_path):
  path = str(tmp_path / 'a.parquet')
  when = [datetime.datetime(2024, 1, 1)] * 3  # refused if it were read
  pq.write_table(pa.table({'id ': [1, 2, 3], 'when': when, 'ids': [['a'], [], None]}), path)
  (unit,) = units.of_files([path], 1)
  reading.check_columns([unit], ['ids', 'id'])
  bad = []
  assert list(reading.cells(unit, ('ids',), 2, lambda *r: bad.append(r))) == [(['["a"]', '[]'],)]
  assert bad == [(f'{path}:row group 0, row 2', "the text in column 'ids' is empty", '{"ids": ""}')]
  joined = list(reading.cells(unit, ('id + ids',), 3, lambda *r: bad.append(r)))
  assert joined == [(['1 ["a"]', '2 []', '3'],)]
  message = "no column 'idd'; did you mean 'ids'. It has id , when, ids"
  with pytest.raises(InputError, match=message):
    reading.check_columns([unit], ['id+idd'])
  bad.clear()
  assert list(reading.cells(unit, ('id', 'idd'), 2, lambda *r: bad.append(r))) == []
  assert bad[2][1:] == (message.replace("'ids'. It", "'ids'? It"), '{"id ": "3"}')
  (found,) = reading.cells(unit, ('id', 'id '), 3, refuse)
  assert found == (['1', '2', '3'], ['1', '2', '3'])


def test_files_are_opened_at_once_and_units_numbered_in_order(tmp_path, monkeypatch):
  for name in 'ab':
    pq.write_table(pa.table({'id': [1, 2, 3]}), tmp_path / f'{name}.parquet', row_group_size=2)
  opened, both = units.open_file, threading.Barrier(2)

  def open_file(path):
    both.wait(60)
    return opened(path)

  monkeypatch.setattr(units, 'open_file', open_file)
  todo = units.of_files([f'{tmp_path}/b.parquet', f'{tmp_path}/a.parquet'], 1)
  assert [unit.number for unit in todo] == [0, 1, 2, 3]
  found = [(os.path.basename(unit.path), unit.start) for unit in todo]
  assert found == [('b.parquet', 0), ('b.parquet', 1), ('a.parquet', 0), ('a.parquet', 1)]
  with pytest.raises(InputError, match="a.parquet: no column 'text'"):
    reading.check_columns(todo, ['text'])


def test_what_cannot_be_read_is_refused(tmp_path):
  with pytest.raises(InputError, match='none.tsv: no such file'):
    units.of_files([f'{tmp_path}/none.tsv'], 1)
  (tmp_path / 'a.zip').write_bytes(b'')
  with pytest.raises(InputError, match='a.zip: unknown kind of file; names end in .tsv'):
    units.of_files([f'{tmp_path}/a.zip'], 1)
  (tmp_path / 'a.parquet.gz').write_bytes(b'PAR1')  # a row group of which would be read
  with pytest.raises(InputError, match='a.parquet.gz: unknown kind of file'):
    units.of_files([f'{tmp_path}/a.parquet.gz'], 1)
  (tmp_path / 'a.jsonl').write_text('{"left": "x"}\n')
  (tmp_path / 'b.jsonl').write_text('{"query": "x"}\n')
  todo = units.of_files([f'{tmp_path}/a.jsonl', f'{tmp_path}/b.jsonl'], 1 << 20)
  with pytest.raises(InputError, match="b.jsonl:byte 0: no column 'left'; it has query"):
    reading.check_columns(todo, ['left'])
  (tmp_path / 'a.tsv').write_bytes(b'')
  with pytest.raises(InputError, match='--input=.*/a.tsv: empty'):
    FilesConfig(input=(f'{tmp_path}/a.tsv',)).units()


def test_patterns_find_files_of_the_working_folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for name in ('a-1.tsv', 'a-2.tsv', 'f1/b.tsv'):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(TSV)
  for pattern, names in {
    'a-*.tsv': ['./a-1.tsv', './a-2.tsv'],
    '*-2.tsv': ['./a-2.tsv'],
    'f?/[b].tsv': ['./f1/b.tsv'],
    'f1/*.tsv': ['f1/b.tsv'],
    'a-1.tsv': ['a-1.tsv'],
  }.items():
    assert [unit.path for unit in units.of_files([pattern], 1000)] == names


def test_a_file_that_two_patterns_match_is_refused(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for name in ('a-1.tsv', 'a-2.tsv'):
    (tmp_path / name).write_text(TSV)
  with pytest.raises(InputError, match='^a-2.tsv: a-2.tsv is named twice in --input$'):
    units.of_files(['a-*.tsv', 'a-2.tsv'], 1000)
  assert len(units.of_files(['a-1.tsv', 'a-2.tsv'], 1000)) == 2


@pytest.mark.parametrize('name', ['a.tsv.gz', 'a.csv.gz', 'a.jsonl.gz', 'a.tfrecord.gz'])
def test_a_gzip_file_that_ends_in_the_middle_is_refused(name, tmp_path):
  count = 5_000 if 'tfrecord' in name else 20_000
  path, numbers = tmp_path / name, [i * 7919 % 10007 for i in range(count)]
  if 'tfrecord' in name:
    with tf.io.TFRecordWriter(str(path), 'GZIP') as writer:
      for number in numbers:
        writer.write(record(id=f'{number}'))
  else:
    lines = {'tsv': '{}\tx', 'csv': '{},x', 'jsonl': '{{"id": {}}}'}[name.split('.')[1]]
    header = '' if 'jsonl' in name else lines.format('id') + '\n'
    content = header + ''.join(lines.format(number) + '\n' for number in numbers)
    path.write_bytes(gzip.compress(content.encode()))
  whole = path.read_bytes()
  assert [row['id'] for row in rows(path)] == [f'{number}' for number in numbers]
  path.write_bytes(whole[: len(whole) // 2])
  (unit,), found = units.of_files([str(path)], 5), []
  with pytest.raises(InputError) as caught:
    found.extend(row['id'] for row in reading.rows(unit, refuse))
  message = f'{path}: damaged gzip up to byte {len(whole) // 2}: Compressed file ended before'
  assert str(caught.value).startswith(message)
  path.write_bytes(whole[:5])
  with pytest.raises(InputError, match='damaged gzip up to byte 5: '):
    reading.check_columns([unit], ['id'])
  path.write_bytes(b'')
  with pytest.raises(InputError, match=f'{name}: damaged gzip: it has 0 bytes; copy it anew'):
    units.of_files([str(path)], 5)


@pytest.mark.parametrize('name', ['a.tsv', 'a.csv', 'a.parquet'])
def test_a_column_that_is_named_twice_is_refused(name, tmp_path):
  path = tmp_path / name
  where = name if name == 'a.parquet' else f'{name}:1'
  if name == 'a.parquet':
    pq.write_table(pa.table([pa.array(['1']), pa.array(['x'])], ['id', 'id']), path)
  else:
    path.write_text('id\tid\n1\tx\n'.replace('\t', ',' if 'csv' in name else '\t'))
  with pytest.raises(InputError, match=f'{where}: a column is named twice: id$'):
    rows(path)


@pytest.mark.parametrize('name', ['a.parquet', 'a.tfrecord'])
def test_a_file_that_ends_in_the_middle_is_refused(name, tmp_path):
  path, ids = tmp_path / name, [f'{i}' for i in range(100)]
  if name == 'a.parquet':
    pq.write_table(pa.table({'id': ids}), path, write_page_checksum=True)
  else:
    with tf.io.TFRecordWriter(str(path)) as writer:
      for key in ids:
        writer.write(record(id=key))
  content = path.read_bytes()
  for kept in (len(content) // 2, len(content) - 3, 5):
    path.write_bytes(content[:kept])
    with pytest.raises(InputError, match=rf'{name}: damaged \(.*\); copy it anew'):
      rows(path)
  place = content.index(b'77') if name == 'a.tfrecord' else len(content) // 8
  path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
  with pytest.raises(InputError, match=rf'{name}: damaged \(.*\); copy it anew'):
    rows(path)  # by the checksums of records, and of pages


def test_a_shard_that_was_lost_is_not_taken_for_done(tmp_path):
  output = str(tmp_path / 'out')
  shard = Shard(output, Unit(3, 'x'))
  with shard.file('x.txt') as file:
    pathlib.Path(file.path).write_text('whole')
  shard.finish(rows=1, seconds=0.5)
  pathlib.Path(output, 'x.txt').write_text('who')
  mark = f'{output}/done/00003.json'
  message = f'{output}/x.txt: 3 bytes; 5 were written; delete {mark} and run again'
  with pytest.raises(InputError, match=f'^{message}$'):
    shards.marks(output)
  pathlib.Path(mark).write_text(pathlib.Path(mark).read_text().replace('"rows": 1', '"rows": 2'))
  with pytest.raises(InputError, match=f'^{mark}: damaged: not what was written'):
    shards.marks(output)


@pytest.mark.parametrize('name', ['out', 'out [v1]', '[o', '*?'])  # never a pattern
def test_a_shard_is_whole_or_not_there(tmp_path, monkeypatch, name):
  monkeypatch.chdir(tmp_path)
  output = name
  shard = Shard(output, Unit(3, 'x'))
  with pytest.raises(ZeroDivisionError), shard.file('x.txt') as file:
    pathlib.Path(file.path).write_text('half')
    1 / 0  # noqa: B018
  assert not os.path.exists(f'{output}/x.txt')
  assert shards.marks(output) == {}
  with shard.file('x.txt') as file:
    pathlib.Path(file.path).write_text('whole')
  shard.refuse('here', 'so', 'row')
  shard.finish(rows=1, seconds=0.5)
  (mark,) = shards.marks(output).values()
  assert (mark.rows, mark.bad_rows, [of.bytes for of in mark.shards]) == (1, 1, [5, 45])
  assert [(of.name, of.count) for of in mark.shards] == [('x.txt', 0), ('bad/00003.jsonl', 1)]
  bad = {'where': 'here', 'why': 'so', 'row': 'row'}
  assert json.loads(pathlib.Path(output, 'bad/00003.jsonl').read_text()) == bad
  assert sorted(os.listdir(output)) == ['bad', 'done', 'x.txt']


def table(folder, columns, pieces):
  """A table as a job writes it: its rows in Arrow, and the rows of each row group."""
  count = parquet.write(str(folder / 'a.parquet'), columns, pieces)
  file = pq.ParquetFile(folder / 'a.parquet')
  groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
  assert sum(groups) == count
  return file.read(), groups


def test_tables_hold_what_was_written(tmp_path):
  close = np.nextafter(np.float32(0.1), np.float32(1))
  pieces = [(['é', 'b'], [0.5, 1.25], [1, 2]), (['c', 'd'], [np.float32(0.1), close], [3, 4])]
  found, _ = table(tmp_path, {'id': str, 'score': float, 'rank': int}, pieces)
  assert found.column('id').to_pylist() == ['é', 'b', 'c', 'd']
  assert found.column('rank').to_pylist() == [1, 2, 3, 4]
  assert found.column('score').to_numpy().tolist() == [0.5, 1.25, np.float32(0.1), close]
  assert found.schema.field('score').type == pa.float32()


def test_small_pieces_share_a_row_group(tmp_path, monkeypatch):
  monkeypatch.setattr(parquet, '_ROWS', 4)
  monkeypatch.setattr(parquet, '_BYTES', 90)  # of a piece of the long text
  pieces = [([text] * 3, range(3)) for text in ('a', 'b', 'a long text ', 'c')]
  found, groups = table(tmp_path, {'id': str, 'rank': int}, pieces)
  assert groups == [6, 6]
  assert found.column('id').to_pylist()[::3] == ['a', 'b', 'a long text ', 'c']
  _, groups = table(tmp_path, {'id': str, 'rank': int}, [*pieces[2:], *pieces[:1], ([], [])])
  assert groups == [6, 3]
  monkeypatch.setattr(parquet, '_BYTES', 70)
  assert table(tmp_path, {'id': str, 'rank': int}, pieces[2:])[1] == [3, 3]
  assert table(tmp_path, {'id': str, 'rank': int}, [])[1] == []


def test_rows_of_a_store():
  assert units.of_rows('s', 5, 2) == [Unit(0, 's', 0, 2), Unit(1, 's', 2, 4), Unit(2, 's', 4, 5)]


@pytest.mark.parametrize('kind', [pa.string(), pa.int64()])  # as they lie there, and as rows
def test_cells_of_parquet_columns_are_those_of_its_rows(tmp_path, kind):
  left = pa.array(['1', None, '3', '4', '5', '6']).cast(kind)
  table = pa.table({'more': range(6), 'left': left, 'right': ['a', 'b', 'c', '', 'é', 'f']})
  pq.write_table(table, tmp_path / 'a.parquet', row_group_size=4)
  found, why = [], []
  for unit in units.of_files([str(tmp_path / 'a.parquet')], 1):
    for cells in reading.cells(
      unit, ('right', 'left'), 2, lambda *refused: why.append(refused[:2])
    ):
      found.extend(zip(*cells, strict=True))
  assert found == [('a', '1'), ('c', '3'), ('é', '5'), ('f', '6')]
  where = f'{tmp_path}/a.parquet:row group 0, row'
  empty = [
    (f'{where} {i}', f'the text in column {name!r} is empty')
    for i, name in ((1, 'left'), (3, 'right'))
  ]
  assert why == empty


@pytest.mark.parametrize('text', ['  ', '\u3000'])
def test_a_cell_of_spaces_alone_is_as_an_empty_one(text, tmp_path):
  pq.write_table(pa.table({'id': ['1', '2'], 'text': [text, 'a b']}), tmp_path / 'a.parquet')
  (tmp_path / 'a.tsv').write_text(f'id\ttext\n1\t{text}\n2\ta b\n', encoding='utf-8')
  for name in ('a.parquet', 'a.tsv'):
    (unit,), bad = units.of_files([str(tmp_path / name)], 1000), []
    found = reading.cells(unit, ('id', 'text'), 8, lambda *refused: bad.append(refused))  # noqa: B023
    assert list(found) == [(['2'], ['a b'])]
    assert [why for _, why, _ in bad] == ["the text in column 'text' is empty"]
