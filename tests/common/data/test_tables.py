"""Rows of tables: what splits lines and cells, compression, encodings; what is refused, where."""

import datetime
import decimal
import gzip
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from pyarrow import csv

from common.data import tables
from common.errors import InputError

# Line ends for `str.splitlines`, and for nobody else.
NO_LINE_ENDS = 'x\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029y'


def rows(path, encoding='utf-8'):
  return [(number, dict(row)) for number, row in tables.rows(str(path), encoding)]


def refused(path, encoding='utf-8') -> str:
  with pytest.raises(InputError) as caught:
    rows(path, encoding)
  assert '\n' not in str(caught.value)
  return str(caught.value)


X_Y, BOTH = [(2, 'x', 'y')], [(2, 'x', 'y'), (3, 'z', '')]
TABLES = [
  ('t.tsv', b'a\tb\nx\ty\nz\t\n', BOTH),
  ('t.csv', b'a,b\nx,y\nz,\n', BOTH),
  ('t.jsonl', b'{"a": "x", "b": "y"}\n{"b": "", "a": "z"}', [(1, 'x', 'y'), (2, 'z', '')]),
  ('t.tsv', b'a\tb\n', []),
  ('t.tsv', b'a\tb\nx\ty', X_Y),
  ('t.tsv', b'a\tb\n"x\t"y""\n', [(2, '"x', '"y""')]),
  ('t.csv', b'a,b\n"x, ""1""",y\n', [(2, 'x, "1"', 'y')]),
  ('t.csv', b'a,b\n"x\n1",y\nz,\n', [(3, 'x\n1', 'y'), (4, 'z', '')]),
  ('t.csv', b'a,b\n\nx,y\n\r\n', [(3, 'x', 'y')]),
  ('t.tsv', b'a\tb\n\nx\ty\n\r\n\n', [(3, 'x', 'y')]),
  ('t.jsonl', b'\n{"a": "x", "b": "y"}\n\r\n', X_Y),
  ('t.tsv', b'a\tb\r\nx\ty\r\n', X_Y),
  ('t.csv', b'a,b\r\nx,y\r\n', X_Y),
  ('t.jsonl', b'{"a": "x", "b": "y"}\r\n', [(1, 'x', 'y')]),
  ('t.tsv', b'\xef\xbb\xbfa\tb\n\xef\xbb\xbfx\ty\n', [(2, '\ufeffx', 'y')]),
  ('t.csv', b'\xef\xbb\xbfa,b\nx,y\n', X_Y, 'utf-8-sig'),
  ('t.jsonl', b'\xef\xbb\xbf{"a": "x", "b": "y"}\n', [(1, 'x', 'y')]),
  ('t.tsv', b'a\tb\nx\x85\ty\xe9\n', [(2, 'x\x85', 'y\xe9')], 'latin-1'),
  ('t.tsv', f'a\tb\n{NO_LINE_ENDS}\ty\n'.encode(), [(2, NO_LINE_ENDS, 'y')]),
  ('t.csv', f'a,b\n{NO_LINE_ENDS},y\n'.encode(), [(2, NO_LINE_ENDS, 'y')]),
  ('t.jsonl', '{"a": "\x85\u2028", "b": "y"}\n'.encode(), [(1, '\x85\u2028', 'y')]),
  (
    't.jsonl',
    b'{"a": 1.5, "b": null}\n{"a": [1, -2.5], "b": true}\n{"a": NaN, "b": "NaN"}\n'
    b'{"a": "\\ud83d\\ude00", "b": "\\u00e9"}',
    [(1, '1.5', ''), (2, '[1, -2.5]', 'true'), (3, '', 'NaN'), (4, '😀', 'é')],
  ),
]


@pytest.mark.parametrize('zipped', [False, True], ids=['plain', 'gz'])
@pytest.mark.parametrize('of', TABLES, ids=str)
def test_rows_by_hand(of, zipped, tmp_path):
  name, content, cells, *encoding = of
  path = tmp_path / (name + '.gz' * zipped)
  path.write_bytes(gzip.compress(content) if zipped else content)
  assert rows(path, *encoding) == [(number, {'a': a, 'b': b}) for number, a, b in cells]


def test_remote_paths_are_read_by_tensorflow():
  with tf.io.gfile.GFile('ram://tables/t.tsv', 'w') as file:
    file.write('a\tb\nx\ty\n')
  assert rows('ram://tables/t.tsv') == [(2, {'a': 'x', 'b': 'y'})]
  assert refused('ram://tables/u.tsv').startswith('ram://tables/u.tsv: cannot be read: ')
  with tf.io.gfile.GFile('ram://tables/t.tsv.gz', 'wb') as file:
    file.write(b'')
  assert refused('ram://tables/t.tsv.gz').endswith(
    'gzip after line 0: it has 0 bytes; copy it anew'
  )


