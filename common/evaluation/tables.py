"""A run's results as tables of formatted cells, the same for the report, the card, the summary."""

import math
from typing import Any, NamedTuple

from common.evaluation import calibration_tables, speeds

_LABELS = {'auc_roc': 'AUC-ROC', 'f1': 'F1', 'log_loss': 'Log loss', 'map': 'MAP'}
_LABELS |= {'ndcg': 'NDCG', 'mrr': 'MRR', 'mlm_loss': 'MLM loss', 'mlm_accuracy': 'MLM accuracy'}
_LABELS |= {'nsp_loss': 'NSP loss', 'nsp_accuracy': 'NSP accuracy'}  # the others: capitalized

_WORDS = {'cpu': 'CPU', 'gb': 'GB', 'dipair': 'DiPair', 'tensorflow': 'TensorFlow'}
_MOST = 200  # characters of a text that are shown


class Table(NamedTuple):
  """Cells as they are shown: the first column names the row, the others hold values."""

  note: str
  headers: list[str]
  rows: list[list[str]]


def tables(results: dict[str, Any]) -> dict[str, Table]:
  """The run in tables by title; 'Results' is laid out as the paper's Tables 2 and 3."""
  models, speed, primary = results['models'], results.get('speed', []), results['primary_metric']
  matched, splits, found = speeds.by_model(results), ('valid', 'test'), {}

  def add(title: str, headers: list[str], rows: list[list[str]], note: str = '') -> None:
    kept = [i for i in range(len(headers)) if any(row[i] for row in rows)]  # no empty column
    if kept:
      found[title] = Table(note, [headers[i] for i in kept], [[r[i] for i in kept] for r in rows])

  shown = label(primary)
  headers = [f'{shown} (valid)', 'Delta (valid)', f'{shown} (test)', 'Delta (test)', 'p (test)']
  rows: list[list[str]] = []
  for model in models:
    quality = [metric(model.get(split, {}).get(primary)) for split in splits]
    p_value = model.get('p_value', {}).get('test')
    rows.append(
      [model['name'], quality[0], percent(delta(model, 'valid')), quality[1], change(model, 'test')]
      + ['' if p_value is None else chance(p_value)]
      + against(results, matched.get(model['name']))
    )
  headers += speeds.AGAINST
  note = ''
  if any('delta' in model for model in models):
    note = 'Delta: against the teacher.'
  if any('interval' in model for model in models):
    note += ' In brackets its 95% interval, p two-sided: paired bootstrap.'
  if tested := results.get('significance'):
    note += f' {_tested(tested)}'
  note += _speed_note(results)
  add('Results', ['Model', *headers], rows, note.strip())

  of_ranking = ['Valid', 'Test', 'Delta (test)', 'p (test)']
  add('Ranking', ['Metric', *of_ranking], _ranking_rows(models), ranking_note(results))
  of_test = (results.get('ranking') or {}).get('test', {})
  lengths = of_test.get('by_length', {'metric': '', 'groups': []})
  headers = ['Words of the query', 'Queries', 'Teacher', 'Student', 'Delta', 'p']
  note = f'{label(lengths["metric"])} of test by the length of the query, in words; as above.'
  add('Ranking by length', headers, [_length_row(of) for of in lengths['groups']], note)
  worst = of_test.get('worst', {'metric': '', 'queries': []})
  of_worst = [f'{label(worst["metric"])}, {name}' for name in ('teacher', 'student')]
  rows = [
    [short(q['text']), metric(q.get('teacher')), metric(q['student']), _candidates(q)]
    for q in worst['queries']
  ]
  note = (
    "Of test, the student furthest below the teacher first; ranks: the teacher's → the student's."
  )
  if not any('teacher' in q for q in worst['queries']):
    note = "Of test, the student's lowest first; ranks: the student's."
  add('Worst queries', ['Query', *of_worst, 'Candidates: label, ranks'], rows, note)

  add('Calibration', *calibration_tables.by_bin(results))
  add('Thresholds', *calibration_tables.thresholds(results))
  names = dict.fromkeys(name for model in models for s in splits for name in model.get(s, {}))
  keys = [(name, split) for name in names for split in splits]
  rows = [[m['name'], *(metric(m.get(s, {}).get(n)) for n, s in keys)] for m in models]
  add('All metrics', ['Model', *(f'{label(n)} ({s})' for n, s in keys)], rows)
  worth = [f'{shown} (valid)', f'{shown} (test)', 'Difference']
  largest = 'Difference: the largest, of scores from the exact ones.'
  rows = [
    [r['name'], digits(r['pairs_per_second']), *against(results, r), *_worth(r)] for r in speed
  ]
  note = speeds.COMPARED if 'teacher' in matched else speeds.BASELINE
  note += f' {largest}' * any('max_difference' in row for row in speed)
  add('Speed', ['Model', 'Pairs/s', *speeds.AGAINST, *worth], rows, note)
  rows = [
    [r['dtype'], ', '.join(f'{slot} {size:,}' for slot, size in r['bytes'].items()), *_worth(r)]
    for r in results.get('stored', [])
  ]
  add('Stored vectors', ['As', 'Bytes a text', *worth], rows, largest)
  rows = [
    [r['name'], digits(r['texts_per_second']), times(r['ratio']), f'{r["cosine"]:.4f}', *_worth(r)]
    + [metric(r['int8']['test'])]
    for r in results.get('encoders', [])
  ]
  headers = ['Runtime', 'Texts/s', '× tensorflow', 'Cosine', *worth, 'Test, head in int8']
  note = (
    f"{largest} Cosine: the mean of vectors' with the exact ones; texts: the last slot's of test."
  )
  add('Encoders', headers, rows, note)
  rows, unit = [], results.get('unit', 'pairs')
  for s in results.get('training', []):
    loss = metric(s['history'][-1]['loss']) if s.get('history') else ''
    pace = [_duration(s['seconds']), digits(s[f'{unit}_per_second']), f'{s["best_step"]:,}']
    rows.append([s['name'], *pace, loss])
  add('Training', ['Stage', 'Time', f'{unit.capitalize()}/s', 'Best step', 'Last loss'], rows)
  for section in ('data', 'corpus', 'annotation', 'export', 'environment'):
    rows = [[name, _value(name, value)] for name, value in _flat(results.get(section, {})).items()]
    add(section.capitalize(), ['', 'Rows' if section == 'data' else 'Value'], rows)
  return found


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


