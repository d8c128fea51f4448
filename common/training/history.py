"""A phase's history: step, training loss and validation metrics of each evaluation."""

import math
from collections.abc import Sequence
from typing import Any

Entry = dict[str, Any]


def best(history: Sequence[Entry], metric: str) -> Entry:
  """The best entry by a metric, where '-' means less is better; the earliest of ties, never NaN."""
  sign = -1 if metric.startswith('-') else 1

  def goodness(entry: Entry) -> float:
    value = entry['valid'][metric.lstrip('-')]
    return -math.inf if math.isnan(value) else sign * value

  return max(history, key=goodness)


def is_diverged(loss: float | None) -> bool:
  """Whether a training loss, None before the first step, is no finite number."""
  return loss is not None and not math.isfinite(loss)


def text(history: Sequence[Entry], metric: str) -> str:
  """The last entry beside the best one; empty before the first step."""
  last, top = history[-1], best(history, metric)
  if last['loss'] is None:
    return ''
  name = metric.lstrip('-')
  values = last['valid'][name], top['valid'][name]
  return 'loss {:.4f}, valid {} {:.4f}, best {:.4f}'.format(last['loss'], name, *values)


def summary(history: Sequence[Entry], metric: str, batch_size: int) -> dict[str, Any]:
  """A phase's 'history', 'best_step', 'seconds' and, after a step, 'tuples_per_second'."""
  last = history[-1]
  rate = last['step'] * batch_size / last['seconds'] if last['seconds'] else None
  return {
    'history': history,
    'best_step': best(history, metric)['step'],
    'seconds': last['seconds'],
    'tuples_per_second': rate,
  }
