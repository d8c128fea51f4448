"""Tables in memory, of each kind that is taken."""

import json
import re
import sys

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from common.data import memory_tables
from common.errors import InputError

COLUMNS = {'q': ['café', 'b'], 'y': [0.5, 1.0], 'n': [3, 4]}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]


def pandas():
  return pytest.importorskip('pandas').DataFrame(COLUMNS, index=[7, 5])


KINDS = {
  'list': lambda: ROWS,
  'generator': lambda: iter(ROWS),
  'numpy values': lambda: [
    {'q': np.str_(r['q']), 'y': np.float64(r['y']), 'n': r['n']} for r in ROWS
  ],
  'arrow': lambda: pa.table(COLUMNS),
  'pandas': pandas,
  'tf.data': lambda: tf.data.Dataset.from_tensor_slices(COLUMNS),
}


@pytest.mark.parametrize('kind', KINDS)
def test_the_columns_asked_for_are_written(kind, tmp_path):
  path = tmp_path / 't.jsonl'
  memory_tables.write(KINDS[kind](), 'train', str(path), ['y', 'q+n'], ['z'])
  found = [json.loads(line) for line in path.read_text('ascii').splitlines()]
  assert found == [{'y': '0.5', 'q+n': 'café 3'}, {'y': '1.0', 'q+n': 'b 4'}]


@pytest.mark.parametrize(
  ('table', 'message'),
  [
    (3, 'train: a value of type int; a path, a table of pandas or pyarrow'),
    ([], 'train: no rows; an empty table is no data set'),
    (['a'], 'train, row 1: a str; each row is a dict of columns'),
    ([{'y': 1}], "train, row 1: no column 'q'; it has y"),
    ([*ROWS, {'q': object()}], "train, row 3: column 'q' holds no text, number or list of such"),
    ([{'q': b'\xff'}], "train, row 1: column 'q' holds no text"),
    (pa.table([['a'], ['b']], ['q', 'q']), 'train: a column is named twice: q'),
    (pa.table({'qq': ['a']}), "train, row 1: no column 'q'; did you mean 'qq'? It has qq"),
  ],
)
def test_what_is_no_table_is_refused(table, message, tmp_path):
  with pytest.raises(InputError, match=re.escape(message)):
    memory_tables.write(table, 'train', str(tmp_path / 't'), ['q'], [])


def test_a_column_that_arrow_does_not_take_matters_where_it_is_read(tmp_path):
  table, path = pandas().assign(other=['x', 3]), tmp_path / 't.jsonl'
  memory_tables.write(table, 'train', str(path), ['q'], ['z'])
  assert [json.loads(line) for line in path.read_text().splitlines()] == [{'q': 'café'}, {'q': 'b'}]
  with pytest.raises(InputError, match="^train: Arrow takes .*'int' object; Conversion .* other "):
    memory_tables.write(table, 'train', str(path), ['other'], [])


def test_an_empty_cell_of_pandas_is_empty(tmp_path):
  table = pytest.importorskip('pandas').DataFrame({'q': ['a', None], 'y': [1.0, None]})
  rows = [dict(row) for _, row in memory_tables.rows(table, 'train')]
  assert rows == [{'q': 'a', 'y': '1.0'}, {'q': '', 'y': ''}]
  assert 'datasets' not in sys.modules
