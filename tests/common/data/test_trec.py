"""TREC's runs and qrels: what is read, and what is refused where."""

import gzip
import tracemalloc

import numpy as np
import pytest

from common.data import trec
from common.errors import InputError


def test_a_written_run_is_read_again(tmp_path):
  path = str(tmp_path / 'a.run')
  trec.write_run(path, ['q2', 'q1'], [(['d', 'e'], [0.1, -1.0]), (['e'], [1 / 3])], 'ours')
  assert (tmp_path / 'a.run').read_text() == (
    'q2 Q0 d 1 0.1 ours\nq2 Q0 e 2 -1 ours\nq1 Q0 e 1 0.333333333 ours\n'
  )
  packed = path + '.gz'
  trec.write_run(packed, ['q2', 'q1'], [(['d', 'e'], [0.1, -1.0]), (['e'], [1 / 3])], 'ours')
  with gzip.open(packed, 'rt') as file:
    assert file.read() == (tmp_path / 'a.run').read_text()
  found = trec.read_run(packed)
  assert (found.queries, found.documents) == (['q2', 'q1'], ['d', 'e'])
  assert found.query.tolist() == [0, 0, 1] and found.document.tolist() == [0, 1, 1]
  assert found.values.tolist() == [0.1, -1, 0.333333333] and found.line.tolist() == [1, 2, 3]


def test_an_id_may_have_spaces_that_are_not_of_ascii(tmp_path):
  queries, documents = ['q\xa01'], ['a\u3000b', 'c\x85']
  trec.write_run(str(tmp_path / 'run'), queries, [(documents, [2, 1])], 'ours')
  found = trec.read_run(str(tmp_path / 'run'))
  assert (found.queries, found.documents) == (queries, documents)
  assert not any(map(trec.is_id, ('', 'a b', 'a\t', '\x0b')))


def test_one_long_id_takes_its_own_memory():
  documents = ['b', 'é', 'a' * 10_000, 'B', '日本', '\U0001f600', '\uffee', *map(str, range(1000))]
  none = np.zeros(0)
  run = trec.Pairs('a', [], documents, none, none, none, none)
  tracemalloc.start()
  ties = run.ties
  assert tracemalloc.get_traced_memory()[1] < 1 << 20
  tracemalloc.stop()
  assert [documents[number] for number in np.argsort(ties)] == sorted(documents)


@pytest.mark.parametrize(
  ('read', 'text', 'says'),
  [
    (trec.read_run, 'q Q0 d 1 0.5 a\nq Q0 e 2 0.5\n', ':2: 5 cells; a line is `query Q0 document'),
    (trec.read_run, 'q Q0 d 1 nan a\n', ":1: score 'nan' is not a finite number"),
    (
      trec.read_run,
      'q Q0 d 1 2 a\n\nr Q0 d 1 2 a\nq Q0 d 2 1 a\n',
      ":4: query 'q' has document 'd' at line 1 too",
    ),
    (trec.read_qrels, 'q 0 d 1\nq 0 e 0.5\n', ":2: grade '0.5' is not a whole number"),
    (trec.read_qrels, '\n', ': empty; a line is `query 0 document grade`'),
  ],
)
def test_bad_lines_are_refused_with_their_number(read, text, says, tmp_path):
  path = tmp_path / 'bad'
  path.write_text(text)
  with pytest.raises(InputError) as caught:
    read(str(path))
  assert str(caught.value).startswith(f'{path}{says}')
