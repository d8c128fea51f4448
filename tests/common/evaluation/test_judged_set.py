"""The metric that decides: which can, and its values."""

import tracemalloc
import types

import numpy as np
import pytest
from scipy.special import expit

from common.data import record_writer
from common.data.examples import Example
from common.data.items import Items
from common.data.records import RecordSet
from common.data.task import Task
from common.distillation import checks, measure, run
from common.distillation.config import ExperimentConfig
from common.distillation.run_folder import RunFolder
from common.errors import InputError
from common.evaluation import judged_set, metrics, significance
from common.evaluation.judged_set import JudgedSet


def _set(folder, rows):
  examples = [Example('', texts, label) for texts, label in rows]
  record_writer.write_sets(str(folder), {'': record_writer.of_examples(examples)}, 2)
  return RecordSet(str(folder))


def test_a_metric_of_ranking_decides(tmp_path):
  rows = [(('q', 'a'), 1), (('q', 'b'), 0), (('r', 'a'), 0), (('r', 'b'), 1), (('s', 'a'), 1)]
  judged = JudgedSet(_set(tmp_path, rows), Task('binary', metric='mrr@10'))
  logits = np.array([[2.0], [1.0], [2.0], [1.0], [0.0]])
  found = judged.evaluate(logits)
  assert (judged.watched, found['mrr@10']) == ('mrr@10', 0.75)  # of q and r; s has one alone
  assert judged.resampled([logits, -logits])[:, 0].tolist() == [0.75, 0.75]
  assert JudgedSet(_set(tmp_path, rows), Task('binary', metric='log_loss')).watched == '-log_loss'


def test_one_long_id_takes_its_own_memory(tmp_path, monkeypatch):
  records = _set(tmp_path, [(('q', str(n)), n % 2) for n in range(1000)])
  monkeypatch.setattr(Items, 'keys', lambda items: ['b' * 10_000, *map(str, range(1, len(items)))])
  tracemalloc.start()
  JudgedSet(records, Task('binary', metric='map'))
  assert tracemalloc.get_traced_memory()[1] < 4 << 20
  tracemalloc.stop()


def test_a_query_is_drawn_with_all_its_candidates(tmp_path):
  rows = [((q, f'{q}{n}'), q == 'q') for n in range(3) for q in 'qrst']
  judged = JudgedSet(_set(tmp_path, rows), Task('binary', metric='accuracy'))
  right = np.array([[1.0 if text == 'q' else -1.0] for (text, _), _ in rows])
  wrong_of_r = np.where([[text == 'r'] for (text, _), _ in rows], -right, right)
  assert set(judged.resampled([wrong_of_r])[0]) == {0, 0.25, 0.5, 0.75, 1}


@pytest.mark.parametrize('kind', metrics.METRICS)
def test_every_metric_is_resampled_as_if_computed_of_the_drawn_rows_anew(tmp_path, kind):
  random, classes = np.random.default_rng(0), 3 if kind == 'multiclass' else 1
  labels = random.integers(0, 3, 60) / (1 if classes > 1 else 2)
  rows = [((f'q{n // 3}', f't{n}'), label) for n, label in enumerate(labels)]
  judged = JudgedSet(_set(tmp_path, rows), Task(kind, tuple('abc'[:classes])))
  logits = np.round(random.normal(size=[60, classes]), 1).astype(np.float32)  # some are equal
  of_class = (labels.astype(int), logits) if classes > 1 else (labels, logits[:, 0])
  queries = np.arange(60) // 3
  for name, metric in metrics.METRICS[kind].items():
    slow = significance.resampled(lambda y, z, of=metric: of(y, z), *_one(of_class), queries)
    np.testing.assert_allclose(judged.resampled([logits], name)[0], slow[:, 0], rtol=1e-12)


def _one(labels_and_logits):
  labels, logits = labels_and_logits
  return labels.astype(labels.dtype if logits.ndim > 1 else np.float32), [logits]


@pytest.mark.parametrize(
  ('metric', 'says'),
  [
    ('auc', 'a regression task has pearson, spearman, log_loss, ndcg@K, mrr@K, map, recall@K'),
    ('ndcg@0', 'a regression task has pearson'),
  ],
)
def test_unknown_metrics_are_refused_with_the_list(metric, says):
  with pytest.raises(InputError, match=f'--primary_metric={metric}: {says}'):
    ExperimentConfig(primary_metric=metric)


def test_classes_are_not_ranked():
  with pytest.raises(InputError, match='a multiclass task has accuracy, f1, log_loss$'):
    judged_set.primary(Task('multiclass', metric='map'))


def test_what_cannot_judge_is_refused_before_a_run_trains(tmp_path):
  _set(tmp_path / 'valid', [(('q', 'a'), 1), (('r', 'a'), 0), (('q', 'a'), 0)])
  _set(tmp_path / 'test', [(('q', 'a'), 1), (('r', 'a'), 1)])
  with pytest.raises(
    InputError, match='/test: AUC-ROC needs both classes; all 2 labels are of one'
  ):
    checks.check_labelled(str(tmp_path), Task('binary', metric='auc_roc'))
  with pytest.raises(InputError, match='/test: all 2 labels are of one class; a model that always'):
    checks.check_labelled(str(tmp_path), Task('multiclass', ('a', 'b')))
  with pytest.raises(
    InputError,
    match='valid has no left text with two candidates or more; use --primary_metric=auc_roc',
  ):
    checks.check_labelled(str(tmp_path), Task('binary', metric='map'))


def test_training_depends_on_the_metric_that_decides():
  def flags(metric):
    config = ExperimentConfig(primary_metric=metric)
    student = types.SimpleNamespace(losses=(), batch_sizes={}, depends_on={})
    folder = RunFolder('run', config, 'toy.run', redo=False)
    return run.declare(folder, config, student, None).student.depends_on

  assert flags('') == flags('pearson')
  assert flags('')['primary_metric'] == 'pearson'
  assert flags('ndcg@10')['primary_metric'] == 'ndcg@10'


def test_a_runtime_is_judged_by_logits_as_calibrated(tmp_path):
  judged = JudgedSet(_set(tmp_path, [((f'q{n}', 'a'), n % 2) for n in range(4)]), Task('binary'))
  logits = np.array([20, 30, 25, 28], np.float32)  # in float32 each sigmoid is 1
  scorer = types.SimpleNamespace(
    temperature=2.0, scored=lambda of: (logits[of, None], expit(logits[of]))
  )
  scores, value = measure.judge(judged, scorer, [np.arange(4)])
  assert (value, scores.tolist()) == (1.0, [1.0] * 4)
