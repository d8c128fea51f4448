"""An export judged on a table: as a run judged it, against slow references, and refused."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import sklearn.metrics
from scipy.special import expit

import dipair
import dse
from common import files
from common.data.records import RecordSet
from common.errors import InputError
from tests import limits
from tests.conftest import PRODUCTS, ROOT, TERMS

PAIRS = [(term, product) for term in TERMS for product in PRODUCTS]


def _table(labels, **columns):
  rows = zip(PAIRS, labels, strict=True)
  return [{'left': a, 'right': b, 'label': y, **columns} for (a, b), y in rows]


def _write(path, rows):
  lines = ['\t'.join(map(str, row)) for row in ([*rows[0]], *(row.values() for row in rows))]
  path.write_text('\n'.join(lines) + '\n', 'utf-8')
  return str(path)


@pytest.fixture(name='labels')
def _labels():
  return np.random.default_rng(0).integers(0, 2, len(PAIRS))


def test_the_export_of_a_run_is_judged_on_its_test_set_as_in_the_run(smoke_run, python, tmp_path):
  run = smoke_run / 'copy'
  sets = {name: RecordSet(str(run / 'data' / name)) for name in ('train', 'test')}
  rows = [
    {'term': a, 'product': b, 'label': y}
    for of, count in (('test', None), ('train', 1))
    for (a, b), y in zip(
      sets[of].texts(slice(count)), sets[of].tuples().labels[:count].tolist(), strict=True
    )
  ]
  learnt, output = rows.pop(), tmp_path / 'judged'
  export, teacher = f'--export={run}/export', f'--teacher={run}/teacher'
  table = f'--test_file={_write(tmp_path / "new.tsv", rows)}'
  done = python('-m', 'common.evaluate', export, table, teacher, f'--output={output}')
  assert done.returncode == 0, done.stderr
  found, own = (files.read_json(str(folder / 'results.json')) for folder in (output, run))
  assert found.keys() <= own.keys() | {'seal'}
  assert sorted(os.listdir(output)) == [
    *('report.html', 'results.json', 'scores.npz'),
    *('test.qrels', 'test.student.run', 'test.teacher.run'),
  ]
  models = [{model['name']: model for model in of['models']} for of in (found, own)]
  for name in ('teacher', 'student'):
    ours, theirs = (of[name] for of in models)
    assert ours['test'] == pytest.approx(theirs['test'], abs=1e-4)
    for metric, value in theirs['metrics']['test'].items():
      interval = ours['metrics']['test'][metric]['interval']
      np.testing.assert_allclose(interval, value['interval'], rtol=0.1)
    assert f'Spearman, {name}' in done.stdout
  assert found['data'] == {'test': len(rows)}
  assert found['flags']['text_columns'] == own['flags']['text_columns']
  keys = ('set', 'learnt', 'unseen', 'tuples')
  ours, theirs = ([[of[key] for key in keys] for of in r['unseen']] for r in (found, own))
  assert ours == [of for of in theirs if of[0] == 'test']
  assert [unseen for _, _, unseen, _ in ours] == 2 * ['left', 'right', 'both', 'none']
  counted = dipair.evaluate(f'{run}/export', [*rows, learnt])['data']
  assert counted['test, in train'] == 1


def test_metrics_of_a_table_against_slow_ones_of_the_scores(export, labels, load):
  folder = export('dipair').folder
  left, right = zip(*PAIRS, strict=True)
  scores = load(folder).score(list(left), list(right)).astype(float)
  teacher = expit(2.0 * labels - 1 + np.random.default_rng(1).normal(size=len(labels)))
  known = dict(zip(PAIRS, teacher, strict=True))
  found = dipair.evaluate(
    folder,
    _table(labels),
    teacher=lambda texts: [known[pair] for pair in texts],
    teacher_scores='probability',
    task='binary',
  )
  of_teacher, student = found['models']
  for of, p in ((of_teacher, teacher), (student, scores)):
    slow = {
      'auc_roc': sklearn.metrics.roc_auc_score(labels, p),
      'average_precision': sklearn.metrics.average_precision_score(labels, p),
      'accuracy': np.mean((p >= 0.5) == labels),
      'f1': sklearn.metrics.f1_score(labels, p >= 0.5),
      'log_loss': sklearn.metrics.log_loss(labels, p),
    }
    assert of['test'] == pytest.approx(slow, abs=1e-5)
    for name, value in slow.items():
      low, high = of['metrics']['test'][name]['interval']
      assert low <= value + 1e-6 and value - 1e-6 <= high
  change = student['metrics']['test']['auc_roc']
  assert change['delta'] == pytest.approx(student['delta']['test'])
  assert change['p_value'] == student['p_value']['test'] < 0.1
  ranked = student['ranking']['test']['mrr@10']['value']
  best = []
  for rows in np.arange(len(PAIRS)).reshape(len(TERMS), -1):
    good = labels[rows[np.argsort(-scores[rows])]]
    best.append(1 / (1 + np.argmax(good)) if good.any() else 0)
  assert ranked == pytest.approx(np.mean(best))
  assert (found['student'], found['data'], found['unseen']) == ('dipair', {'test': 20}, [])
  assert [row['best_on_valid'] for row in found['calibration']['thresholds']] == [False] * 5


def test_scores_of_the_table_are_those_of_a_teacher_and_classes_are_judged(classes, load, tmp_path):
  random, logs = np.random.default_rng(0), ['0 1 2', '3 1 0', '0 5 -1', '1 1 1'] * 5
  rows = [
    {**row, 'z': z} for row, z in zip(_table(random.choice(['a', 'b', 'c'], 20)), logs, strict=True)
  ]
  path = _write(tmp_path / 'new.tsv', rows)
  flags = {'task': 'multiclass', 'classes': 'a,b,c', 'teacher_logits_column': 'z'}
  found = dse.evaluate(classes.folder, path, output=tmp_path / 'judged', **flags)
  teacher, student = found['models']
  said = [np.argmax([float(number) for number in z.split()]) for z in logs]
  right = np.mean([row['label'] == 'abc'[n] for row, n in zip(rows, said, strict=True)])
  assert (teacher['name'], teacher['test']['accuracy']) == ('teacher', right)
  scores = load(classes.folder).score(*map(list, zip(*PAIRS, strict=True)))
  truth = ['abc'.index(row['label']) for row in rows]
  loss = -np.log(scores[np.arange(20), truth]).mean()
  assert student['test']['log_loss'] == pytest.approx(loss, abs=1e-5)
  assert json.loads((tmp_path / 'judged/results.json').read_text())['models'][1] == student


def _lacks(column):
  return [{k: v for k, v in row.items() if k != column} for row in _table([0, 1] * 10)]


ALIKE, TWICE = _table([1] * 20), _table([0.5, 3] * 10)
CASES = [
  ({'test': _lacks('label')}, "test, row 1: no column 'label'; it has left, right"),
  ({'test': _lacks('right')}, "test, row 1: no column 'right'; it has left, label"),
  ({'test': TWICE}, 'test, row 2: label 3 is outside --label_range=0,1'),
  ({'test': _table(['', '1'] * 10)}, "test, row 1: label '' is not a finite number"),
  ({'test': ALIKE}, 'test: regression needs labels that differ; all are 1'),
  ({'test': ALIKE, 'task': 'binary'}, 'test: AUC-ROC needs both classes; all 20 labels are of one'),
  ({'test': []}, 'test: no rows'),
  ({'test': 'nowhere.tsv'}, 'nowhere.tsv: cannot be read: No such file'),
  ({'export': 'nowhere'}, 'nowhere: no export there'),
  ({'text_columns': 'a,b,c'}, '--text_columns=a,b,c: the export takes 2: left, right'),
  ({'task': 'multiclass', 'classes': 'a,b'}, '--task=multiclass: 2 outputs; the export has 1'),
  ({'primary_metric': 'auc'}, '--primary_metric=auc: a regression task has pearson'),
  ({'vector_columns': 'left'}, "--vector_columns: the export takes texts as left, column 'left'"),
  ({'output': ROOT}, f'--output={ROOT}: there already'),
  ({'output': 'no/where'}, '--output=no/where: there is no folder'),
  ({'run_dir': 'nowhere'}, '--run_dir=nowhere: no results.json'),
  ({'teacher': 'nowhere'}, '--teacher=nowhere'),
  ({'teacher': 'a', 'teacher_logits_column': 'z'}, '--teacher, or scores that the table brings'),
  ({'teachers': 'a', 'teacher': 'b'}, 'teachers: given as a flag and by an argument of its own'),
  ({'runtime': 'fast'}, 'runtime'),
]


@pytest.mark.parametrize(('changes', 'says'), CASES)
def test_what_cannot_be_judged_is_refused_in_a_line(export, changes, says):
  light = {'runtime': 'litert-int8', 'encoder_runtime': 'litert-int8'}  # which are loaded sooner
  given = {'export': export('dipair').folder, 'test': _table([0.5, 1] * 10), **light, **changes}
  with pytest.raises(InputError) as refused:
    dipair.evaluate(given.pop('export'), given.pop('test'), **given)
  assert says in str(refused.value) and '\n' not in str(refused.value)


def test_the_export_of_another_run_is_refused(smoke_run, export):
  with pytest.raises(InputError, match='its export has other encoders than'):
    dipair.evaluate(export('dipair').folder, 'x.tsv', run_dir=str(smoke_run / 'copy'))


def test_an_environment_without_tensorflow_judges_and_says_what_it_lacks(
  smoke_run, labels, tmp_path
):
  rows = [{'term': a, 'product': b, 'label': y} for (a, b), y in zip(PAIRS, labels, strict=True)]
  table = f'--test_file={_write(tmp_path / "new.tsv", rows)}'
  command = ['-m', 'common.evaluate', f'--export={smoke_run}/copy/export', table]
  light = ['--runtime=litert-int8', '--encoder_runtime=litert-int8']

  def run(*arguments, lacks):
    code = f'import sys\nsys.modules.update(dict.fromkeys({lacks}))\n'
    (tmp_path / 'sitecustomize.py').write_text(code)
    return subprocess.run(
      [sys.executable, *command, *arguments],
      cwd=ROOT,
      env={**os.environ, 'PYTHONPATH': f'{tmp_path}{os.pathsep}{ROOT}'},
      capture_output=True,
      text=True,
      timeout=limits.PROCESS,
    )

  heavy = ['tensorflow', 'tf_keras', 'official', 'sklearn', 'pyarrow', 'psutil']
  done = run(*light, '--task=binary', lacks=heavy)
  assert done.returncode == 0 and 'AUC-ROC, student' in done.stdout, done.stderr
  assert done.stdout.startswith('seen and unseen texts: left out')
  for arguments, lacks, says in (
    ([*light, '--teacher=a'], heavy, 'a teacher is a model of TensorFlow: tensorflow is not inst'),
    ([], heavy, "encoder_runtime='litert-int8' does without TensorFlow: tensorflow is not inst"),
    (light, ['scipy'], 'an evaluation: scipy is not installed: pip install'),
  ):
    done = run(*arguments, lacks=lacks)
    assert (done.returncode, done.stdout) == (2, '')
    assert done.stderr.startswith('error: ') and says in done.stderr
