"""Metrics of a run's models, with the chance of their differences."""

import functools

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, P, nDCG

from common.data import record_writer
from common.data.examples import Example
from common.data.task import Task
from common.distillation import held_out
from common.evaluation import significance
from common.evaluation.evaluation import evaluate


@pytest.fixture
def few_resamples(monkeypatch):
  """For tests of which nothing depends on how many there are."""
  few = functools.partial(significance.resampled, samples=20)
  monkeypatch.setattr(significance, 'resampled', few)


def _evaluated(folder, scorers, task, *args, **kwargs):
  return evaluate(held_out.judging_sets(str(folder)), scorers, task, str(folder), *args, **kwargs)


def test_each_model_is_compared_with_the_teacher_and_the_student_with_its_first_stage(tmp_path):
  random = np.random.default_rng(0)
  labels = random.random(200)
  rows = [Example(f'r{i}', (f'l {i}', f'r {i}'), label) for i, label in enumerate(labels)]
  sets = {name: record_writer.of_examples(rows, 2) for name in ('valid', 'test')}
  record_writer.write_sets(str(tmp_path), sets, 2)
  noise = {'teacher': 0.1, 'student, stage 1': 2.0, 'student': 0.12, 'teacher 1': 0.3}
  logits = {name: (labels + random.normal(0, by, 200))[:, None] for name, by in noise.items()}
  names = ['teacher', 'teacher 1', 'student, stage 1', 'student']
  scorers = {name: lambda records, name=name: logits[name] for name in names}
  found = _evaluated(tmp_path, scorers, Task(), alone=['teacher 1'])
  teacher, one, first, student = found.models
  assert 'delta' not in teacher
  (against_one,) = found.against_one
  assert (against_one['model'], against_one['baseline']) == ('student', 'teacher 1')
  ratio = student['test']['pearson'] / one['test']['pearson']
  assert against_one['delta'] == pytest.approx(ratio - 1) and against_one['low'] > 0
  for model in (first, student):
    (low, high), delta = model['interval']['test'], model['delta']['test']
    assert low < delta < high
    assert delta == pytest.approx(model['test']['pearson'] / teacher['test']['pearson'] - 1)
  assert first['p_value']['test'] == 0 and first['interval']['test'][1] < -0.3
  tested = found.significance
  assert (tested['model'], tested['baseline']) == ('student', 'student, stage 1')
  assert tested['low'] > 1 and tested['p_value'] == 0


@pytest.mark.usefixtures('few_resamples')
def test_students_are_tested_against_each_other_as_they_were_trained(tmp_path):
  rows = [Example('', (f'l {i}', 'r'), i % 2) for i in range(40)]
  sets = {name: record_writer.of_examples(rows, 2) for name in ('valid', 'test')}
  record_writer.write_sets(str(tmp_path), sets, 2)
  logits = 4 * np.random.default_rng(0).normal(size=(40, 1))
  scorers = dict.fromkeys(['labels', 'student'], lambda records: logits)
  found = _evaluated(tmp_path, scorers, Task('binary', metric='log_loss'), 3.0)
  before, student = (model['test']['log_loss'] for model in found.models)
  assert student < before  # of its scores, which are calibrated
  assert (found.significance['delta'], found.significance['p_value']) == (0, 1)


@pytest.mark.usefixtures('few_resamples')
@pytest.mark.parametrize('scored', [('valid',), ('test',), ('valid', 'test')])
def test_logits_that_some_sets_bring_are_no_teacher(scored, tmp_path, capsys):
  def rows(name):
    z = [(float(i),) if name in scored else None for i in range(4)]
    rows = [Example('', (f'l {i}', 'r'), i / 3, teacher_logits=z[i]) for i in range(4)]
    return record_writer.of_examples(rows, 2)

  record_writer.write_sets(str(tmp_path), {name: rows(name) for name in ('valid', 'test')}, 2)
  scorers = {name: lambda records: np.arange(4.0)[:, None] for name in ('first', 'student')}
  models = _evaluated(tmp_path, scorers, Task()).models
  whole = len(scored) == 2
  assert [model['name'] for model in models] == ['teacher'] * whole + ['first', 'student']
  assert ('delta' in models[-1]) == whole
  assert ("without the teacher's logits" in capsys.readouterr().out) == (not whole)


