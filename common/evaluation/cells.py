"""Values as cells of tables, reports and pictures: one format of each kind."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_LABELS = {'auc_roc': 'AUC-ROC', 'f1': 'F1', 'map': 'MAP'}
_LABELS |= {'log_loss': 'Log loss (less is better)'}
_LABELS |= {'ndcg': 'NDCG', 'mrr': 'MRR', 'mlm_loss': 'MLM loss', 'mlm_accuracy': 'MLM accuracy'}
_LABELS |= {'nsp_loss': 'NSP loss', 'nsp_accuracy': 'NSP accuracy'}  # the others: capitalized
_MOST = 200  # characters of a text that are shown


def label(metric: str) -> str:
  """A metric's name as it is shown."""
  kind, at, cut = metric.partition('@')
  return f'{_LABELS.get(kind, kind.capitalize().replace("_", " "))}{at}{cut}'


def delta(model: dict[str, Any], split: str) -> float | None:
  """A model's change against its teacher on a split; None where there is none."""
  return model.get('delta', {}).get(split)


def change(model: dict[str, Any], split: str) -> str:
  """-0.3% [-1.2, 0.5]: the delta, with its 95% interval where that is known."""
  return moved(delta(model, split), *model.get('interval', {}).get(split, (None, None)))


def moved(delta: float | None, low: float | None, high: float | None) -> str:
  """A delta with its interval, as `change` shows it; empty without a delta."""
  return '' if delta is None else f'{percent(delta)} {interval(low, high)}'.strip()


def chance(p_value: float) -> str:
  """0.04; a p below all that was drawn is <0.001."""
  return f'{p_value:.2g}' if p_value >= 1e-3 else '<0.001'


def metric(value: float | None) -> str:
  """0.567; nan is n/a, an absent value is empty (as in the formats below)."""
  return '' if value is None else f'{value:.3f}' if math.isfinite(value) else 'n/a'


def mean(values: Sequence[float]) -> str:
  """0.567 of one value; 0.567 ± 0.003 of several, with their standard deviation."""
  shown = metric(float(np.mean(values)))
  return f'{shown} ± {np.std(values, ddof=1):.3f}' if len(values) > 1 else shown


def percent(value: float | None) -> str:
  """-3.4%, +0.2%, 0.0%."""
  if value is None:
    return ''
  return f'{value:+.1%}' if abs(value) >= 5e-4 else '0.0%' if math.isfinite(value) else 'n/a'


def digits(value: float) -> str:
  """Three significant digits: 15,600; 15.1; 0.25."""
  return f'{float(f"{value:.3g}"):,.0f}' if abs(value) >= 100 else f'{value:.3g}'


def times(value: float | None) -> str:
  """968×; an absent value is empty."""
  return '' if value is None else f'{digits(value)}×'


def short(text: str) -> str:
  """The text's beginning, where all of it would be too long to be shown."""
  return text if len(text) <= _MOST else f'{text[:_MOST].rstrip()}…'


def interval(low: float | None, high: float | None) -> str:
  """[-1.2, 0.5], in percent; empty where there was none to compute."""
  if low is None or high is None or not math.isfinite(low + high):
    return ''
  return f'[{100 * low:.1f}, {100 * high:.1f}]'


def duration(seconds: float) -> str:
  """A time as text: 1 h 5 min; 3 min 2 s; 12 s."""
  minutes, rest = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return (
    f'{hours} h {minutes} min' if hours else f'{minutes} min {rest} s' if minutes else f'{rest} s'
  )


def compared(found: dict[str, Any]) -> list[str]:
  """A metric with interval, change and p, from `significance.compared`; empty cells for none."""
  if not found:
    return ['', '', '']
  shown = metric(found['value'])
  if 'interval' in found:
    shown += ' [{}, {}]'.format(*map(metric, found['interval']))
  if 'delta' not in found:
    return [shown, '', '']
  changed = moved(found['delta'], *found['delta_interval'])
  return [shown, changed, chance(found['p_value'])]
