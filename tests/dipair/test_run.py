"""The command, as a person runs it: the smoke run, again, killed and resumed, and misled."""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from common import flags, verify
from common.data.records import RecordSet
from common.errors import InputError
from common.scoring import exported, runtimes
from dipair import Scorer
from dipair.run import DiPairStudent, RunConfig, main
from tests.conftest import SMOKE_FLAGS
from tests.robustness import contents

STAGES = (
  *('data', 'unlabelled', 'teacher', 'distill'),
  *('student', 'export', 'evaluation', 'benchmark'),
)


def command(*arguments):
  return ['-m', 'dipair.run', *SMOKE_FLAGS, *arguments]


@pytest.fixture(name='run', scope='module')
def _run(python):
  return lambda *arguments: python(*command(*arguments))


@pytest.fixture(name='smoke', scope='module')
def _smoke(smoke_run):
  """A finished smoke run, by a process of its own: (folder, output)."""
  return smoke_run / 'run', (smoke_run / 'output').read_text('utf-8')


def metrics(folder):
  with open(folder / 'results.json', encoding='utf-8') as file:
    results = json.load(file, parse_constant=pytest.fail)
  curves = [
    [(e['step'], e['loss'], e['valid']) for e in phase['history']] for phase in results['training']
  ]
  return results['models'], curves


def test_the_smoke_run_gives_all_that_a_run_gives(smoke):
  folder, output = smoke
  for name in (*STAGES, 'flags.txt', 'results.json', 'report.html', 'README.md'):
    assert (folder / name).exists(), name
  assert not list(folder.glob('*.part'))
  assert 'student' in output
  assert 'DiPair on toy data' in output
  models, curves = metrics(folder)
  assert [model['name'] for model in models] == ['teacher', 'student, stage 1', 'student']
  compared = {'delta', 'interval', 'p_value', 'metrics', 'ranking'}
  assert set(models[2]) == {'name', 'valid', 'test', *compared}
  assert len(curves) == 3
  results = json.loads((folder / 'results.json').read_text('utf-8'))
  assert [row['model'] for row in results['speed'][:3]] == ['BERT-base', 'teacher', 'student']
  measured = list(runtimes.RUNTIMES)
  assert [row['name'] for row in results['encoders']] == measured
  assert results['metadata'] == {'language': 'en'}  # random weights, the built-in catalogue
  (told,) = [line for line in output.splitlines() if line.startswith('set: ')]
  saved = (folder / 'flags.txt').read_text('utf-8').splitlines()
  assert set(told.split()[1:]) <= set(saved) and '--output_tokens=' in told
  assert results['export']['unlike_texts'] == 0 < results['export']['compared_texts']
  for name in ('export', 'evaluation'):  # another export changes no metric
    stage = json.loads((folder / name / 'stage.json').read_text())
    assert list(stage['after']) == ['student']
  assert '<h1' in (folder / 'report.html').read_text(encoding='utf-8')
  assert verify.verify(str(folder))[0] > 40


def test_the_docs_name_every_key_of_the_results(smoke):
  results = json.loads((smoke[0] / 'results.json').read_text('utf-8'))
  text = (Path(__file__).parents[2] / 'docs' / 'reference' / 'results_json.md').read_text('utf-8')
  section = text.split('## Keys')[1].split('\n## ')[0]
  told = {}
  for row in section.splitlines():
    if row.startswith('| `'):
      keys, text = row.split(' | ')
      told |= dict.fromkeys(re.findall(r'`(\w+)`', keys), set(re.findall(r'`(\w+)`', text)))
  assert set(told) == set(results)
  assert len(results['example']['texts']) == 2 and len(str(results['example']['score'])) <= 5
  for key in ('models', 'speed', 'encoders', 'stored', 'training'):
    assert set(results[key][-1]) <= told[key], key
  for key in ('data', 'calibration', 'annotation', 'export'):
    assert set(results[key]) <= told[key], key
  assert set(results['ranking']['test']) <= told['ranking']


def test_a_second_run_does_nothing_again_and_its_saved_flags_repeat_it(smoke, python):
  folder, _ = smoke
  changed = {name: os.stat(folder / name / 'stage.json').st_mtime_ns for name in STAGES}
  done = python('-m', 'dipair.run', f'--flagfile={folder}/flags.txt')
  assert done.returncode == 0, done.stderr[-2000:]
  assert all(f'{name}: done' in done.stdout for name in STAGES)
  assert changed == {name: os.stat(folder / name / 'stage.json').st_mtime_ns for name in STAGES}


