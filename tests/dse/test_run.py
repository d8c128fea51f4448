"""The command, as a person runs it: a GLUE task, killed again and again; and misled."""

import dataclasses
import json
import shutil

import pytest

from common.data.examples import TableConfig
from common.data.records import RecordSet
from common.distillation.config import ExperimentConfig
from common.distillation.dataset import DataConfig
from common.distillation.pairing import PairingConfig
from common.distillation.sources.tables import TablesConfig
from common.errors import InputError
from common.modeling.losses import LossConfig
from dse.config import StudentConfig, TrainConfig
from dse.run import DSEStudent, RunConfig
from tests.robustness import contents

TOY = (
  *(
    '--pretrained=random-tiny',
    '--teacher_pretrained=random-tiny',
    '--pooled_layers=1',
    '--teacher_similarity=',
  ),
  *('--max_lengths=16,16', '--teacher_max_length=32', '--similarity_dim=8', '--encoder_layers=1'),
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
  """Folder of a finished run."""
  folder = tmp_path_factory.mktemp('mrpc')
  done = run('--flagfile=configs/mrpc.flags', f'--data_dir={glue}', f'--run_dir={folder}', *TOY)
  assert done.returncode == 0, done.stderr.split('Extension modules')[0][-5000:]
  return folder


def test_a_run_exports_its_first_variant_and_keeps_the_others(finished):
  for name in ('export/head/1', 'student/labels', 'student/frozen', 'report.html'):
    assert (finished / name).exists(), name
  found = json.loads((finished / 'results.json').read_text())
  assert list(found['calibration']['models']) == ['teacher', 'student']
  assert found['flags']['dropout'] == 0.1


def test_killed_again_and_again_it_ends_with_the_same_weights(
  finished, glue, run, tmp_path, kill_at
):
  folder = tmp_path / 'run'
  shutil.copytree(finished, folder, ignore=shutil.ignore_patterns('student'))
  arguments = ('--flagfile=configs/mrpc.flags', f'--data_dir={glue}', f'--run_dir={folder}', *TOY)
  for phase in ('phase', 'labels/phase', 'frozen/phase'):  # of the first variant, and the others
    kill_at(command(*arguments), folder / 'student.part' / phase, 3)
  done = run(*arguments)
  assert done.returncode == 0, done.stderr.split('Extension modules')[0][-5000:]
  assert contents.of(f'{folder}/student') == contents.of(f'{finished}/student')


def test_a_distillation_file_with_labels_and_logits_takes_every_alpha(tmp_path, run, kill_at):
  rows = [('q', 'p', 'y', 'z')]
  rows += [(f'red {i}', f'the {i % 5}', f'{i % 2}', f'{i % 3 - 1}') for i in range(24)]
  path = tmp_path / 'distill.tsv'
  path.write_text('\n'.join('\t'.join(row) for row in rows) + '\n', encoding='utf-8')
  judging = tmp_path / 'judging.tsv'
  judging.write_text(path.read_text().replace('red', 'blue'), encoding='utf-8')
  files = [f'--distillation_file={path}']
  files += [f'--{name}_file={judging}' for name in ('valid', 'test')]
  columns = ('--text_columns=q,p', '--label_column=y', '--teacher_logits_column=z', '--task=binary')
  kill_at(command(f'--run_dir={tmp_path}/run', *files, *columns, *TOY), tmp_path / 'run/student')
  found = RecordSet(f'{tmp_path}/run/distill').tuples()
  assert found.labels[:4].tolist() == [0, 1, 0, 1]
  assert found.teacher_logits[:4, 0].tolist() == [-1, 0, 1, -1]
  path.write_text(path.read_text() + 'red\tthe\t\t0\n', encoding='utf-8')
  files[1:] = [f'--{name}_file={tmp_path}/labelled.tsv' for name in ('valid', 'test')]
  (tmp_path / 'labelled.tsv').write_text('q\tp\ty\na\tb\t1\nc\td\t0\n', encoding='utf-8')
  for changed, message in (
    ((), f"{path}:26: label '' is not a finite number"),
    (('--label_column=gold',), f"{path}: has no column 'gold', and this loss needs labels"),
  ):
    done = run(f'--run_dir={tmp_path}/other', *files, *columns, *TOY, *changed)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith('error:')]
    assert (done.returncode, message in line) == (2, True), line
  assert not (tmp_path / 'other' / 'unlabelled').exists()


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
      '--variants=frozen,teacher,distilled: teacher and distilled are one student, of alpha 1; '
      'leave',
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