def test_a_parquet_file_has_the_rows_of_a_text_file(tmp_path, monkeypatch):
  path = str(tmp_path / 't.parquet')
  columns = {
    'a': ['x', None],
    'b': [1.5, 2.0],
    'c': [[1, 2], [3]],
    'd': [decimal.Decimal('0.50')] * 2,
    'when': [datetime.date(2020, 1, 1)] * 2,
  }
  pq.write_table(pa.table(columns), path)
  found = rows(path)
  assert found[0] == (1, {'a': 'x', 'b': '1.5', 'c': '[1, 2]', 'd': '0.50'})
  assert found[1] == (2, {'a': '', 'b': '2.0', 'c': '[3]', 'd': '0.50'})
  (_, row), _ = tables.rows(path)
  with pytest.raises(InputError, match=re.escape(f"{path}:1: column 'when' holds no text, number")):
    row['when']
  tf.io.gfile.copy(path, 'ram://t.parquet', overwrite=True)
  read, sizes = tf.io.gfile.GFile.read, []
  monkeypatch.setattr(
    tf.io.gfile.GFile, 'read', lambda file, n=-1: [sizes.append(n), read(file, n)][1]
  )
  assert rows('ram://t.parquet') == found
  assert len(sizes) > 1 and -1 not in sizes  # never the whole file


def test_columns_without_a_name_are_not_read_and_spaces_around_one_do_not_count(tmp_path):
  path = tmp_path / 't.csv'
  path.write_text('a ,b,c, c,,\nx,y,1,2,,\n')
  ((_, row),) = tables.rows(str(path))
  assert [row[name] for name in ('a', 'a ', 'b', 'c', ' c')] == ['x', 'x', 'y', '1', '2']
  assert 'a' in row and 'd' not in row
  with pytest.raises(InputError, match="no column 'd'; it has a , b, c,  c$"):
    row['d']


@pytest.mark.parametrize('name', ['t.csv', 't.jsonl', 't.parquet'])
def test_a_name_that_no_column_has_joins_columns(name, tmp_path):
  cells = {'title': ['shoe', ' ', ''], 'text': ['of leather', 'of cloth', ''], 'title+c': [*'xyz']}
  path, table = tmp_path / name, pa.table(cells | {'c++': [*'123']})
  if name == 't.parquet':
    pq.write_table(table, path)
  elif name == 't.csv':
    csv.write_csv(table, path)
  else:
    path.write_text('\n'.join(map(json.dumps, table.to_pylist())))
  columns = ('title+text', ' text + title+title ', 'title+c', 'c++')
  found = [
    [row[column] for column in columns] for _, row in tables.rows(str(path), columns=columns)
  ]
  assert found == [
    ['shoe of leather', 'of leather shoe shoe', 'x', '1'],
    ['of cloth', 'of cloth', 'y', '2'],  # without the empty ones
    ['', '', 'z', '3'],
  ]
  _, row = next(tables.rows(str(path)))
  assert 'title+text' in row and 'title+d' not in row and 'title+' not in row
  with pytest.raises(InputError, match="no column 'txt'; did you mean 'text'"):
    row['title+txt']
  with pytest.raises(InputError, match="the text in column 'text.title' is empty"):
    tables.text(tables.Row({'text': '', 'title': ' '}, 'here'), 'text+title', 'here')


