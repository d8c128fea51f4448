"""Is a gain between two models more than the luck of the test set's draw?"""

from collections.abc import Callable

import numpy as np

from common.errors import InputError


def paired_bootstrap(
  metric_fn: Callable[[np.ndarray, np.ndarray], float],
  labels: np.ndarray,
  a: np.ndarray,
  b: np.ndarray,
  samples: int = 1000,
  seed: int = 0,
) -> float:
  """One-sided p-value of "b beats a", after Berg-Kirkpatrick et al. (2012), Sec. 3 and Fig. 1.

    gap(x) = metric(b on x) - metric(a on x)
    p = |{i: gap(x_i) > 2 gap(x)}| / samples,   x_i = n rows of x drawn with replacement

  The gaps of the resamples centre on the observed gap(x), not on the null hypothesis' 0, hence the
  2. The paper's Tables 2 and 3 star an entry where p < 0.05. A p of 0 means less than 1 / samples.

  Args:
    metric_fn: (labels, scores) -> float, more is better, as `metrics.pearson`.
    labels: [n], or anything whose rows `metric_fn` takes.
    a, b: the two models' scores for the same n rows, [n, ...].
    samples: how many resamples.
    seed: of their draw; the same seed gives the same p-value.

  Returns:
    The p-value, in [0, 1]; 1 where b does not beat a at all. A resample whose gap is nan counts
    against b.

  Raises:
    InputError: the rows do not match, samples is not positive, or the observed gap is nan.

  >>> paired_bootstrap(metrics.pearson, labels, baseline_scores, student_scores)
  """
  labels, a, b = np.asarray(labels), np.asarray(a), np.asarray(b)
  n = len(labels)
  if not n == len(a) == len(b) > 0:
    raise InputError(f'rows do not match: {n} labels, {len(a)} of a, {len(b)} of b')
  if samples < 1:
    raise InputError(f'samples is {samples}; it should be 1 or more')
  observed = metric_fn(labels, b) - metric_fn(labels, a)
  if np.isnan(observed):
    raise InputError('the metric of a or of b is nan: there is no gap to test')
  if observed <= 0:
    return 1.0
  random = np.random.default_rng(seed)
  exceeding = 0
  for _ in range(samples):
    rows = random.integers(n, size=n)
    gap = metric_fn(labels[rows], b[rows]) - metric_fn(labels[rows], a[rows])
    exceeding += not gap <= 2 * observed  # so written that nan counts
  return exceeding / samples
