"""Ready teachers beside the labels: what is reversed is refused, what is bad or few is not."""

import numpy as np
import pytest

from common.data import record_writer
from common.data.examples import Example
from common.data.records import RecordSet
from common.data.task import Task
from common.distillation import reversal
from common.errors import InputError

RNG = np.random.default_rng(0)
TRUTH = RNG.integers(0, 3, 300)


def check(folder, task, labels, logits):
  examples = [Example('', (f'a{n}', f'b{n}'), label) for n, label in enumerate(labels)]
  record_writer.write_sets(str(folder), {'': record_writer.of_examples(examples)}, 2)
  records = RecordSet(str(folder))

  def labeller(items, advance):  # a text's number is its tuple's
    yield np.asarray(logits, np.float32)[items[:, 0]]

  reversal.check('T', Task(task), records, labeller)


def one_hot(classes):
  return np.eye(3)[classes]


@pytest.mark.parametrize(
  ('task', 'labels', 'logits', 'says'),
  [
    ('binary', TRUTH > 0, -TRUTH[:, None], 'auc_roc 0.000 on 300 tuples of .*: its scores fall'),
    (
      'regression',
      TRUTH / 2,
      -TRUTH[:, None],
      'pearson -.* its scores fall where labels rise; use a',
    ),
    ('binary', TRUTH > 0, np.full([300, 1], np.nan), '300 of 300 logits are not finite'),
  ],
)
def test_scores_that_run_against_the_labels_are_refused(tmp_path, task, labels, logits, says):
  with pytest.raises(InputError, match=f'^--teacher=T[:,] .*{says}'):
    check(tmp_path, task, labels, logits)


@pytest.mark.parametrize(
  ('task', 'labels', 'logits'),
  [
    ('binary', TRUTH > 0, RNG.normal(size=[300, 1])),
    ('binary', [0, 1, 0, 1], [[2], [1], [2], [1]]),  # few
    ('regression', [0.0, 0.5, 1.0], [[3], [2], [1]]),
    ('multiclass', TRUTH, one_hot(TRUTH)),
    ('multiclass', TRUTH, one_hot((TRUTH + 1) % 3)),  # which the metric shows
  ],
)
def test_others_are_told_of(tmp_path, capsys, task, labels, logits):
  check(tmp_path, task, labels, logits)
  assert f' on {len(labels)} tuples of {tmp_path}' in capsys.readouterr().out


def test_one_class_says_nothing(tmp_path, capsys):
  check(tmp_path, 'binary', [1, 1], [[np.nan]] * 2)
  assert not capsys.readouterr().out


def test_tuples_are_from_all_over_the_set(tmp_path, capsys, monkeypatch):
  monkeypatch.setattr(reversal, '_ROWS', 100)
  check(tmp_path, 'binary', np.arange(250) > 125, np.arange(250)[:, None])
  assert 'T: auc_roc 1.000 on 84 tuples' in capsys.readouterr().out
