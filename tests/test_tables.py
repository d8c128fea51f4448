"""The committed tables: what the files under benchmarks/results give, and nothing else."""

import re

import pytest

from benchmarks import speed_tables, summary, tables
from benchmarks.committed import ROOT


@pytest.mark.parametrize('path', ['README.md', 'docs/results.md', 'docs/scaling.md'])
def test_a_file_is_what_the_command_writes(path):
  with open(f'{ROOT}/{path}', encoding='utf-8') as file:
    assert file.read() == tables.written()[path], 'run python -m benchmarks.tables'


def test_the_title_is_true_of_every_run():
  with open(f'{ROOT}/README.md', encoding='utf-8') as file:
    title, text = file.read().split('\n', 1)
  least, most = (int(number) for number in re.findall(r'\d+', title))
  assert f'{least} to {most} times as many pairs a second' in ' '.join(text.split())
  rows = [line.split(' | ') for line in summary.summary().splitlines() if line.startswith('| ')]
  own = [row[5] for row in rows if 'the paper' not in row[0] and 'random weights' not in row[0]]
  found = [float(n.replace(',', '')) for cell in own for n in re.findall(r'([\d.,]+)×', cell)]
  assert min(found) >= least and max(found) >= most


def _results(*heads: tuple[str, float]) -> dict:
  models = [{'name': name, 'test': {'pearson': 0.5}} for name in ('teacher', 'student')]
  models[1]['delta'] = {'test': 0.0}
  rows = [('BERT-base cross-encoder, 128 tokens', 10.0), ('teacher', 40.0), *heads]
  speed = [{'name': n, 'pairs_per_second': rate, 'ratio': rate / 10} for n, rate in rows]
  return {'student': 'dipair', 'primary_metric': 'pearson', 'models': models, 'speed': speed}


def test_a_head_is_against_its_own_teacher_and_bert_base():
  results = _results(('DiPair head, tensorflow', 2000.0), ('DiPair head, litert-int8', 8000.0))
  row = summary._run(results, 'a run')
  assert row == ['a run', 'Pearson', '0.500', '0.500', '0.0%', '50×, int8 200×', '200×, int8 800×']
  rows = speed_tables.of_runs({'a run': results}).rows
  assert rows[0][2:] == ['10', '', '1×'] and rows[1][2:] == ['40', '1×', '4×']


def test_what_was_not_measured_is_left_out():
  results = _results(('DiPair head, 4+12 tokens of 128', 2000.0))
  assert summary._run(results, 'a run')[-2:] == ['50×', '200×']
  del results['speed'][1]
  assert summary._run(results, 'a run')[-2:] == ['', '200×']