def test_other_flags_are_refused_with_what_they_would_cost(smoke, run):
  folder, _ = smoke
  done = run(f'--run_dir={folder}', '--temperature=2')
  assert done.returncode == 2
  (line,) = [line for line in done.stderr.splitlines() if line.startswith('error:')]
  assert 'temperature was 1.0, is 2.0' in line
  assert '--redo makes distill, student, export, evaluation, benchmark anew' in line
  assert (folder / 'student' / 'weights.index').exists()
  assert (folder / 'run.log').read_text().splitlines()[-1].endswith(line)


def test_a_runs_log_tells_its_start_its_stages_and_its_end(smoke):
  folder, output = smoke
  lines = (folder / 'run.log').read_text('utf-8').splitlines()
  log = [line[20:].rstrip() for line in lines]  # after the time
  assert log[0].startswith('== python -m dipair.run --run_dir=') and "--title='toy data'" in log[0]
  for about in (
    'commit ',
    'python 3.',
    'tensorflow 2.',
    'cpu ',
    'cores ',
    'memory gb ',
    'accelera',
  ):
    assert about in log[1], about
  stages = [line.split(': ')[0] for line in log if line.endswith(': starts')]
  assert stages == list(STAGES)
  assert [line.split(': ')[0] for line in log if ': made in ' in line] == stages
  assert {line.rstrip() for line in output.splitlines()} - {''} <= set(log)
  assert any(line.startswith('teacher: 100%') for line in log)  # a bar, as it ended
  assert len(log) < 150


def test_killed_again_and_again_it_ends_with_the_same_weights(smoke_run, run, tmp_path, kill_at):
  whole, folder = smoke_run / 'copy', tmp_path / 'killed'
  shutil.copytree(whole, folder, ignore=shutil.ignore_patterns(*STAGES[:5], 'evaluation'))
  moments = (('teacher.part', 10), ('student.part/stage1', 10), ('student.part/stage2', 2))
  for phase, step in moments:
    kill_at(command(f'--run_dir={folder}'), folder / phase, step)
  done = run(f'--run_dir={folder}')
  assert done.returncode == 0, done.stderr[-3000:]
  assert metrics(folder) == metrics(whole)
  for name in ('teacher', 'student'):
    assert contents.of(str(folder / name)) == contents.of(str(whole / name)), name
  assert not [path.name for path in folder.iterdir() if path.suffix in ('.part', '.old', '.tmp')]


