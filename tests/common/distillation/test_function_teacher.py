"""A function as the teacher: its scores as logits, and what is refused."""

import functools
import math

import numpy as np
import pytest

from common.data.examples import TableConfig
from common.data.items import Items
from common.data.records import RecordSet
from common.distillation import function_teacher
from common.distillation.config import ExperimentConfig
from common.distillation.teachers import Teachers
from common.errors import InputError

LOGITS, PROBABILITIES = TableConfig(), TableConfig(teacher_scores='probability')
CLASSES = TableConfig(task='multiclass', classes=('a', 'b'), teacher_scores='probability')


def lengths(pairs):
  return [len(left) - len(right) for left, right in pairs]


def label(function, table, folder):
  records, told = RecordSet(folder), []
  found = function_teacher.labeller(function, table, records)(records.tuples().items, told.append)
  logits = np.concatenate(list(found))
  assert sum(told) == len(records)
  return records.texts(), logits


def test_logits_stand_as_they_are_whatever_the_blocks(distill, monkeypatch):
  monkeypatch.setattr(function_teacher, '_BLOCK', 3)
  texts, logits = label(lengths, LOGITS, distill)
  assert logits.tolist() == [[score] for score in lengths(texts)]
  as_column = label(lambda pairs: np.array(lengths(pairs))[:, None], LOGITS, distill)[1]
  np.testing.assert_array_equal(as_column, logits)


def test_the_items_are_read_once_for_all_shards(distill, monkeypatch):
  records, read, contents = RecordSet(distill), [], Items.contents

  def counted(items, *numbers):
    read.append(items)
    return contents(items, *numbers)

  expected = lengths(records.texts())
  monkeypatch.setattr(Items, 'contents', counted)
  score = function_teacher.labeller(lengths, LOGITS, records)
  shards = np.array_split(records.tuples().items, 3)
  found = [logits for shard in shards for logits in score(shard, lambda _: None)]
  assert np.concatenate(found)[:, 0].tolist() == expected
  assert len(read) == records.slots


def test_a_run_scores_a_set_with_the_function(distill):
  records = RecordSet(distill)
  scorers = Teachers(ExperimentConfig(), None, function=lengths).scorers()
  assert list(scorers) == ['teacher']
  assert scorers['teacher'](records).tolist() == [[of] for of in lengths(records.texts())]


def test_probabilities_become_logits(distill):
  _, logits = label(lambda pairs: np.full(len(pairs), 0.8, np.float64), PROBABILITIES, distill)
  np.testing.assert_allclose(logits, math.log(4), rtol=1e-6)
  _, logits = label(lambda pairs: [[0.25, 0.75]] * len(pairs), CLASSES, distill)
  np.testing.assert_allclose(logits[0], [math.log(0.25), math.log(0.75)], rtol=1e-6)


@pytest.mark.parametrize(
  ('scores', 'table', 'message'),
  [
    (
      lambda n: [0.5] * n,
      LOGITS,
      'its scores lie within .*; --teacher_scores=probability takes them',
    ),
    (
      lambda n: [1.5] * n,
      PROBABILITIES,
      r"\('red', 'black .*'\): teacher probability 1.5 is outside \[0, 1\]",
    ),
    (lambda n: [math.nan] * n, LOGITS, 'teacher logit nan is not a finite number'),
    (lambda n: [[1.0, 2.0]] * n, LOGITS, '2 teacher scores; --task needs 1'),
    (lambda n: [1.0, 2.0], LOGITS, r'scores of shape \[2\] for 20 tuples of texts'),
    (lambda n: [{'score': 0.5}] * n, LOGITS, ': it gave a list of dict .*; numbers are needed'),
    (lambda n: (0.5 for _ in range(n)), LOGITS, ': it gave a generator .*; numbers are needed'),
  ],
)
def test_scores_that_cannot_be_are_refused(scores, table, message, distill):
  with pytest.raises(InputError, match=f'^--teacher=python:.*{message}'):
    function_teacher.check(lambda pairs: scores(len(pairs)), table, RecordSet(distill))


def test_a_function_is_known_by_its_name():
  assert function_teacher.name_of(lengths) == 'python:lengths'
  assert function_teacher.name_of([].append) == 'python:list.append'
  assert function_teacher.name_of(functools.partial(lengths)) == 'python:partial'