def label(metric: str) -> str:
  """A metric's name as it is shown."""
  kind, at, cut = metric.partition('@')
  return f'{_LABELS.get(kind, kind.capitalize())}{at}{cut}'


def delta(model: dict[str, Any], split: str) -> float | None:
  """A model's change against its teacher on a split; None where there is none."""
  return model.get('delta', {}).get(split)


def change(model: dict[str, Any], split: str) -> str:
  """-0.3% [-1.2, 0.5]: the delta, with its 95% interval where that is known."""
  shown = percent(delta(model, split))
  if not shown or split not in model.get('interval', {}):
    return shown
  return f'{shown} {_interval(*model["interval"][split])}'.strip()


def chance(p_value: float) -> str:
  """0.04; a p below all that was drawn is <0.001."""
  return f'{p_value:.2g}' if p_value >= 1e-3 else '<0.001'


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


def short(text: str) -> str:
  """The text's beginning, where all of it would be too long to be shown."""
  return text if len(text) <= _MOST else f'{text[:_MOST].rstrip()}…'


def ranking_note(results: dict[str, Any]) -> str:
  """What the ranked queries of test are; empty where there are none."""
  if 'test' not in (results.get('ranking') or {}):
    return ''
  of = results['ranking']['test']
  return (
    f'Mean over the {of["queries"]:,} queries (left texts) of test with two candidates or more, '
    f'{of["candidates"]:,} candidates in all; {of["one_candidate"]:,} queries with one are left out, '
    f'{of["none_relevant"]:,} without a relevant one count 0 (in NDCG those without a label above '
    '0). NDCG gains the label, the others take 0.5 and more for relevant. In brackets 95% intervals: bootstrap over queries. Delta: against '
    'the teacher, p two-sided.'
  )


