"""`dipair.distill`: the command's run from Python; its tables, its teacher, what it refuses."""

import json
import os
import re

import numpy as np
import pytest

TOY = {
  'flagfile': 'configs/smoke.flags',
  'text_columns': ('q', 'p'),
  'label_column': 'y',
  'max_lengths': (16, 16),
  'output_tokens': (2, 2),
  'head': 'ffnn',
  'stage1_batch_size': 16,
  'stage2_batch_size': 16,
}
ROWS, JUDGING = (
  [
    {'q': f'{colour} {i}', 'p': f'thing {j} {other}', 'y': float(colour == other), 'unused': object}
    for i in queries
    for colour in ('red', 'blue')
    for j, other in enumerate(('red', 'blue', 'green'))
  ]
  for queries in (range(6), range(6, 12))
)
SCORE = """
def score(pairs):
  assert isinstance(pairs, list) and isinstance(pairs[0], tuple)
  return [4.0 * (q.split()[0] in p) - 2 + len(p) / 100 for q, p in pairs]
"""
PROGRAM = (
  SCORE
  + """
import json, sys
sys.path.insert(0, 'tests/dipair')
import shutil
import dipair, tf_keras
from test_distill import JUDGING, ROWS, TOY

tf_keras.mixed_precision.set_global_policy('mixed_bfloat16')  # the caller's own
folder, seen, said = sys.argv[1], [], []
given = {'train': ROWS, 'valid': JUDGING[:20], 'test': JUDGING[20:], 'distillation': ROWS,
         'teacher': score, 'run_dir': folder, **TOY}
result = dipair.distill(**given, callbacks=[lambda *of: seen.append(of)])
again = dipair.distill(**{**given, 'train': iter(ROWS)})
for change in json.loads(sys.argv[2]):
  try:
    dipair.distill(**{**given, **change})
    said.append('')
  except dipair.InputError as error:
    said.append(str(error))
shutil.copytree(folder, folder + '-copy')
copied = dipair.distill(**{**given, 'run_dir': folder + '-copy'})  # all is done: no flag is refused
assert copied.metrics == result.metrics
assert tf_keras.mixed_precision.global_policy().name == 'mixed_bfloat16'
ranked = result.scorer().rank('red 1', ['thing 1 red', 'thing 2 blue'])
with open(folder + '.json', 'w') as file:
  json.dump([result.metrics, seen, again.metrics == result.metrics, said, ranked], file)
"""
)
REFUSED = (
  (
    {'train': ROWS[:1]},
    ': train was another table, of other rows or in another order; --redo makes',
  ),
  ({'train': [{'q': 'a', 'yy': 1}]}, "train, row 1: no column 'p'; it has q, yy"),
  ({'train': [{'q': 'a', 'p': {'a': 1}, 'y': 1}, 3]}, 'train, row 2: a int; each row is a dict'),
  ({'train': {'q': ['a']}}, 'train: a value of type dict; a path, a table of pandas or pyarrow'),
  ({'train_file': 'a.tsv'}, 'train_file: given as a flag and by an argument of its own'),
  (
    {'teacher': None, 'teachers': 'python:score'},
    '--teacher=python:score: a Python function, with',
  ),
  ({'callbacks': 5}, 'callbacks: a list of functions is needed'),
  ({'teacher': [None]}, 'teacher: the path of a folder is needed, not None'),
  ({'teacher_stps': 5}, "Unknown command line flag 'teacher_stps'. Did you mean: teacher_steps"),
  ({'task': 'ranking'}, '--task=ranking: value should be one of <'),
  ({'run_dir': ''}, '--run_dir is needed'),
  ({'run_dir': 'tests'}, '--run_dir=tests: holds files but no flags.txt'),
)


def plain(change):
  """A change without what JSON cannot hold."""
  return json.loads(json.dumps(change, default=str))


@pytest.fixture(name='runs', scope='module')
def _runs(tmp_path_factory, python, kill_at):
  """Folders of the run from Python and of the command's, and what the former gave.

  The command is stopped when its student is there.
  """
  base = tmp_path_factory.mktemp('distill')
  own, commands = base / 'own', base / 'command'
  changes = json.dumps([plain(change) for change, _ in REFUSED])
  done = python('-c', PROGRAM, str(own), changes)
  assert done.returncode == 0, done.stderr[-3000:]
  score = {}
  exec(SCORE, score)
  files = {'train': ROWS, 'valid': JUDGING[:20], 'test': JUDGING[20:], 'distillation': ROWS}
  for name, rows in files.items():
    scored = [
      {'q': row['q'], 'p': row['p'], 'y': row['y']}
      | ({'z': score['score']([(row['q'], row['p'])])[0]} if name == 'distillation' else {})
      for row in rows
    ]
    (base / f'{name}.jsonl').write_text('\n'.join(map(json.dumps, scored)) + '\n')
  flags = {**TOY, **{f'{name}_file': base / f'{name}.jsonl' for name in files}}
  text = lambda value: ','.join(map(str, value)) if isinstance(value, tuple) else value  # noqa: E731
  flags |= {'run_dir': commands, 'teacher_logits_column': 'z'}  # after the flagfile, which has some
  flags = (f'--{name}={text(value)}' for name, value in flags.items())
  kill_at(('-m', 'dipair.run', *flags), commands / 'student')
  return own, commands, json.loads((base / 'own.json').read_text())


def test_it_ends_with_the_commands_weights_bit_for_bit(runs, last_step):
  own, command, (metrics, _, again, _, ranked) = runs
  for stage in ('student/stage1', 'student/stage2'):
    expected, found = last_step(command / stage), last_step(own / stage)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
      np.testing.assert_array_equal(found[name], values, err_msg=f'{stage} {name}')
  assert set(metrics) == {'teacher', 'student, stage 1', 'student'}
  assert set(metrics['student']) == {'valid', 'test'}
  assert again
  assert sorted(row for row, _ in ranked) == [0, 1]


def test_callbacks_hear_of_each_evaluation(runs):
  heard = [(stage, step) for stage, step, _ in runs[2][1]]
  expected = [('stage 1', step) for step in (0, 10, 20)] + [('stage 2', step) for step in (0, 2, 4)]
  assert heard == expected
  first, second = (metrics for _, _, metrics in runs[2][1][:2])
  assert set(second) - set(first) == {'loss'}
  assert {'pearson', 'learning_rate'} <= set(first)


def test_what_it_cannot_take_is_refused_in_one_line(runs):
  for said, (change, message) in zip(runs[2][3], REFUSED, strict=True):
    assert message in said and '\n' not in said, change


def test_a_given_teacher_is_judged_before_it_teaches(runs):
  log = (runs[0] / 'run.log').read_text()
  assert re.search(r'distill: starts\n.*python:score: pearson 1\.000 on 20 tuples of .*valid', log)


def test_the_runs_flags_name_the_tables_that_were_given(runs):
  own = runs[0]
  flags = (own / 'flags.txt').read_text()
  assert f'--train_file={own}/tables/train.jsonl' in flags and '--teachers=python:score' in flags
  first = (own / 'tables' / 'train.jsonl').read_text().splitlines()[0]
  assert json.loads(first) == {'q': 'red 0', 'p': 'thing 0 red', 'y': '1.0'}
  assert sorted(os.listdir(own / 'tables')) == [
    f'{name}.jsonl' for name in ('distillation', 'test', 'train', 'valid')
  ]
