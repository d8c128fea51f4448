"""GLUE's tasks in turn, and Table 1 from their results."""

import pytest

from common import flags
from common.errors import InputError
from common.files import read_json, write_json
from dse.run import RunConfig
from experiments import suite
from experiments.suite import SuiteConfig


@pytest.fixture(name='glue')
def _glue(tmp_path):
  """A GLUE folder with a tiny MRPC alone."""
  rows = ['Quality\t#1 ID\t#2 ID\t#1 String\t#2 String']
  rows += [f'{i % 2}\t1\t2\tred {i}\tthe {i}' for i in range(8)]
  for name in ('train', 'dev'):
    path = tmp_path / 'glue' / 'MRPC' / f'{name}.tsv'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('\n'.join(rows).replace('red', name) + '\n', encoding='utf-8')
  return str(tmp_path / 'glue')


def config(glue, run_dir, *names, **changes):
  own = flags.build(RunConfig, {'run_dir': str(run_dir), **changes})
  return SuiteConfig(tuple(f'configs/{name}.flags' for name in names), glue, own)


def test_a_suite_runs_the_tasks_that_are_there_and_makes_table_1(
  glue, tmp_path, monkeypatch, capsys
):
  started = []

  def main(config):
    started.append(config)
    models = [
      {'name': name, 'test': {'f1': 0.9, 'accuracy': 0.8}} for name in ('teacher', 'student')
    ]
    about = {'flags': {'variants': ['distilled'], 'alpha': 0.5}, 'models': models}
    write_json(f'{config.experiment.run_dir}/results.json', about)

  monkeypatch.setattr(suite.run, 'main', main)
  (tmp_path / 'runs' / 'mrpc').mkdir(parents=True)
  suite.main(config(glue, tmp_path / 'runs', 'mnli', 'mrpc', dropout=0.2, title='all'))
  own = {'data_dir': glue, 'run_dir': f'{tmp_path}/runs/mrpc', 'dropout': 0.2}
  assert started == [flags.parse(RunConfig, {'flagfile': 'configs/mrpc.flags', **own})]
  made = read_json(f'{tmp_path}/runs/table1.json')
  assert made['table']['headers'] == ['Model', 'MRPC', 'AVG', 'Degradation', 'Improvement']
  assert [row[0] for row in made['table']['rows'][:2]] == ['Teacher', 'DSE (alpha = 0.5)']
  assert made['command'].startswith(
    'python -m experiments.suite --suite=configs/mnli.flags,configs'
  )
  assert 'mnli: passed over: ' in capsys.readouterr().out


def test_what_is_no_suite_is_refused(glue, tmp_path):
  with pytest.raises(InputError, match='--suite, its flagfiles, --run_dir and --suite_data_dir'):
    suite.main(config(glue, '', 'mrpc'))
  with pytest.raises(InputError, match='configs/p2t.flags: a flagfile named after one of mrpc'):
    suite.main(config(glue, tmp_path, 'p2t'))
  with pytest.raises(InputError, match='no task of --suite has its data there'):
    suite.main(config(glue, tmp_path, 'mnli'))


def test_table_1_by_hand():
  of_run = {'variants': ['distilled'], 'alpha': 0.5}
  scores = {'accuracy': 0.8, 'f1': 0.9, 'pearson': 0.6, 'spearman': 0.5}
  lower = {name: value - 0.1 for name, value in scores.items()}
  models = [{'name': 'teacher', 'test': scores}, {'name': 'student', 'test': lower}]
  table = suite.table1({task: {'models': models, 'flags': of_run} for task in ('stsb', 'mrpc')})
  assert table.headers == ['Model', 'MRPC', 'STS-B', 'AVG', 'Degradation', 'Improvement']
  assert table.rows[0] == ['Teacher', '90.0/80.0', '60.0/50.0', '70.00', '0.0%', '-14.3%']
  assert table.rows[1] == ['DSE (alpha = 0.5)', '80.0/70.0', '50.0/40.0', '60.00', '-14.3%', '']
  paper = next(row for row in table.rows if row[0] == 'DSE (alpha = 0.5), the paper')
  assert paper[1:] == ['86.7/80.7', '86.4/85.8', '84.90', '-2.6%', '']
  assert 'STS-B: ours are of the dev set' in table.note and ' MRPC: ours' not in table.note
  some = {
    'stsb': {'models': models[:1], 'flags': of_run},
    'mrpc': {'models': models, 'flags': of_run},
  }
  assert suite.table1(some).rows[1] == ['DSE (alpha = 0.5)', '80.0/70.0', '', '', '', '']
  undefined = {'name': 'student', 'test': {**lower, 'pearson': None}}  # of constant scores
  some['stsb'] = {'models': [models[0], undefined], 'flags': of_run}
  assert suite.table1(some).rows[1][:4] == ['DSE (alpha = 0.5)', '80.0/70.0', 'nan/40.0', 'nan']
  alone = [models[0], {'name': 'teacher 1', 'test': lower}, models[1]]
  (note, _, rows) = suite.table1({'mrpc': {'models': alone, 'flags': of_run}})
  assert 'dev set' not in note  # MRPC's test set has labels
  assert [row[0] for row in rows[:3]] == ['Teacher', 'Teacher 1', 'DSE (alpha = 0.5)']
