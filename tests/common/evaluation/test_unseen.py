"""Quality on texts that were not learnt from."""

import numpy as np
import pytest

from common.data import record_writer
from common.data.examples import Example
from common.data.records import RecordSet
from common.data.task import Task
from common.evaluation import metrics, unseen


def test_parts_of_a_set_by_what_was_not_learnt_with_the_metric_and_its_interval(tmp_path):
  random = np.random.default_rng(0)
  lefts = ['known'] * 150 + [f'new {i // 2}' for i in range(250)]
  rights = [('Known, too', 'never met')[i % 3 > 0] for i in range(400)]
  labels = random.random(400)
  rows = [Example('', texts, y) for *texts, y in zip(lefts, rights, labels, strict=True)]
  learnt = [Example('', ('KNOWN', 'x'), 0.5), Example('', ('x', 'known , too'), 0.5)]
  sets = {name: record_writer.of_examples(of) for name, of in (('train', learnt), ('test', rows))}
  record_writer.write_sets(str(tmp_path), sets, 2)
  test = RecordSet(str(tmp_path / 'test'))
  logits = {
    name: {'test': (labels + random.normal(0, by, 400))[:, None]}
    for name, by in (('teacher', 0.1), ('student', 0.3))
  }
  train = RecordSet(str(tmp_path / 'train'))
  left, right, both, none = unseen.parts({'test': test}, {'train': train}, logits, Task())
  new = np.arange(400) >= 150
  never = np.arange(400) % 3 > 0
  assert [part['tuples'] for part in (left, right, both)] == [250, never.sum(), (new & never).sum()]
  assert (none['unseen'], none['tuples']) == ('none', 400 - (new | never).sum())
  assert {key: left[key] for key in ('set', 'learnt', 'unseen')} == {
    'set': 'test',
    'learnt': 'train',
    'unseen': 'left',
  }
  assert 'models' in right and 'models' not in both  # of 166, fewer than 200
  for name, of in logits.items():
    expected = metrics.evaluate('regression', labels[new], of['test'][new])['pearson']
    found = left['models'][name]
    assert found['value'] == pytest.approx(expected)
    assert found['interval'][0] < expected < found['interval'][1]
  student, teacher = (left['models'][name] for name in ('student', 'teacher'))
  assert student['delta'] == pytest.approx(student['value'] / teacher['value'] - 1)
  assert student['delta_interval'][1] < 0 and student['p_value'] == 0
  assert 'delta' not in teacher


def test_labels_that_are_alike_in_a_part_give_no_metric(tmp_path):
  rows = [Example('', (f'l {i}', 'r'), 1.0) for i in range(200)]
  sets = {'train': [Example('', ('a', 'b'), 0.0)], 'test': [*rows, Example('', ('a', 'c'), 0.0)]}
  numbered = {name: record_writer.of_examples(of) for name, of in sets.items()}
  record_writer.write_sets(str(tmp_path), numbered, 2)
  test, z = RecordSet(str(tmp_path / 'test')), np.zeros([201, 1])
  learnt = {'train': RecordSet(str(tmp_path / 'train'))}
  parts = unseen.parts({'test': test}, learnt, {'student': {'test': z}}, Task('binary'))
  assert [part['tuples'] for part in parts] == [200, 201, 200, 0]
  assert ['models' in part for part in parts] == [False, True, False, False]


def test_tuples_that_were_learnt_from_are_known_by_normal_form_and_in_either_order(tmp_path):
  rows = [('a', 'B '), ('b', 'a'), ('a', 'a'), ('a', 'c')]
  learnt = [Example('', ('A', 'b'), 0.5), Example('', ('c', 'd'), 0.5)]
  sets = {'train': learnt, 'test': [Example('', texts, 0.0) for texts in rows]}
  numbered = {name: record_writer.of_examples(of) for name, of in sets.items()}
  record_writer.write_sets(str(tmp_path), numbered, 2)
  test, train = (RecordSet(str(tmp_path / name)) for name in ('test', 'train'))
  assert unseen.standing(test, train).tolist() == [True, True, False, False]
