"""Significance: whether a difference between two models exceeds the luck of the test set."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from common.errors import InputError
from common.evaluation import metrics

SAMPLES = 2000
_ENDS = (2.5, 97.5)  # percentiles: a 95% interval


class Difference(NamedTuple):
  """A model against a baseline.

  Attributes:
    delta: Relative change of the metric, as of `metrics.delta`.
    low, high: Its 95% interval: percentiles of the resamples' own.
    p_value: Two-sided: how often a difference as large comes of the draw alone; 0: less than 1 of
      the samples.
  """

  delta: float
  low: float
  high: float
  p_value: float


def resampled(
  metric_fn: Callable[[np.ndarray, np.ndarray], float],
  labels: np.ndarray,
  models: Sequence[np.ndarray],
  groups: np.ndarray | None = None,
  samples: int = SAMPLES,
  seed: int = 0,
) -> np.ndarray:
  """A metric of models on the rows as they are, and on resamples of them, the same for all models.

  Args:
    metric_fn: (labels, scores) -> float, more is better.
    labels: [n], or anything whose rows `metric_fn` takes.
    models: Each one's scores for the same n rows, [n, ...].
    groups: [n], what the rows were drawn by, such as a query's number: a resample draws as many
      groups as there are, with replacement, each with all its rows. None, or one group: each row by
      itself.
    samples: How many resamples.
    seed: Of their draw.

  Returns:
    [1 + samples, models]; nan where a resample has no metric (one class only).

  Raises:
    InputError: If the rows do not match, or there are no samples.
  """
  labels = np.asarray(labels)
  if any(len(scores) != len(labels) for scores in models) or not len(labels):
    sizes = ', '.join(str(len(scores)) for scores in models)
    raise InputError(f'rows do not match: {len(labels)} labels, {sizes} scores')
  if samples < 1:
    raise InputError(f'samples is {samples}; it should be 1 or more')
  if groups is None or np.min(groups) == np.max(groups):
    groups = np.arange(len(labels))
  order, starts, sizes = _grouped(groups)
  random = np.random.default_rng(seed)
  found = np.full([1 + samples, len(models)], np.nan)
  found[0] = [metric_fn(labels, scores) for scores in models]
  for number in tqdm(range(samples), desc='bootstrap', delay=2):
    drawn = random.integers(len(sizes), size=len(sizes))
    rows = order[_spans(starts[drawn], sizes[drawn])]
    try:
      found[1 + number] = [metric_fn(labels[rows], scores[rows]) for scores in models]
    except InputError:
      continue
  return found


def _grouped(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Rows [n] with those of a group together, the first group first; where each starts, its size."""
  _, firsts, numbers = np.unique(groups, return_index=True, return_inverse=True)
  numbers = np.argsort(np.argsort(firsts))[numbers]
  sizes = np.bincount(numbers)
  return np.argsort(numbers, kind='stable'), np.cumsum(sizes) - sizes, sizes


def _spans(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
  """start, start + 1, … of each span, `size` numbers, one span after the other."""
  ends = np.cumsum(sizes)
  return np.arange(ends[-1]) + np.repeat(starts - (ends - sizes), sizes)


def interval(resamples: np.ndarray) -> list[float]:
  """The 95% interval [low, high] of a number, from its values on resamples; nan without any."""
  return np.percentile(resamples, _ENDS).tolist() if len(resamples) else [np.nan, np.nan]


def compared(columns: Mapping[str, np.ndarray]) -> dict[str, dict[str, Any]]:
  """Columns of `resampled` by model, as results hold them.

  Returns:
    {model: {'value', 'interval'}}; where one is the 'teacher', of the others also 'delta',
    'delta_interval' and 'p_value'. Intervals are of 95%.
  """
  found: dict[str, dict[str, Any]] = {}
  for model, column in columns.items():
    there = column[1:][~np.isnan(column[1:])]
    found[model] = {'value': float(column[0]), 'interval': interval(there)}
    if model != 'teacher' and 'teacher' in columns:
      change = difference(columns['teacher'], column)
      found[model] |= {
        'delta': change.delta,
        'delta_interval': [change.low, change.high],
        'p_value': change.p_value,
      }
  return found


def difference(baseline: np.ndarray, model: np.ndarray) -> Difference:
  """Two columns of `resampled`, compared after Berg-Kirkpatrick et al. (2012), Sec. 3 and Fig. 1.

    gap(x) = metric(model on x) - metric(baseline on x)
    p = |{i: |gap(x_i) - gap(x)| >= |gap(x)|}| / samples,   x_i a resample of x

  The resamples' gaps centre on the observed gap(x), not on the null hypothesis' 0, so it is taken
  from them. (The paper's test is one-sided.) A resample without a gap counts as a large one.
  """
  gaps = model - baseline
  as_large = ~(np.abs(gaps[1:] - gaps[0]) < abs(gaps[0]))  # so written that nan counts
  deltas = np.array([metrics.delta(*pair) for pair in zip(model, baseline, strict=True)])
  there = deltas[1:][~np.isnan(deltas[1:])]
  low, high = interval(there)
  return Difference(float(deltas[0]), float(low), float(high), float(as_large.mean()))