def ranking_line(results: dict[str, Any]) -> str:
  """The student's ranking of test in a line; empty where there is none."""
  found = results['models'][-1].get('ranking', {}).get('test')
  if not found:
    return ''
  values = [f'{label(name)} {metric(of["value"])}' for name, of in found.items()]
  return f"Ranking of test's {results['ranking']['test']['queries']:,} queries: {', '.join(values)}"


def _ranking_rows(models: list[dict[str, Any]]) -> list[list[str]]:
  """A row a metric and model: valid, test with its interval, the change on test, its p."""
  found = {model['name']: model['ranking'] for model in models if model.get('ranking')}
  names = dict.fromkeys(n for sets in found.values() for of in sets.values() for n in of)
  rows = []
  for name in names:
    for model, sets in found.items():
      valid, test = (sets.get(split, {}).get(name, {}) for split in ('valid', 'test'))
      rows.append([f'{label(name)}, {model}', metric(valid.get('value')), *_ranked(test)])
  return rows


def _ranked(found: dict[str, Any]) -> list[str]:
  """A metric of ranking with its interval, its change and p; empty where there is none."""
  if not found:
    return ['', '', '']
  low, high = found['interval']
  shown = f'{metric(found["value"])} [{metric(low)}, {metric(high)}]'
  if 'delta' not in found:
    return [shown, '', '']
  changed = f'{percent(found["delta"])} {_interval(*found["delta_interval"])}'.strip()
  return [shown, changed, chance(found['p_value'])]


def _length_row(group: dict[str, Any]) -> list[str]:
  """3 to 5, 1,200 queries, then teacher, student and the student's change."""
  words = ' to '.join(f'{n:,}' for n in dict.fromkeys(group['words']))
  teacher = _ranked(group.get('teacher', {}))[0]
  return [words, f'{group["queries"]:,}', teacher, *_ranked(group['student'])]


def _candidates(query: dict[str, Any]) -> str:
  """red shoe (0.75, 1 → 4); ..."""
  shown = [
    f'{short(of["text"])} ({of["label"]:.3g}, {" → ".join(str(of[m]) for m in ("teacher", "student") if m in of)})'
    for of in query['candidates']
  ]
  more = [f'and {query["more"]:,} more'] if query['more'] else []
  return '; '.join([*shown, *more])


def _tested(found: dict[str, Any]) -> str:
  """The student against the one before it, in a sentence."""
  change = f'{percent(found["delta"])} {_interval(found["low"], found["high"])}'
  return (
    f'On test, {found["model"]} is {change} against {found["baseline"]}, '
    f'p {chance(found["p_value"])}.'
  )


def _interval(low: float | None, high: float | None) -> str:
  """[-1.2, 0.5], in percent; empty where there was none to compute."""
  if low is None or high is None:
    return ''
  return f'[{100 * low:.1f}, {100 * high:.1f}]'


def _speed_note(results: dict[str, Any]) -> str:
  """Runtime that the student's speed in 'Results' is of, and the fastest one's speed beside it."""
  rows = speeds.default_and_fastest(results)
  if not rows:
    return ''
  others = [f'{row["name"]}: {", ".join(filter(None, against(results, row)))}' for row in rows[1:]]
  fastest = f' ({others[0]})' if others else ''
  return f' ×: pairs/s of {rows[0]["name"]}{fastest}; encoding, once per text, is not in it.'


def _duration(seconds: float) -> str:
  minutes, rest = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return (
    f'{hours} h {minutes} min' if hours else f'{minutes} min {rest} s' if minutes else f'{rest} s'
  )


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


def _worth(row: dict[str, Any]) -> list[str]:
  """Cells of a row's metrics and difference, empty where it has none."""
  difference = f'{row["max_difference"]:.1g}' if 'max_difference' in row else ''
  return [metric(row.get('valid')), metric(row.get('test')), difference]