def test_trec_eval_finds_in_the_files_what_the_results_say(tmp_path):
  """Grades in halves; a query with one candidate; one with equal scores; one with no good text."""
  random = np.random.default_rng(1)
  labels = [*(random.integers(0, 3, 90) / 2), *[0.0] * 6, 1.0]
  texts = [*((f'q {i // 6}', f'd {i % 8}') for i in range(96)), ('alone', 'd 1')]
  rows = [Example('', of, label) for of, label in zip(texts, labels, strict=True)]
  sets = {name: record_writer.of_examples(rows) for name in ('valid', 'test')}
  record_writer.write_sets(str(tmp_path), sets, 2)
  logits = {
    'teacher': np.round(np.array(labels) + random.normal(0, 0.4, 97)),
    'student': random.normal(0, 1, 97),
  }
  scorers = {name: lambda records, z=z: z[:, None] for name, z in logits.items()}
  found = _evaluated(tmp_path, scorers, Task('regression', metric='map'))
  of = found.ranking['test']
  assert (of['queries'], of['candidates'], of['one_candidate']) == (16, 96, 1)
  assert of['none_relevant'] >= 1 and of['trec'] == {'grade_of_1': 2, 'relevant_from': 1}
  qrels = list(ir_measures.read_trec_qrels(str(tmp_path / 'test.qrels')))
  measures = {'ndcg@10': nDCG @ 10, 'map': AP, 'precision@10': P @ 10}
  for model in found.models:
    run = list(ir_measures.read_trec_run(str(tmp_path / f'test.{model["name"]}.run')))
    theirs = ir_measures.calc_aggregate(measures.values(), qrels, run)
    for name, measure in measures.items():
      assert model['ranking']['test'][name]['value'] == pytest.approx(theirs[measure], rel=1e-9)
  teacher, student = found.models
  assert student['test']['map'] == student['ranking']['test']['map']['value']
  change = student['ranking']['test']['map']
  assert change['delta'] == pytest.approx(student['test']['map'] / teacher['test']['map'] - 1)
  assert change['delta_interval'] == student['interval']['test'] and change['p_value'] < 0.01
  worst = of['worst']['queries']
  gaps = [query['teacher'] - query['student'] for query in worst]
  assert of['worst']['metric'] == 'map' and gaps == sorted(gaps, reverse=True) and gaps[-1] > 0
  assert worst[0]['candidates'][0]['label'] == 1 and worst[0]['more'] == 1


@pytest.mark.usefixtures('few_resamples')
def test_candidates_are_ranked_by_logits_before_calibration(tmp_path):
  logits = np.array([21, 22, 24, 26, 26, 24, 22, 21.0])[
    :, None
  ]  # calibrated, one number in float32
  texts = [(f'q {i // 4}', f'd {i % 4}') for i in range(8)]
  best = (logits[:, 0] == 26).astype(float)
  rows = [Example('', of, label) for of, label in zip(texts, best, strict=True)]
  sets = {name: record_writer.of_examples(rows) for name in ('valid', 'test')}
  record_writer.write_sets(str(tmp_path), sets, 2)
  scorers = {'teacher': lambda records: -logits, 'student': lambda records: logits}
  flat = np.inf  # a temperature after which all are one number
  found = _evaluated(tmp_path, scorers, Task('binary', metric='map'), flat)
  teacher, student = found.models
  assert (teacher['test']['map'], student['test']['map']) == (0.25, 1.0)
  assert student['ranking']['test']['map']['value'] == 1.0 and student['delta']['test'] == 3.0
