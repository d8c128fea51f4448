"""A run's results as tables of formatted cells, the same for the report, the card, the summary."""

from typing import Any, NamedTuple

from common.evaluation import calibration_tables, ranking_tables, speeds, unseen_table
from common.evaluation.cells import (
  Parts,
  chance,
  change,
  delta,
  digits,
  duration,
  label,
  metric,
  moved,
  percent,
  times,
)

_SPLITS = ('valid', 'test')
_LARGEST = 'Difference: the largest, of scores from the exact ones.'
_WORDS = {'cpu': 'CPU', 'gb': 'GB', 'dipair': 'DiPair', 'tensorflow': 'TensorFlow'}


class Table(NamedTuple):
  """Cells as they are shown: the first column names the row, the others hold values."""

  note: str
  headers: list[str]
  rows: list[list[str]]


def tables(results: dict[str, Any]) -> dict[str, Table]:
  """The run in tables by title; 'Results' is laid out as the paper's Tables 2 and 3."""
  parts = {
    'Results': _quality(results),
    'Unseen texts': unseen_table.unseen(results),
    'Ranking': ranking_tables.by_metric(results),
    'Ranking by length': ranking_tables.by_length(results),
    'Worst queries': ranking_tables.worst(results),
    'Calibration': calibration_tables.by_bin(results),
    'Thresholds': calibration_tables.thresholds(results),
    'All metrics': _metrics(results),
    'Speed': _speed(results),
    'Stored vectors': _stored(results),
    'Encoders': _encoders(results),
    'Training': _training(results),
  }
  parts['Data'] = _data(results)
  for section in ('corpus', 'annotation', 'export', 'environment'):
    rows = [[name, _value(name, value)] for name, value in _flat(results.get(section, {})).items()]
    parts[section.capitalize()] = ['', 'Value'], rows, ''
  found = {}
  for title, (headers, rows, note) in parts.items():
    kept = [i for i in range(len(headers)) if any(row[i] for row in rows)]  # no empty column
    if kept:
      of_rows = [[row[i] for i in kept] for row in rows]
      found[title] = Table(note, [headers[i] for i in kept], of_rows)
  return found


def _quality(results: dict[str, Any]) -> Parts:
  """The metric that decides, each model's change from the teacher, and its speed."""
  models, matched = results['models'], speeds.by_model(results)
  primary = results['primary_metric']
  shown = label(primary)
  rows = []
  for model in models:
    valid, test = (metric(model.get(split, {}).get(primary)) for split in _SPLITS)
    p_value = model.get('p_value', {}).get('test')
    rows.append(
      [model['name'], valid, percent(delta(model, 'valid')), test, change(model, 'test')]
      + ['' if p_value is None else chance(p_value)]
      + against(results, matched.get(model['name']))
    )
  note = ''
  if any('delta' in model for model in models):
    note = 'Delta: against the teacher.'
  if any('interval' in model for model in models):
    note += ' In brackets its 95% interval, p two-sided: paired bootstrap.'
  tested = [results.get('significance'), *results.get('against_one', [])]
  note += ''.join(f' {_tested(one)}' for one in tested if one)
  if results.get('against_one'):
    note += ' teacher: the mean of teachers 1, 2, ...'
  note += _speed_note(results)
  headers = [f'{shown} (valid)', 'Delta (valid)', f'{shown} (test)', 'Delta (test)', 'p (test)']
  return ['Model', *headers, *speeds.AGAINST], rows, note.strip()


def _metrics(results: dict[str, Any]) -> Parts:
  """Table of the task's metrics."""
  models = results['models']
  names = dict.fromkeys(name for model in models for s in _SPLITS for name in model.get(s, {}))
  keys = [(name, split) for name in names for split in _SPLITS]
  rows = [[m['name'], *(metric(m.get(s, {}).get(n)) for n, s in keys)] for m in models]
  return ['Model', *(f'{label(n)} ({s})' for n, s in keys)], rows, ''


def _speed(results: dict[str, Any]) -> Parts:
  """Pairs a second of teacher and heads, and what a runtime of the head costs in quality."""
  speed = results.get('speed', [])
  rows = [
    [r['name'], digits(r['pairs_per_second']), *against(results, r), *_worth(r)] for r in speed
  ]
  note = speeds.COMPARED if 'teacher' in speeds.by_model(results) else speeds.BASELINE
  note += f' {_LARGEST}' * any('max_difference' in row for row in speed)
  return ['Model', 'Pairs/s', *speeds.AGAINST, *_worth_headers(results)], rows, note


def _stored(results: dict[str, Any]) -> Parts:
  """Bytes of stored vectors, and what they cost in quality."""
  rows = [
    [r['dtype'], ', '.join(f'{slot} {size:,}' for slot, size in r['bytes'].items()), *_worth(r)]
    for r in results.get('stored', [])
  ]
  return ['As', 'Bytes a text', *_worth_headers(results)], rows, _LARGEST