FILES = {f'{name}_file': 'a.tsv' for name in ('train', 'valid', 'test')}
REFUSED = (
  ({'task': 'ranking'}, '--task=ranking: value should be one of <'),
  ({'teacher_batch_size': 0}, '--teacher_batch_size=0: a number from 1 to 1,000,000 is'),
  ({'output_tokens': 4}, '--text_columns names 2 texts, --output_tokens and --max_lengths 1'),
  ({'output_tokens': '4,x'}, '--output_tokens=4,x: invalid literal for int()'),
  (
    {'max_lengths': (1, 16), 'output_tokens': (1, 4)},
    '--max_lengths=1,16: a text takes 2 or more, [CLS] and [SEP]',
  ),
  ({'teacher_pretrained': '/nowhere'}, '/nowhere: no such folder'),
  ({'teacher_similarity': '/nowhere'}, '/nowhere: no such folder'),
  ({'teachers': '/nowhere'}, '/nowhere: no such folder'),
  ({'teachers': 'tests'}, "tests: no teacher there: neither a run's (model.json)"),
  ({'pretrained': '/nowhere'}, '/nowhere: no such folder'),
  (
    {'freeze_right': 'x/../a', 'run_dir': 'a'},
    '--freeze_right=x/../a: the run itself; name another',
  ),
  ({'encoder_layers': 3}, '--encoder_layers=3: random-tiny has 2'),
  ({'left_encoder_layers': 3}, '--left_encoder_layers=3: random-tiny has 2'),
  (
    {
      **FILES,
      'text_columns': 'a,b,c,d',
      'max_lengths': (9, 9, 9, 9),
      'output_tokens': (2, 2, 2, 2),
      'teacher_max_length': 4,
    },
    '--teacher_max_length=4: 4 texts take 6 tokens at the least',
  ),
  ({'teacher_max_length': 200}, 'random-tiny has 128 positions'),
  ({**FILES, 'train_file': '/nowhere.tsv'}, '/nowhere.tsv: no such file'),
  ({'train_file': '/nowhere.tsv'}, '/nowhere.tsv: no such file'),
  ({'distillation_file': 'd.tsv'}, '--valid_file is needed'),
  (
    {'distillation_file': 'd.tsv', 'valid_file': 'v.tsv', 'test_file': 't.tsv'},
    '--train_file is needed: a teacher is fine-tuned on it',
  ),
  (
    {'teacher_scores': 'probability'},
    '--teacher_scores=probability needs --teacher_logits_column',
  ),
  (
    {**FILES, 'alpha': 0},
    '--alpha=0 (DSE: --variants=labels) needs a label on every pair, and most made pairs have none',
  ),
  (
    {'loss': 'triplet', 'task': 'multiclass', 'classes': 'a,b'},
    '--loss=triplet compares tuples by one output, and --task=multiclass has 2',
  ),
  (
    {'teachers': 'none', 'alpha': 0.5, 'annotation_runtime': 'litert-int8', 'loss': 'kd'},
    '--alpha=0.5 --annotation_runtime=litert-int8 --loss=kd: not with --teacher=none, which trains '
    'on the labels of the training set alone; use --alpha=0.0 --annotation_runtime=auto '
    '--loss=cross_entropy',
  ),
  (
    {**FILES, 'teachers': 'none', 'distillation_file': 'd.tsv', 'distillation_pairs': 64},
    '--distillation_file=d.tsv --distillation_pairs=64: not with --teacher=none, which trains on '
    'the labels of the training set alone; use --distillation_file= --distillation_pairs=0',
  ),
  ({'teachers': 'none', 'stage1_batch_size': 900}, '--stage1_batch_size=900: there are 2'),
  ({'teachers': 'none,x'}, '--teacher=none,x: none stands alone'),
  (
    {'freeze_right': 'a', 'head_start': 'random'},
    "--freeze_right starts from that run's head; remove --head_start=random",
  ),
  ({'run_dir': ''}, '--run_dir is needed'),
)


@pytest.mark.parametrize(('given', 'message'), REFUSED)
def test_bad_input_is_refused_before_any_work(given, message, tmp_path):
  smoke = {'flagfile': 'smoke', 'run_dir': str(tmp_path / 'run')}
  with pytest.raises(InputError) as refused:
    main(flags.parse(RunConfig, {**smoke, **given}))
  assert message in str(refused.value)
  assert not (tmp_path / 'run' / 'data').exists()


def test_the_command_refuses_in_one_line_with_status_2(tmp_path, refusals):
  cases = {
    "Unknown command line flag 'teacher_stps'": '--teacher_stps=5',
    "'extra' is not a flag": 'extra',
    '/nowhere: no such folder': '--pretrained=/nowhere',
  }
  smoke = ['--flagfile=configs/smoke.flags', f'--run_dir={tmp_path / "run"}']
  found = refusals('dipair.run', [[*smoke, argument] for argument in cases.values()])
  for (status, said), message in zip(found, cases, strict=True):
    lines = [line for line in said.splitlines() if line.startswith('error:')]
    assert (status, len(lines)) == (2, 1), said
    assert message in lines[0] and 'Traceback' not in said


def test_a_folder_of_something_else_is_left_alone(tmp_path, run):
  (tmp_path / 'thesis.txt').write_text('dear')
  done = run(f'--run_dir={tmp_path}')
  assert done.returncode == 2
  assert 'holds files but no flags.txt' in done.stderr
  assert os.listdir(tmp_path) == ['thesis.txt']


