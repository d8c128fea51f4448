"""A run's results as tables of formatted cells, the same for the report, the card, the summary."""

import math
import re
from typing import Any, NamedTuple

_LABELS = {'auc_roc': 'AUC-ROC', 'f1': 'F1', 'log_loss': 'Log loss'}  # the others: capitalized


class Table(NamedTuple):
  """Cells as they are shown: the first column names the row, the others hold values."""

  note: str
  headers: list[str]
  rows: list[list[str]]


def tables(results: dict[str, Any]) -> dict[str, Table]:
  """The run in tables by title; 'Results' is laid out as the paper's Tables 2 and 3."""
  models, speed, primary = results['models'], results.get('speed', []), results['primary_metric']
  matched, splits, found = speeds(results), ('valid', 'test'), {}
  reference = next((row['name'] for row in speed if row['ratio'] == 1), 'the first')

  def add(title: str, headers: list[str], rows: list[list[str]], note: str = '') -> None:
    kept = [i for i in range(len(headers)) if any(row[i] for row in rows)]  # no empty column
    if kept:
      found[title] = Table(note, [headers[i] for i in kept], [[r[i] for i in kept] for r in rows])

  shown = label(primary)
  headers = [f'{shown} (valid)', 'Delta (valid)', f'{shown} (test)', 'Delta (test)', 'Speedup']
  rows = []
  for model in models:
    row = [model['name']]
    for split in splits:
      row += [metric(model.get(split, {}).get(primary)), percent(delta(model, split))]
    rows.append([*row, times(matched.get(model['name'], {}).get('ratio'))])
  note = 'Delta: against the teacher.' if any('delta' in model for model in models) else ''
  note += f' Speedup: against {reference}.' if matched else ''
  add('Results', ['Model', *headers], rows, note.strip())

  names = dict.fromkeys(name for model in models for s in splits for name in model.get(s, {}))
  keys = [(name, split) for name in names for split in splits]
  rows = [[m['name'], *(metric(m.get(s, {}).get(n)) for n, s in keys)] for m in models]
  add('All metrics', ['Model', *(f'{label(n)} ({s})' for n, s in keys)], rows)
  worth = [f'{shown} (valid)', f'{shown} (test)', 'Difference']
  largest = 'Difference: the largest, of scores from the exact ones.'
  rows = [[r['name'], digits(r['pairs_per_second']), times(r['ratio']), *_worth(r)] for r in speed]
  note = f"Ratio: to {reference}. A head's pairs are of texts encoded beforehand. {largest}"
  add('Speed', ['Model', 'Pairs/s', 'Ratio', *worth], rows, note)
  rows = [
    [r['dtype'], ', '.join(f'{side} {size:,}' for side, size in r['bytes'].items()), *_worth(r)]
    for r in results.get('stored', [])
  ]
  add('Stored vectors', ['As', 'Bytes a text', *worth], rows, largest)
  rows = []
  for s in results.get('training', []):
    loss = metric(s['history'][-1]['loss']) if s.get('history') else ''
    pace = [_duration(s['seconds']), digits(s['pairs_per_second']), f'{s["best_step"]:,}']
    rows.append([s['name'], *pace, loss])
  add('Training', ['Stage', 'Time', 'Pairs/s', 'Best step', 'Last loss'], rows)
  for part in ('data', 'export', 'environment'):
    rows = [[name, _value(name, value)] for name, value in _flat(results.get(part, {})).items()]
    add(part.capitalize(), ['', 'Rows' if part == 'data' else 'Value'], rows)
  return found


def tiles(results: dict[str, Any]) -> list[tuple[str, str]]:
  """The run in three numbers, each with what it is."""
  model, primary = results['models'][-1], results['primary_metric']
  tiles = [(metric(model.get('test', {}).get(primary)), f'{label(primary)} on test')]
  tiles.append((percent(delta(model, 'test')), 'against the teacher'))
  if row := speeds(results).get(model['name']):
    tiles.append((times(row['ratio']), f'as fast: {digits(row["pairs_per_second"])} pairs/s'))
  return [tile for tile in tiles if tile[0]]


def speeds(results: dict[str, Any]) -> dict[str, dict[str, Any]]:
  """{model name: the first speed row that is its own}."""
  last, found = results['models'][-1]['name'], {}
  for row in results.get('speed', []):
    word = re.split(r'\W', row['name'].lower())[0]
    name = last if word in ('student', results['student']) else word
    if any(model['name'] == name for model in results['models']):
      found.setdefault(name, row)
  return found


def label(metric: str) -> str:
  """A metric's name as it is shown."""
  return _LABELS.get(metric, metric.capitalize())


def delta(model: dict[str, Any], split: str) -> float | None:
  """A model's change against its teacher on a split; None where there is none."""
  return model.get('delta', {}).get(split)


def metric(value: float | None) -> str:
  """0.567; nan is n/a, an absent value is empty (as in the formats below)."""
  return '' if value is None else f'{value:.3f}' if math.isfinite(value) else 'n/a'


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


def _duration(seconds: float) -> str:
  minutes, rest = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return (
    f'{hours} h {minutes} min' if hours else f'{minutes} min {rest} s' if minutes else f'{rest} s'
  )


def _flat(part: dict[str, Any]) -> dict[str, Any]:
  """{'a': {'b': 1}} as {'a b': 1}, underscores as spaces, the first letter a capital."""
  pairs = {}
  for name, value in part.items():
    inner = value if isinstance(value, dict) else {'': value}
    pairs |= {f'{name} {key}'.replace('_', ' ').strip().capitalize(): v for key, v in inner.items()}
  return pairs


def _value(name: str, value: Any) -> str:
  if 'bytes' in name and value >= 1e5:
    return f'{digits(value / 1e6)} MB'
  if isinstance(value, bool) or not isinstance(value, int | float):
    return str(value)
  return f'{value:,.0f}' if float(value).is_integer() else f'{value:.2g}'


def _worth(row: dict[str, Any]) -> list[str]:
  """Cells of a row's metrics and difference, empty where it has none."""
  difference = f'{row["max_difference"]:.1g}' if 'max_difference' in row else ''
  return [metric(row.get('valid')), metric(row.get('test')), difference]