ERRORS = [
  ('no/such.tsv', None, ': cannot be read: No such file or directory$'),
  ('folder.csv', None, ': cannot be read: Is a directory$'),
  ('t.tsv', b'', ': empty; the first line names the columns'),
  ('t.csv', b'', ': empty; the first line names the columns'),
  ('t.xls', b'a\tb\n', r': unknown kind of file; names end in \.tsv, \.txt, \.csv, \.json'),
  ('t.xlsx', b'PK', r': unknown kind of file; .*\.parquet; save a workbook as CSV UTF-8'),
  ('t.csv', b'PK\x03\x04\n', ': an Excel workbook, or another zip; save it as CSV'),
  ('t.csv', 'a,b\n'.encode('utf-16'), ': UTF-16; convert it: iconv -f utf-16 -t utf-8'),
  ('t.tsv', b'\xfe\xff\0a\n', ': UTF-16; convert it: iconv'),
  ('t.csv', b'a;b\nx,y;z\n', ":1: one column: is it separated by ';'"),
  ('t.csv', b'a\tb\nx\ty\n', ':1: one column: is it separated by tabs'),
  ('t.tsv', b'a\tb\ta\n', ':1: a column is named twice: a$'),
  ('t.tsv', b'a\tb\nx\ty\nz\n', ':3: 1 columns; the header names 2'),
  ('t.csv', b'a,b\nx,y,z\n', ':2: 3 columns; the header names 2'),
  (
    't.tsv',
    b'id\ttext\n1\ta ""b""\n"2 ""x"""\ty\n',
    ":3: column 'id' is quoted as in a CSV; write it without quoting",
  ),
  ('t.csv', b'a,b\nx,y\n"z,w\nv,w\n', ':3: not a CSV row: unexpected end of data'),
  ('t.csv', b'a,b\n"x"y,z\n', ":2: not a CSV row: ',' expected after '\"'"),
  ('t.jsonl', b'{"a": 1}\n{"a": \n', ':2: not JSON: Expecting value'),
  ('t.jsonl', b'{"a": 1}\n[1]\n', ':2: a list; each line holds one object'),
  ('t.jsonl', b'{"a": ' + b'[' * 200_000, ':1: lists or objects nested too deep'),
  (
    't.jsonl',
    b'{"a": 1}\n{"a": "x", "b": 1, "b": 1}\n',
    ":2: not JSON: the key 'b' stands twice in an object",
  ),
  ('t.jsonl', b'{"a": "\\ud83d"}\n', ':1: .*surrogates not allowed'),
  ('t.tsv', b'a\xff\tb\n', ':1: byte 0xff is not utf-8; convert it'),
  ('t.tsv', b'a\tb\nx\ty\nz\t\xe9\n', ':3: byte 0xe9 is not utf-8; .* --encoding where'),
  ('t.tsv.gz', b'', ': damaged gzip after line 0: it has 0 bytes; copy it anew'),
  ('t.jsonl.gz', b'', ': damaged gzip after line 0: it has 0 bytes'),
  ('t.tsv.gz', gzip.compress(b'', mtime=0), ': empty; the first line names the columns'),
  ('t.parquet', b'a\tb\n', ': not a Parquet file, or damaged: '),
  ('t.parquet.gz', b'', r': unknown kind of file; .* \(or \.gz\), \.parquet'),
  ('t.tsv.gz', b'a\tb\n', ': damaged gzip after line 0: Not a gzipped file'),
]


@pytest.mark.parametrize('of', ERRORS, ids=lambda of: repr(of)[:40])
def test_refused_where_it_is(of, tmp_path):
  name, content, message = of
  (tmp_path / 'folder.csv').mkdir()
  if content is not None:
    (tmp_path / name).write_bytes(content)
  assert re.match(re.escape(f'{tmp_path}/{name}') + message, refused(tmp_path / name))


@pytest.mark.parametrize('damage', ['cut', 'changed'])
def test_damaged_gzip_is_refused_after_its_good_lines(damage, tmp_path):
  lines = ''.join(f'{i * 7919 % 10007}\t{i * 104729 % 10007}\n' for i in range(20_000))
  packed = bytearray(gzip.compress(b'a\tb\n' + lines.encode()))
  path, middle = tmp_path / 't.tsv.gz', len(packed) // 2
  if damage == 'changed':
    packed[middle : middle + 8] = b'\xff' * 8
  path.write_bytes(packed[:middle] if damage == 'cut' else packed)
  match = re.match(
    re.escape(str(path)) + r': damaged gzip after line (\d+): .*; copy', refused(path)
  )
  assert 1_000 < int(match[1]) <= 20_001


@pytest.mark.parametrize(
  ('name', 'content', 'where'),
  [
    ('t.tsv', b'title\trelevance\nx\ty\n', ':1'),
    ('t.jsonl', b'{"title": 1, "relevance": 2}\n', ':1'),
  ],
)
@pytest.mark.parametrize(
  ('column', 'hint'),
  [
    ('relevence', "did you mean 'relevance'? It has title, relevance"),
    ('score', 'it has title, relevance'),
  ],
)
def test_missing_column_is_named_with_the_nearest(name, content, where, column, hint, tmp_path):
  (tmp_path / name).write_bytes(content)
  ((_, row),) = tables.rows(str(tmp_path / name))
  with pytest.raises(InputError) as caught:
    row[column]
  assert str(caught.value) == f'{tmp_path}/{name}{where}: no column {column!r}; {hint}'
