"""A labelled set as a judge: metrics of the task and of ranking, and the one that decides."""

import numpy as np

from common.data.task import Task
from common.data.texts import places
from common.data.tuple_set import TupleSet
from common.errors import InputError
from common.evaluation import metrics, ranking, significance
from common.evaluation.ranking import Candidates


def primary(task: Task) -> str:
  """The metric that decides: the task's `metric`, or where that is empty the kind's own.

  Raises:
    InputError: If the task has no such metric.
  """
  kind, metric = task.kind, task.metric
  own = metrics.primary_metric(kind)
  ranks = kind != 'multiclass' and ranking.is_metric(metric)
  if metric and metric not in metrics.METRICS[kind] and not ranks:
    of_ranking = f', {ranking.NAMES}' if kind != 'multiclass' else ''
    known = ', '.join(metrics.METRICS[kind])
    raise InputError(f'--primary_metric={metric}: a {kind} task has {known}{of_ranking}')
  return metric or own


def check(records: TupleSet, task: Task, name: str) -> None:
  """Refuses a labelled set, by its `name`, that could not judge a model.

  Raises:
    InputError: If there is nothing to rank, or all labels are alike.
  """
  judged = JudgedSet(records, task)
  if task.kind == 'multiclass' and judged.labels.min() == judged.labels.max():
    raise InputError(
      f'{name}: all {len(judged.labels)} labels are of one class; a model that always says it '
      'would be right'
    )
  try:
    judged.evaluate(np.zeros([len(judged.labels), task.outputs]))
  except InputError as error:
    raise InputError(f'{name}: {error}') from error


class JudgedSet:
  """A labelled set that judges logits of its tuples.

  Args:
    records: The set.
    task: Kind of the labels, and the metric that decides.
    ranks: Whether `ranked` is asked for, whatever the metric.
    rows: The set's rows that judge; None: all.

  Attributes:
    labels: [n], as in the set.
    primary: The metric that decides.
    rankings: The metric that decides, if it is one of ranking.
    watched: The same for `loop.Phase`, with a '-' where less is better.
    ranked: Rows [c] of the set that are candidates of queries with several, and their `Candidates`;
      None: it has none, or is of classes or of more texts than two.

  Raises:
    InputError: If the metric is one of ranking, and there is nothing to rank.
  """

  def __init__(
    self,
    records: TupleSet,
    task: Task,
    *,
    ranks: bool = False,
    rows: np.ndarray | None = None,
  ):
    taken = slice(None) if rows is None else rows
    items = records.tuples().items[taken]
    self.kind, self.primary = task.kind, primary(task)
    self.labels, self._queries = records.tuples().labels[taken], items[:, 0]
    self.watched = f'-{self.primary}' if self.primary in metrics.LESS_IS_BETTER else self.primary
    self.rankings = [self.primary] if ranking.is_metric(self.primary) else []
    self.ranked: tuple[np.ndarray, Candidates] | None = None
    if (ranks or self.rankings) and task.kind != 'multiclass' and records.slots == 2:
      ties = places(records.items(1).keys())
      self.ranked = ranking.of_pairs(items[:, 0], items[:, 1], self.labels, ties)
    if self.rankings and self.ranked is None:
      raise InputError(
        f'--primary_metric={task.metric}: {records.folder} has no left text with two candidates or '
        f'more; use --primary_metric={metrics.primary_metric(task.kind)}'
      )

  def evaluate(
    self, logits: np.ndarray, uncalibrated: np.ndarray | None = None
  ) -> dict[str, float]:
    """The task's metrics of logits [n, outputs], and the one that decides.

    Args:
      logits: Calibrated logits.
      uncalibrated: Logits before calibration, if there was one. These rank: calibration keeps the
        order, but in float32 it may map several to one number.
    """
    found = metrics.evaluate(self.kind, self.labels, logits)
    if self.rankings:
      by_query = self.by_query(logits if uncalibrated is None else uncalibrated, self.rankings)
      found[self.primary] = float(by_query[self.primary].mean())
    return found

  def by_query(self, logits: np.ndarray, names: list[str]) -> dict[str, np.ndarray]:
    """Metrics of ranking by name, [queries] each; there must be some."""
    assert self.ranked is not None
    rows, candidates = self.ranked
    return candidates.evaluate(logits[rows, 0], names)

  def resampled(self, models: list[np.ndarray], metric: str = '') -> np.ndarray:
    """A metric of models' logits: [models, 1 + samples] (see `significance`).

    Tuples of one left text, a query's candidates, are drawn together: a model errs by query too.

    Args:
      models: Logits [n, outputs] of each.
      metric: One of the task's, or the one that decides, as it is by default.
    """
    metric = metric or self.primary
    if metric in self.rankings:
      return ranking.resampled([self.by_query(z, self.rankings)[metric] for z in models])
    found, labels = metrics.METRICS[self.kind][metric], self.labels
    if self.kind == 'multiclass':
      labels = labels.astype(np.int64)
    else:
      models = [z[:, 0] for z in models]
    prepared = [found.prepared(labels, z) for z in models]
    return significance.resampled(
      found.of, prepared[0][0], [values for _, values in prepared], self._queries
    ).T
