"""Metrics of a run's models, with the chance of their differences."""

import numpy as np
import pytest

from common.data import record_writer
from common.data.examples import Example
from common.distillation import results


def test_each_model_is_compared_with_the_teacher_and_the_student_with_its_first_stage(tmp_path):
  random = np.random.default_rng(0)
  labels = random.random(200)
  rows = [Example(f'r{i}', (f'l {i}', f'r {i}'), label) for i, label in enumerate(labels)]
  sets = {name: record_writer.of_examples(rows, 2) for name in ('valid', 'test')}
  record_writer.write_sets(str(tmp_path), sets, 2)
  noise = {'teacher': 0.1, 'student, stage 1': 2.0, 'student': 0.12}
  logits = {name: (labels + random.normal(0, by, 200))[:, None] for name, by in noise.items()}
  scorers = {name: lambda records, name=name: logits[name] for name in noise}
  found = results.evaluate(scorers, 'regression', str(tmp_path), str(tmp_path))
  teacher, first, student = found['models']
  assert 'delta' not in teacher
  for model in (first, student):
    (low, high), delta = model['interval']['test'], model['delta']['test']
    assert low < delta < high
    assert delta == pytest.approx(model['test']['pearson'] / teacher['test']['pearson'] - 1)
  assert first['p_value']['test'] == 0 and first['interval']['test'][1] < -0.3
  tested = found['significance']
  assert (tested['model'], tested['baseline']) == ('student', 'student, stage 1')
  assert tested['low'] > 1 and tested['p_value'] == 0