@pytest.mark.parametrize(
  ('flag', 'anew'),
  [
    ('pairing_pretrained', {'unlabelled', 'distill', 'student'}),
    ('teacher_pretrained', {'teacher', 'distill', 'student'}),
    ('teachers', {'distill', 'student'}),
    ('pretrained', {'student'}),
  ],
)
def test_another_model_at_the_same_path_makes_anew_what_it_was_read_for(
  stages, tmp_path, flag, anew
):
  (weights := tmp_path / 'weights').write_text('one')
  where = (str(tmp_path),) if flag == 'teachers' else str(tmp_path)
  config = flags.parse(RunConfig, {'run_dir': 'run', flag: where})

  def fingerprints():
    return {stage.name: stage.fingerprint for stage in stages(DiPairStudent, config)[:-3]}

  before = fingerprints()
  assert fingerprints() == before
  weights.write_text('two')
  assert {name for name, of in fingerprints().items() if of != before[name]} == anew


def test_a_student_without_a_teacher_learns_from_labels_alone(tmp_path, run):
  """A text is of two columns; --head_start=random is the paper's; the score is calibrated."""
  rows = [(f'term {i}', f'thing {i % 7}', '' if i % 3 else 'red', i % 2) for i in range(96)]
  tsv = ['q\ttitle\tmore\ty', *('\t'.join(map(str, row)) for row in rows)]
  (tmp_path / 'train.tsv').write_text('\n'.join(tsv))
  (tmp_path / 'judging.tsv').write_text('\n'.join(tsv).replace('term', 'word'))
  folder, tables = tmp_path / 'run', {'train': 'train', 'valid': 'judging', 'test': 'judging'}
  done = run(
    f'--run_dir={folder}',
    *(f'--{name}_file={tmp_path / table}.tsv' for name, table in tables.items()),
    *('--text_columns=q,title+more', '--label_column=y', '--task=binary', '--max_lengths=16,16'),
    *('--teacher=none', '--head_start=random', '--head=ffnn', '--calibration=temperature'),
    *('--stage1_steps=0', '--stage2_batch_size=32'),
  )
  assert done.returncode == 0, done.stderr[-3000:]
  made = {path.name for path in folder.iterdir() if path.is_dir()}
  assert made == {'data', 'student', 'export', 'evaluation', 'benchmark'}
  train = RecordSet(str(folder / 'data' / 'train'))
  assert {title for _, title in train.texts()} <= {
    text for n in range(7) for text in (f'thing {n}', f'thing {n} red')
  }
  results = json.loads((folder / 'results.json').read_text('utf-8'), parse_constant=pytest.fail)
  (student,) = results['models']
  assert (student['name'], len(results['training'])) == ('student', 1)
  assert set(student['test']) == {'auc_roc', 'average_precision', 'accuracy', 'f1', 'log_loss'}
  assert set(results['data']) == {'train', 'valid', 'test'}
  assert (results['flags']['alpha'], 'annotation' in results) == (0, False)
  assert {part['learnt'] for part in results['unseen']} == {'train'}
  card, page = (
    (folder / 'README.md').read_text('utf-8'),
    (folder / 'report.html').read_text('utf-8'),
  )
  assert 'trained on labels, without a teacher' in card and 'knowledge-distillation' not in card
  for said in (card, page):
    assert not re.search('(?<!without a )teacher', said.split('Command')[0].split('## How it')[0])
  assert_exported_scores_are_the_calibrated_ones(folder)
  assert run(f'--flagfile={folder}/flags.txt').returncode == 0


def assert_exported_scores_are_the_calibrated_ones(folder):
  """They also give the report's thresholds, which were fitted on valid; here valid is test."""
  results = json.loads((folder / 'results.json').read_text())
  found, scorer = results['calibration'], Scorer.load(str(folder / 'export'))
  assert found['temperature'] != 1
  described = exported.describe(str(folder / 'export'))['calibration']
  assert described == {'temperature': found['temperature']}
  texts = [list(of) for of in zip(*RecordSet(f'{folder}/data/test').texts(), strict=True)]
  scores = scorer.score(*texts)
  in_litert = Scorer.load(str(folder / 'export'), 'litert', encoder_runtime='litert')
  np.testing.assert_allclose(in_litert.score(*texts), scores, atol=1e-5)
  best = found['thresholds'][-1]
  above, at_least = (int((scores > best['threshold'] + by).sum()) for by in (1e-6, -1e-6))
  assert best['best_on_valid'] and above < best['count'] <= at_least  # within rounding
  before, after = found['models']['student, uncalibrated'], found['models']['student']
  assert after['ece'] < before['ece']
  assert sum(row['count'] for row in after['bins']) == len(scores)
