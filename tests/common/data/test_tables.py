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


TABLES = {
  'tsv': ('t.tsv', b'a\tb\nx\ty\nz\t\n', 'utf-8', [(2, 'x', 'y'), (3, 'z', '')]),
  'csv': ('t.csv', b'a,b\nx,y\nz,\n', 'utf-8', [(2, 'x', 'y'), (3, 'z', '')]),
  'jsonl': (
    't.jsonl',
    b'{"a": "x", "b": "y"}\n{"b": "", "a": "z"}',
    'utf-8',
    [(1, 'x', 'y'), (2, 'z', '')],
  ),
  'header only': ('t.tsv', b'a\tb\n', 'utf-8', []),
  'no last line feed': ('t.tsv', b'a\tb\nx\ty', 'utf-8', [(2, 'x', 'y')]),
  'quotes in a TSV': ('t.tsv', b'a\tb\n"x\t"y""\n', 'utf-8', [(2, '"x', '"y""')]),
  'quotes in a CSV': ('t.csv', b'a,b\n"x, ""1""",y\n', 'utf-8', [(2, 'x, "1"', 'y')]),
  'quoted line feed': ('t.csv', b'a,b\n"x\n1",y\nz,\n', 'utf-8', [(3, 'x\n1', 'y'), (4, 'z', '')]),
  'blank lines in a CSV': ('t.csv', b'a,b\n\nx,y\n\r\n', 'utf-8', [(3, 'x', 'y')]),
  'blank lines in a TSV': ('t.tsv', b'a\tb\n\nx\ty\n\r\n\n', 'utf-8', [(3, 'x', 'y')]),
  'blank lines in a JSONL': (
    't.jsonl',
    b'\n{"a": "x", "b": "y"}\n\r\n',
    'utf-8',
    [(2, 'x', 'y')],
  ),
  'CRLF TSV': ('t.tsv', b'a\tb\r\nx\ty\r\n', 'utf-8', [(2, 'x', 'y')]),
  'CRLF CSV': ('t.csv', b'a,b\r\nx,y\r\n', 'utf-8', [(2, 'x', 'y')]),
  'CRLF JSONL': ('t.jsonl', b'{"a": "x", "b": "y"}\r\n', 'utf-8', [(1, 'x', 'y')]),
  'BOM': ('t.tsv', b'\xef\xbb\xbfa\tb\n\xef\xbb\xbfx\ty\n', 'utf-8', [(2, '\ufeffx', 'y')]),
  'BOM, utf-8-sig': ('t.csv', b'\xef\xbb\xbfa,b\nx,y\n', 'utf-8-sig', [(2, 'x', 'y')]),
  'BOM JSONL': ('t.jsonl', b'\xef\xbb\xbf{"a": "x", "b": "y"}\n', 'utf-8', [(1, 'x', 'y')]),
  'byte 0x85': ('t.tsv', b'a\tb\nx\x85\ty\xe9\n', 'latin-1', [(2, 'x\x85', 'y\xe9')]),
  'TSV, odd characters': (
    't.tsv',
    f'a\tb\n{NO_LINE_ENDS}\ty\n'.encode(),
    'utf-8',
    [(2, NO_LINE_ENDS, 'y')],
  ),
  'CSV, odd characters': (
    't.csv',
    f'a,b\n{NO_LINE_ENDS},y\n'.encode(),
    'utf-8',
    [(2, NO_LINE_ENDS, 'y')],
  ),
  'JSONL, odd characters': (
    't.jsonl',
    '{"a": "\x85\u2028", "b": "y"}\n'.encode(),
    'utf-8',
    [(1, '\x85\u2028', 'y')],
  ),
  'JSON values': (
    't.jsonl',
    b'{"a": 1.5, "b": null}\n{"a": [1, -2.5], "b": true}\n{"a": NaN, "b": "NaN"}\n'
    b'{"a": "\\ud83d\\ude00", "b": "\\u00e9"}',
    'utf-8',
    [(1, '1.5', ''), (2, '[1, -2.5]', 'true'), (3, '', 'NaN'), (4, '😀', 'é')],
  ),
}


@pytest.mark.parametrize('zipped', [False, True], ids=['plain', 'gz'])
@pytest.mark.parametrize(('name', 'content', 'encoding', 'cells'), TABLES.values(), ids=TABLES)
def test_rows_by_hand(name, content, encoding, cells, zipped, tmp_path):
  path = tmp_path / (name + '.gz' * zipped)
  path.write_bytes(gzip.compress(content) if zipped else content)
  assert rows(path, encoding) == [(number, {'a': a, 'b': b}) for number, a, b in cells]


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


