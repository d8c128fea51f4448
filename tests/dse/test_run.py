"""The command, as a person runs it: GLUE's tasks in turn, Table 1 at their end; and misled."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

import dse
from common.data.examples import TableConfig
from common.data.records import RecordSet
from common.distillation.config import ExperimentConfig
from common.distillation.dataset import DataConfig
from common.distillation.finished_run import FinishedRun
from common.distillation.pairing import PairingConfig
from common.distillation.sources.tables import TablesConfig
from common.errors import InputError
from common.files import read_json
from common.modeling.losses import LossConfig
from dse import senteval, suite
from dse.config import StudentConfig, TrainConfig
from dse.run import DSEStudent, RunConfig
from dse.student import DSE

TOY = (
  *('--pretrained=random-tiny', '--teacher_pretrained=random-tiny', '--pooled_layers=2'),
  *('--max_lengths=16,16', '--teacher_max_length=32', '--similarity_dim=8', '--encoder_layers=0'),
  *('--teacher_steps=6', '--teacher_eval_every=3', '--steps=6', '--eval_every=3'),
  *('--batch_size=8', '--frozen_batch_size=8'),
  *('--frozen_steps=6', '--frozen_eval_every=3', '--variants=distilled,labels,frozen'),
  '--dropout=0.1',  # the default, which configs/mrpc.flags is not at
)


def command(*arguments):
  return ['-m', 'dse.run', *arguments]


@pytest.fixture(name='run', scope='module')
def _run(python):
  return lambda *arguments: python(*command(*arguments))


@pytest.fixture(name='glue', scope='module')
def _glue(tmp_path_factory):
  """A GLUE folder with a tiny MRPC."""
  folder = tmp_path_factory.mktemp('glue')
  words = ['red', 'blue', 'green', 'black', 'white', 'grey', 'pink', 'brown']
  pairs = [(a, b, (i + j) % 2) for i, a in enumerate(words) for j, b in enumerate(words)]
  (folder / 'MRPC').mkdir()
  for name, start in (('train', 0), ('dev', len(pairs))):
    mrpc = ['Quality\t#1 ID\t#2 ID\t#1 String\t#2 String']
    mrpc += [f'{same}\t1\t2\t{a} {i}\tthe {b}' for i, (a, b, same) in enumerate(pairs, start)]
    (folder / 'MRPC' / f'{name}.tsv').write_text('\n'.join(mrpc) + '\n', encoding='utf-8')
  return folder


@pytest.fixture(name='finished', scope='module')
def _finished(glue, run, tmp_path_factory):
  """A finished suite: (folder, output)."""
  folder = tmp_path_factory.mktemp('suite')
  suite = '--suite=configs/mnli.flags,configs/mrpc.flags'
  done = run(suite, f'--run_dir={folder}', f'--suite_data_dir={glue}', *TOY)
  assert done.returncode == 0, done.stderr.split('Extension modules')[0][-5000:]
  return folder, done.stdout


def test_a_suite_runs_the_tasks_that_are_there_and_makes_table_1(finished):
  folder, output = finished
  assert 'mnli: passed over: ' in output
  with open(folder / 'table1.json', encoding='utf-8') as file:
    made = json.load(file)
  table = made['table']
  assert f'--run_dir={folder} --suite_data_dir=' in made['command']  # as it was given
  assert table['headers'] == ['Model', 'MRPC', 'AVG', 'Degradation', 'Improvement']
  names = ['Teacher', 'DSE (frozen, alpha = 1)', 'DSE (alpha = 0)', 'DSE (alpha = 0.5)']
  assert [row[0] for row in table['rows'][:4]] == names
  for name in ('export/head/1', 'student/labels', 'student/frozen', 'report.html'):
    assert (folder / 'mrpc' / name).exists(), name
  found = json.loads((folder / 'mrpc' / 'results.json').read_text())
  assert list(found['calibration']['models']) == ['teacher', 'student']
  assert found['flags']['dropout'] == 0.1


def test_senteval_judges_each_trained_encoder_beside_their_checkpoint(
  finished, tmp_path, monkeypatch
):
  run_dir, data = str(finished[0] / 'mrpc'), tmp_path / 'MR'
  data.mkdir()
  for name in ('pos', 'neg'):
    (data / f'rt-polarity.{name}').write_text(f'{name} a\n{name} b\n{name} c\n{name} d\n')
  output = str(tmp_path / 'table.json')
  asked = {'run_dir': run_dir, 'data_dir': str(tmp_path), 'folds': 2, 'output': output}
  senteval.main(senteval.SentEvalConfig(**asked))
  found = read_json(output)['scores']
  # A frozen encoder is the first one.
  assert list(found) == ['random-tiny', 'DSE (alpha = 0.5)', 'DSE (alpha = 0)']
  assert len([*(finished[0] / 'mrpc' / 'senteval').rglob('*.npy')]) == 3
  _, start = next(senteval._encoders(FinishedRun(run_dir, 'dse')))
  frozen = senteval._encoder(*DSE.load(f'{run_dir}/student/frozen'))
  np.testing.assert_allclose(start(['pos a']), frozen(['pos a']), atol=1e-6)
  monkeypatch.setattr(senteval, 'evaluate', None)  # what is done is not done again
  senteval.main(senteval.SentEvalConfig(**asked))
  assert read_json(output)['scores'] == found
  with pytest.raises(InputError, match=f'--tasks=CR: in {tmp_path} are MR'):
    senteval.main(senteval.SentEvalConfig(**asked, tasks=('MR', 'CR')))
  with pytest.raises(InputError, match='/none: no results.json; name the folder of a finished run'):
    senteval.main(senteval.SentEvalConfig(run_dir='/none', data_dir=str(tmp_path)))


def test_a_task_that_a_signal_ends_is_named(glue, tmp_path, monkeypatch, capsys):
  monkeypatch.setattr(suite, '_ended', lambda command: -9)
  with pytest.raises(SystemExit) as ended:
    suite.run(['configs/mrpc.flags'], str(tmp_path), str(glue), RunConfig())
  assert ended.value.code == 137
  says = 'mrpc: ended by signal 9 (Killed); the same command goes on\n'
  assert capsys.readouterr().err == says


def test_killed_again_and_again_it_ends_with_the_same_weights(
  finished, glue, run, tmp_path, kill_at, last_step
):
  arguments = ('--flagfile=configs/mrpc.flags', f'--data_dir={glue}', f'--run_dir={tmp_path}', *TOY)
  for phase in ('phase', 'labels/phase', 'frozen/phase'):  # of the first variant, and the others
    kill_at(command(*arguments), tmp_path / 'student.part' / phase, 3)
  for name in ('export', 'benchmark'):  # which the weights are not of
    shutil.copytree(finished[0] / 'mrpc' / name, tmp_path / name)
  done = run(*arguments)
  assert done.returncode == 0, done.stderr.split('Extension modules')[0][-5000:]
  for phase in ('teacher', 'student/phase', 'student/labels/phase', 'student/frozen/phase'):
    expected, found = last_step(finished[0] / 'mrpc' / phase), last_step(tmp_path / phase)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
      np.testing.assert_array_equal(found[name], values, err_msg=f'{phase} {name}')


def test_a_distillation_file_with_labels_and_logits_takes_every_alpha(tmp_path, run):
  rows = [('q', 'p', 'y', 'z')]
  rows += [(f'red {i}', f'the {i % 5}', f'{i % 2}', f'{i % 3 - 1}') for i in range(24)]
  path = tmp_path / 'distill.tsv'
  path.write_text('\n'.join('\t'.join(row) for row in rows) + '\n', encoding='utf-8')
  judging = tmp_path / 'judging.tsv'
  judging.write_text(path.read_text().replace('red', 'blue'), encoding='utf-8')
  files = [f'--distillation_file={path}']
  files += [f'--{name}_file={judging}' for name in ('valid', 'test')]
  columns = ('--text_columns=q,p', '--label_column=y', '--teacher_logits_column=z', '--task=binary')
  done = run(f'--run_dir={tmp_path}/run', *files, *columns, *TOY)
  assert done.returncode == 0, done.stderr.split('Extension modules')[0][-5000:]
  found = RecordSet(f'{tmp_path}/run/distill').tuples()
  assert found.labels[:4].tolist() == [0, 1, 0, 1]
  assert found.teacher_logits[:4, 0].tolist() == [-1, 0, 1, -1]
  path.write_text(path.read_text() + 'red\tthe\t\t0\n', encoding='utf-8')
  files[1:] = [f'--{name}_file={tmp_path}/labelled.tsv' for name in ('valid', 'test')]
  (tmp_path / 'labelled.tsv').write_text('q\tp\ty\na\tb\t1\nc\td\t0\n', encoding='utf-8')
  for changed, message in (
    ((), f"{path}:26: label '' is not a finite number"),
    (('--label_column=gold',), f"{path}: no column 'gold', and the loss takes labels"),
  ):
    done = run(f'--run_dir={tmp_path}/other', *files, *columns, *TOY, *changed)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith('error:')]
    assert (done.returncode, message in line) == (2, True), line
  assert not (tmp_path / 'other' / 'unlabelled').exists()


def test_table_1_by_hand():
  flags = {'variants': ['distilled'], 'alpha': 0.5}
  scores = {'accuracy': 0.8, 'f1': 0.9, 'pearson': 0.6, 'spearman': 0.5}
  lower = {name: value - 0.1 for name, value in scores.items()}
  models = [{'name': 'teacher', 'test': scores}, {'name': 'student', 'test': lower}]
  table = suite.table1({task: {'models': models, 'flags': flags} for task in ('stsb', 'mrpc')})
  assert table.headers == ['Model', 'MRPC', 'STS-B', 'AVG', 'Degradation', 'Improvement']
  assert table.rows[0] == ['Teacher', '90.0/80.0', '60.0/50.0', '70.00', '0.0%', '-14.3%']
  assert table.rows[1] == ['DSE (alpha = 0.5)', '80.0/70.0', '50.0/40.0', '60.00', '-14.3%', '']
  paper = next(row for row in table.rows if row[0] == 'DSE (alpha = 0.5), the paper')
  assert paper[1:] == ['86.7/80.7', '86.4/85.8', '84.90', '-2.6%', '']
  assert 'STS-B: ours are of the dev set' in table.note and ' MRPC: ours' not in table.note
  some = {
    'stsb': {'models': models[:1], 'flags': flags},
    'mrpc': {'models': models, 'flags': flags},
  }
  assert suite.table1(some).rows[1] == ['DSE (alpha = 0.5)', '80.0/70.0', '', '', '', '']
  undefined = {'name': 'student', 'test': {**lower, 'pearson': None}}  # of constant scores
  some['stsb'] = {'models': [models[0], undefined], 'flags': flags}
  assert suite.table1(some).rows[1][:4] == ['DSE (alpha = 0.5)', '80.0/70.0', 'nan/40.0', 'nan']
  alone = [models[0], {'name': 'teacher 1', 'test': lower}, models[1]]
  (note, _, rows) = suite.table1({'mrpc': {'models': alone, 'flags': flags}})
  assert 'dev set' not in note  # MRPC's test set has labels
  assert [row[0] for row in rows[:3]] == ['Teacher', 'Teacher 1', 'DSE (alpha = 0.5)']
  lower_by = {'delta': {'test': -0.125}, 'interval': {'test': [-0.2, 0.01]}}
  done = {'models': [models[0], models[1] | lower_by], 'flags': flags, 'primary_metric': 'accuracy'}
  done['significance'] = {'model': 'student', 'baseline': 'student, labels', 'delta': 0.02}
  done['significance'] |= {'low': 0.01, 'high': 0.03, 'p_value': 0.02}
  found = suite.changes({'mrpc': done})
  assert found.headers == ['Change', 'MRPC, Accuracy']
  assert found.rows == [
    ['DSE (alpha = 0.5)', '-12.5% [-20.0, 1.0]'],
    ['DSE (alpha = 0.5) against DSE (alpha = 0)', '+2.0% [1.0, 3.0]'],
  ]


DATA = DataConfig(pairing=PairingConfig(distillation_pairs=0))
CLASSES = dataclasses.replace(DATA, table=TableConfig(task='multiclass', classes=('a', 'b', 'c')))


def test_a_student_depends_on_what_its_checkpoint_holds(tmp_path):
  (tmp_path / 'weights').write_text('one')
  student = StudentConfig(pretrained=f'bilstm:{tmp_path}')
  config = RunConfig(experiment=ExperimentConfig(data=DATA), student=student)
  before = DSEStudent(config).depends_on
  (tmp_path / 'weights').write_text('two')
  after = DSEStudent(config).depends_on
  assert {name for name in after if after[name] != before[name]} == {f'contents of {tmp_path}'}


@pytest.mark.parametrize(
  ('make', 'message'),
  [
    (
      lambda: dse.distill(flagfile='glue', run_dir='x'),
      '--suite is of the command alone: python -m dse.run --suite=',
    ),
    (lambda: suite.run(['configs/mrpc.flags'], '', 'x', RunConfig()), '--suite needs --run_dir'),
    (
      lambda: suite.run(['configs/p2t.flags'], 'x', 'y', RunConfig()),
      'configs/p2t.flags: a flagfile named after one of mrpc',
    ),
    (
      lambda: RunConfig(
        experiment=ExperimentConfig(
          data=DataConfig(TablesConfig('t.tsv'), table=TableConfig(text_columns='abc'))
        )
      ),
      '--text_columns names 3 texts; DSE takes two',
    ),
    (
      lambda: TrainConfig(
        variants=('frozen', 'teacher', 'distilled'), objective=LossConfig(alpha=1.0)
      ),
      '--variants=frozen,teacher,distilled: teacher and distilled are one student, of alpha 1; leave',
    ),
    (
      lambda: StudentConfig(encoder_layers=2),
      '--pooled_layers=4: the last layers of --encoder_layers=2, so as many at the most',
    ),
    (
      lambda: RunConfig(
        experiment=ExperimentConfig(data=CLASSES),
        train=TrainConfig(objective=LossConfig('listwise_kl')),
      ),
      '--loss=listwise_kl compares tuples by one output, and --task=multiclass has 3',
    ),
  ],
)
def test_flags_that_do_not_fit_are_refused(make, message):
  with pytest.raises(InputError, match=message):
    make()
