"""The comparison with other libraries, without them: tables, process, refusals."""

import json
import sys

import pytest

from benchmarks import tables
from benchmarks.peers import __main__ as command
from benchmarks.peers import process
from common.errors import InputError


def _row(kind: str, name: str, rate: float, **more) -> dict:
  return {
    **{'kind': kind, 'name': name, 'pairs_per_second': rate, 'least': rate / 2, 'most': rate * 2},
    **more,
  }


def test_a_row_is_against_the_first_one_of_its_table():
  counts = {'texts': 1024, 'pairs': 512, 'queries': 8, 'candidates': 2048, 'threads': 2}
  size = {'float32': 1536, 'int8': 388.0}
  rows = [
    _row('encoding', 'theirs', 200.0, cosine=1.0),
    _row('encoding', 'DiPair encoder', 300.0, cosine=0.99912),
    _row('pairs', 'CrossEncoder', 100.0),
    _row('stored', 'cosine', 2e7, test=0.4, bytes=size),
    {'kind': 'stored', 'name': 'cosine, fine-tuned', 'test': 0.5},
    _row('stored', 'MaxSim', 50_000.0),
    _row('stored', 'DiPair head', 25_000.0, test=0.5446, bytes={'float32': 6144, 'int8': 1584}),
  ]
  made = {'rows': rows, 'counts': counts, 'versions': {'torch': '2.13'}}
  encoding, scoring = tables.peers(made)
  assert encoding.headers[3] == '× theirs'
  assert encoding.note == '1,024 titles, 2 cores. torch 2.13.'
  assert scoring.note == '512 pairs from their text; 2,048 stored titles for each of 8 queries.'
  assert encoding.rows[1] == ['DiPair encoder', '300', '150 to 600', '1.5×', '0.9991']
  cells = {row[0]: row[1:] for row in scoring.rows}
  assert cells['CrossEncoder'] == ['100', '50 to 200', '1×', '', '', '', '']
  assert cells['cosine'][2:] == ['200,000×', '400×', '1,536', '388', '0.400']
  assert cells['cosine, fine-tuned'] == ['', '', '', '', '', '', '0.500']
  assert cells['DiPair head'][2:] == ['250×', '0.5×', '6,144', '1,584', '0.545']


_ANSWERS = """
import json, sys
texts = json.load(open(sys.argv[1]))['texts']
row = {'kind': 'encoding', 'name': 'length', 'rows': len(texts), 'scores': [1.0]}
print(json.dumps({'contenders': [row], 'versions': {}}), flush=True)
for line in sys.stdin:
  open(sys.argv[1] + '.calls', 'a').write(line)
  print('done', flush=True)
  break
"""


def test_their_process_is_called_by_number_and_its_end_is_one_line(tmp_path, monkeypatch):
  script = tmp_path / 'measure.py'
  script.write_text(_ANSWERS)
  monkeypatch.setattr(process, '_SCRIPT', str(script))
  with process.Peers(sys.executable, {'texts': ['a', 'b']}, str(tmp_path)) as peers:
    contender = peers.contender(0)
    assert (contender.name, contender.pairs) == ('length', 2)
    contender.call()
    assert (tmp_path / 'given.json.calls').read_text() == '0\n'
    with pytest.raises(InputError, match=r'--python=.*ended with status 0.*README\.md'):
      contender.call()


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'run_dir': '/none'}, '--run_dir=/none: no results.json'),
    ({'task': 'binary'}, 'its task is binary, not regression'),
    ({'python': '/none'}, "--python=/none: not the python of the peers' environment"),
    ({'threads': 0}, '--threads=0: 1 to '),
    ({'trained': '/none'}, '--trained=/none: no such folder; --train makes it'),
    ({'train': True}, '--train: --trained=: a folder to be made'),
  ],
)
def test_what_is_missing_is_refused_before_anything_is_measured(tmp_path, changes, message):
  task = changes.get('task', 'regression')
  (tmp_path / 'results.json').write_text(
    json.dumps({'student': 'dipair', 'task': task, 'flags': {}})
  )
  given = {'run_dir': str(tmp_path), 'python': sys.executable, **changes}
  given.pop('task', None)
  with pytest.raises(InputError) as refused:
    command.main(command.PeersConfig(**given))
  assert message in str(refused.value)