ERRORS = {
  'empty': ('t.tsv', b'', r': empty; the first line names the columns'),
  'empty CSV': ('t.csv', b'', r': empty; the first line names the columns'),
  'unknown suffix': (
    't.xls',
    b'a\tb\n',
    r': unknown kind of file; names end in \.tsv, \.txt, \.csv, \.json',
  ),
  'workbook': (
    't.xlsx',
    b'PK',
    r': unknown kind of file; .*\.parquet; save a workbook as CSV UTF-8',
  ),
  'workbook named CSV': (
    't.csv',
    b'PK\x03\x04\n',
    ': an Excel workbook, or another zip; save it as CSV',
  ),
  'UTF-16': ('t.csv', 'a,b\n'.encode('utf-16'), ': UTF-16; convert it: iconv -f utf-16 -t utf-8'),
  'UTF-16, the other way': ('t.tsv', b'\xfe\xff\0a\n', ': UTF-16; convert it: iconv'),
  'semicolons': ('t.csv', b'a;b\nx,y;z\n', ":1: one column: is it separated by ';'"),
  'tabs in a CSV': ('t.csv', b'a\tb\nx\ty\n', ':1: one column: is it separated by tabs'),
  'column twice': ('t.tsv', b'a\tb\ta\n', r':1: a column is named twice: a$'),
  'too few columns': ('t.tsv', b'a\tb\nx\ty\nz\n', r':3: 1 columns; the header names 2'),
  'too many columns': ('t.csv', b'a,b\nx,y,z\n', r':2: 3 columns; the header names 2'),
  'id quoted as in a CSV': (
    't.tsv',
    b'id\ttext\n1\ta ""b""\n"2 ""x"""\ty\n',
    r":3: column 'id' is quoted as in a CSV; write it without quoting",
  ),
  'open quote': ('t.csv', b'a,b\nx,y\n"z,w\nv,w\n', r':3: not a CSV row: unexpected end of data'),
  'after a quote': ('t.csv', b'a,b\n"x"y,z\n', r":2: not a CSV row: ',' expected after '\"'"),
  'bad JSON': ('t.jsonl', b'{"a": 1}\n{"a": \n', r':2: not JSON: Expecting value'),
  'JSON list': ('t.jsonl', b'{"a": 1}\n[1]\n', r':2: a list; each line holds one object'),
  'deep JSON': ('t.jsonl', b'{"a": ' + b'[' * 200_000, r':1: lists or objects nested too deep'),
  'key twice': (
    't.jsonl',
    b'{"a": 1}\n{"a": "x", "b": 1, "b": 1}\n',
    r":2: not JSON: the key 'b' stands twice in an object",
  ),
  'half a surrogate pair': ('t.jsonl', b'{"a": "\\ud83d"}\n', r':1: .*surrogates not allowed'),
  'bad byte, first line': ('t.tsv', b'a\xff\tb\n', r':1: byte 0xff is not utf-8; convert it'),
  'bad byte': (
    't.tsv',
    b'a\tb\nx\ty\nz\t\xe9\n',
    r':3: byte 0xe9 is not utf-8; .* --encoding where',
  ),
  'gzip of no bytes': (
    't.tsv.gz',
    b'',
    r': damaged gzip after line 0: it has 0 bytes; copy it anew',
  ),
  'JSONL gzip of no bytes': ('t.jsonl.gz', b'', r': damaged gzip after line 0: it has 0 bytes'),
  'gzip of nothing': ('t.tsv.gz', gzip.compress(b''), r': empty; the first line names the columns'),
  'no Parquet': ('t.parquet', b'a\tb\n', r': not a Parquet file, or damaged: '),
  'zipped Parquet': ('t.parquet.gz', b'', r': unknown kind of file; .* \(or \.gz\), \.parquet'),
  'not gzip': ('t.tsv.gz', b'a\tb\n', r': damaged gzip after line 0: Not a gzipped file'),
}


@pytest.mark.parametrize(('name', 'content', 'message'), ERRORS.values(), ids=ERRORS)
def test_refused_where_it_is(name, content, message, tmp_path):
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


@pytest.mark.parametrize('name', ['no/such.tsv', 'folder.csv'])
def test_unreadable_files_are_named(name, tmp_path):
  (tmp_path / 'folder.csv').mkdir()
  reason = {'no/such.tsv': 'No such file or directory', 'folder.csv': 'Is a directory'}[name]
  assert refused(tmp_path / name) == f'{tmp_path}/{name}: cannot be read: {reason}'


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