def _encoders(results: dict[str, Any]) -> Parts:
  """Texts a second of the encoders, and what a runtime costs in quality."""
  rows = [
    [r['name'], digits(r['texts_per_second']), times(r['ratio']), f'{r["cosine"]:.4f}', *_worth(r)]
    + [metric(r['int8']['test'])]
    for r in results.get('encoders', [])
  ]
  worth = _worth_headers(results)
  headers = ['Runtime', 'Texts/s', '× tensorflow', 'Cosine', *worth, 'Test, head in int8']
  note = (
    f"{_LARGEST} Cosine: the mean of vectors' with the exact ones; texts: the last slot's of test."
  )
  return headers, rows, note


def _training(results: dict[str, Any]) -> Parts:
  """Time, pace and best step of each stage."""
  rows, unit = [], results.get('unit', 'pairs')
  for s in results.get('training', []):
    loss = metric(s['history'][-1]['loss']) if s.get('history') else ''
    rate = s[f'{unit}_per_second']  # none of no steps
    pace = [duration(s['seconds']), digits(rate) if rate else '', f'{s["best_step"]:,}']
    rows.append([s['name'], *pace, loss])
  return ['Stage', 'Time', f'{unit.capitalize()}/s', 'Best step', 'Last loss'], rows, ''


def _data(results: dict[str, Any]) -> Parts:
  """Tuples of each set, and how many were left out of it, as valid or test has them."""
  left_out = results.get('left_out', {})
  counted = results.get('data', {}) | {f'left out of {n}': of for n, of in left_out.items() if of}
  rows = [[name, _value(name, value)] for name, value in _flat(counted).items()]
  note = 'Left out: tuples that stand in valid or test.' if any(left_out.values()) else ''
  return ['', 'Rows'], rows, note


def tiles(results: dict[str, Any]) -> list[tuple[str, str]]:
  """The run in a few numbers, each with what it is; two speeds where another runtime is faster."""
  model, primary = results['models'][-1], results['primary_metric']
  tiles = [(metric(model.get('test', {}).get(primary)), f'{label(primary)} on test')]
  tiles.append((percent(delta(model, 'test')), 'against the teacher'))
  for row in speeds.default_and_fastest(results):
    own, base = against(results, row)
    whom = 'its teacher' if own else 'BERT-base at 128 tokens'
    tiles.append((own or base, f'as fast as {whom}: {row["name"]}'))
  return [tile for tile in tiles if tile[0]]


def against(results: dict[str, Any], row: dict[str, Any] | None) -> list[str]:
  """A speed row's multiples of what `speeds.AGAINST` names, as cells."""
  return [times(value) for value in speeds.multiples(results, row)]


def _tested(found: dict[str, Any]) -> str:
  """The student against the one before it, in a sentence."""
  change = moved(found['delta'], found['low'], found['high'])
  return (
    f'On test, {found["model"]} is {change} against {found["baseline"]}, '
    f'p {chance(found["p_value"])}.'
  )


def _speed_note(results: dict[str, Any]) -> str:
  """Runtime that the student's speed in 'Results' is of, and the fastest one's speed beside it."""
  rows = speeds.default_and_fastest(results)
  if not rows:
    return ''
  others = [f'{row["name"]}: {", ".join(filter(None, against(results, row)))}' for row in rows[1:]]
  fastest = f' ({others[0]})' if others else ''
  return f' ×: pairs/s of {rows[0]["name"]}{fastest}; encoding, once per text, is not in it.'


def _flat(section: dict[str, Any]) -> dict[str, Any]:
  """{'a': {'b': 1}} as {'A b': 1}, underscores as spaces, names as they are written."""
  pairs = {}
  for name, value in section.items():
    inner = value if isinstance(value, dict) else {'': value}
    pairs |= {_written(f'{name} {key}'): v for key, v in inner.items()}
  return pairs


def _written(name: str) -> str:
  """peak_memory_gb as Peak memory GB."""
  words = name.replace('_', ' ').strip().capitalize().split(' ')
  return ' '.join(_WORDS.get(word.lower(), word) for word in words)


def _value(name: str, value: Any) -> str:
  if 'bytes' in name and value >= 1e5:
    return f'{digits(value / 1e6)} MB'
  if isinstance(value, bool) or not isinstance(value, int | float):
    return str(value)
  return f'{value:,.0f}' if float(value).is_integer() else f'{value:.2g}'


def _worth_headers(results: dict[str, Any]) -> list[str]:
  shown = label(results['primary_metric'])
  return [f'{shown} (valid)', f'{shown} (test)', 'Difference']


def _worth(row: dict[str, Any]) -> list[str]:
  """Cells of a row's metrics and difference, empty where it has none."""
  difference = f'{row["max_difference"]:.1g}' if 'max_difference' in row else ''
  return [metric(row.get('valid')), metric(row.get('test')), difference]
