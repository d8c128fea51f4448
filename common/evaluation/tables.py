"""A run's results as tables of formatted cells, the same for the report, the card, the summary."""

from typing import Any, NamedTuple

from common.evaluation import reliability, speeds
from common.evaluation.cells import (
  chance,
  change,
  compared,
  delta,
  digits,
  duration,
  label,
  metric,
  moved,
  percent,
  short,
  times,
)
from common.evaluation.results import Results, present

_SPLITS = ('valid', 'test')
_LARGEST = 'Difference: the largest, of scores from the exact ones.'
_DELTA = ' Delta: against the teacher, p two-sided.'
_WORDS = {'cpu': 'CPU', 'gb': 'GB', 'dipair': 'DiPair', 'tensorflow': 'TensorFlow'}
_LEARNT = {'train': 'train', 'distillation': 'the distillation set'}
_UNSEEN = {'left': 'left text not', 'right': 'right text not', 'both': 'both texts not'}
_UNSEEN |= {'none': 'all texts'}
_INTERVALS = 'In brackets 95% intervals'
_OUTCOMES = {'binary': 'Positive', 'regression': 'Mean label', 'multiclass': 'Right'}


class Table(NamedTuple):
  """Cells as they are shown: the first column names the row, the others hold values."""

  note: str
  headers: list[str]
  rows: list[list[str]]

  def __str__(self) -> str:
    """The table as plain text."""
    cells = [self.headers, *self.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ['  '.join([r[0].ljust(widths[0]), *map(str.rjust, r[1:], widths[1:])]) for r in cells]
    return '\n'.join([lines[0], '-' * len(lines[0]), *lines[1:], self.note]).rstrip()


def tables(results: Results) -> dict[str, Table]:
  """The run in tables by title; 'Results' is laid out as the paper's Tables 2 and 3."""
  made = {
    'Results': _quality(results),
    'Unseen texts': _unseen(results),
    'Ranking': _ranking(results),
    'Worst queries': _worst_queries(results),
    'Calibration': _calibration(results),
    'Thresholds': _thresholds(results),
    'All metrics': _metrics(results),
    'Speed': _speed(results),
    'Stored vectors': _stored(results),
    'Encoders': _encoders(results),
    'Training': _training(results),
    'Data': _data(results),
  }
  for name, section in results.sections.items():
    made[name.capitalize()] = Table('', ['', 'Value'], _named(present(section)))
  found = {}
  for title, (note, headers, rows) in made.items():
    kept = [i for i in range(len(headers)) if any(row[i] for row in rows)]  # no empty column
    if kept:
      found[title] = Table(note, [headers[i] for i in kept], [[r[i] for i in kept] for r in rows])
  return found


# Quality


def _quality(results: Results) -> Table:
  """The metric that decides, each model's change from the teacher, and its speed."""
  matched, primary = speeds.by_model(results), results.primary_metric
  rows = []
  for model in results.models:
    valid, test = (metric(model.get(split, {}).get(primary)) for split in _SPLITS)
    p_value = model.get('p_value', {}).get('test')
    rows.append(
      [model['name'], valid, percent(delta(model, 'valid')), test, change(model, 'test')]
      + ['' if p_value is None else chance(p_value)]
      + _against(results, matched.get(model['name']))
    )
  notes = []
  if any('delta' in model for model in results.models):
    notes.append('Delta: against the teacher.')
  if any('interval' in model for model in results.models):
    notes.append('In brackets its 95% interval, p two-sided: paired bootstrap.')
  for found in filter(None, [results.significance, *results.against_one]):
    changed = moved(found['delta'], found['low'], found['high'])
    notes.append(
      f'On test, {found["model"]} is {changed} against {found["baseline"]}, '
      f'p {chance(found["p_value"])}.'
    )
  if results.against_one:
    notes.append('teacher: the mean of teachers 1, 2, ...')
  if heads := speeds.default_and_fastest(results):
    others = [
      f' ({row["name"]}: {", ".join(filter(None, _against(results, row)))})' for row in heads[1:]
    ]
    notes.append(
      f'×: pairs/s of {heads[0]["name"]}{"".join(others)}; encoding, once per text, is not in it.'
    )
  shown = label(primary)
  headers = [f'{shown} (valid)', 'Delta (valid)', f'{shown} (test)', 'Delta (test)', 'p (test)']
  return Table(' '.join(notes), ['Model', *headers, *speeds.AGAINST], rows)


def _metrics(results: Results) -> Table:
  """A row a metric of the task and model, as of `_by_metric`."""
  found = {}
  for model in results.models:
    measured = model.get('metrics', {})
    found[model['name']] = {
      s: {name: {'value': value} for name, value in model.get(s, {}).items()} | measured.get(s, {})
      for s in _SPLITS
    }
  note = f'{_INTERVALS}.' if any('metrics' in model for model in results.models) else ''
  return _by_metric(found, note)


def _by_metric(found: dict[str, dict[str, Any]], note: str) -> Table:
  """A row a metric and model: valid, test with its interval, the change on test, its p."""
  names = dict.fromkeys(n for sets in found.values() for of in sets.values() for n in of)
  rows = []
  for name in names:
    for model, sets in found.items():
      valid, test = (sets.get(split, {}).get(name, {}) for split in _SPLITS)
      rows.append([f'{label(name)}, {model}', metric(valid.get('value')), *compared(test)])
  note += _DELTA * any(row[-1] for row in rows)
  return Table(note, ['Metric', 'Valid', 'Test', 'Delta (test)', 'p (test)'], rows)


def tiles(results: Results) -> list[tuple[str, str]]:
  """The run in a few numbers, each with what it is; two speeds where another runtime is faster."""
  model, primary = results.models[-1], results.primary_metric
  tiles = [(metric(model.get('test', {}).get(primary)), f'{label(primary)} on test')]
  tiles.append((percent(delta(model, 'test')), 'against the teacher'))
  for row in speeds.default_and_fastest(results):
    own, base = _against(results, row)
    whom = 'its teacher' if own else 'BERT-base at 128 tokens'
    tiles.append((own or base, f'as fast as {whom}: {row["name"]}'))
  return [tile for tile in tiles if tile[0]]


# Unseen texts


def _unseen(results: Results) -> Table:
  """A row for each part that has tuples; parts alike of both learnt sets share one."""
  alike: dict[tuple[str, str, str], tuple[dict[str, Any], list[str]]] = {}
  for part in results.unseen:
    if part['tuples']:
      cells = str([part['tuples'], part.get('models')])
      _, learnt = alike.setdefault((part['set'], part['unseen'], cells), (part, []))
      learnt.append(_LEARNT[part['learnt']])
  rows = [_unseen_row(part, ' or '.join(learnt)) for part, learnt in alike.values()]
  note = (
    'Tuples by the texts that were learnt from. Parts of fewer than 200 tuples have no metrics. '
    f'{_INTERVALS}.{_DELTA * any(row[-1] for row in rows)}'
  )
  return Table(note, ['Unseen', 'Tuples', 'Teacher', 'Student', 'Delta', 'p'], rows)


def unseen_line(results: Results) -> str:
  """The student on test's left texts that were not learnt from; empty where they are few."""
  found = [part['learnt'] for part in results.unseen]
  learnt = 'distillation' if 'distillation' in found else 'train'
  for part in results.unseen:
    named = part['set'], part['learnt'], part['unseen']
    if named == ('test', learnt, 'left') and 'models' in part:
      name, tuples, teacher, student, change, _ = _unseen_row(part, _LEARNT[learnt])
      against = f', teacher {teacher}, change {change}' if teacher else ''
      return f'Unseen, {name}: student {student}{against} ({tuples} tuples)'
  return ''


def _unseen_row(part: dict[str, Any], learnt: str) -> list[str]:
  models = dict(part.get('models', {}))
  teacher, *_ = compared(models.pop('teacher', {}))
  student = compared(next(iter(models.values()), {}))
  name = f'{part["set"]}: {_UNSEEN[part["unseen"]]} in {learnt}'
  return [name, f'{part["tuples"]:,}', teacher, *student]


# Ranking


def _ranking(results: Results) -> Table:
  """A row a metric and model, as of `_by_metric`."""
  found = {model['name']: model['ranking'] for model in results.models if model.get('ranking')}
  note = ''
  if of := _ranked(results):
    note = (
      f'Mean over the {of["queries"]:,} queries (left texts) of test with two candidates or more, '
      f'{of["candidates"]:,} candidates in all; {of["one_candidate"]:,} queries with one are left '
      f'out, {of["none_relevant"]:,} without a relevant one count 0 (in NDCG those without a label '
      'above 0). NDCG gains the label, the others take 0.5 and more for relevant. '
      f'{_INTERVALS}: bootstrap over queries.'
    )
  return _by_metric(found, note)


def _worst_queries(results: Results) -> Table:
  """The queries of test that the student ranks worst, with their candidates."""
  found = _ranked(results).get('worst', {'metric': '', 'queries': []})
  rows = [
    [short(q['text']), metric(q.get('teacher')), metric(q['student']), _candidates(q)]
    for q in found['queries']
  ]
  note = "Of test, the student's lowest first; ranks: the student's."
  if any('teacher' in q for q in found['queries']):
    note = (
      "Of test, the student furthest below the teacher first; ranks: the teacher's → the student's."
    )
  headers = [f'{label(found["metric"])}, {name}' for name in ('teacher', 'student')]
  return Table(note, ['Query', *headers, 'Candidates: label, ranks'], rows)


def ranking_line(results: Results) -> str:
  """The student's ranking of test in a line; empty where there is none."""
  found = results.models[-1].get('ranking', {}).get('test')
  if not found:
    return ''
  values = [f'{label(name)} {metric(of["value"])}' for name, of in found.items()]
  return f"Ranking of test's {_ranked(results)['queries']:,} queries: {', '.join(values)}"


def _ranked(results: Results) -> dict[str, Any]:
  """Ranking of test; empty if there is none."""
  return (results.ranking or {}).get('test', {})


def _candidates(query: dict[str, Any]) -> str:
  """red shoe (0.75, 1 → 4); ..."""
  shown = []
  for of in query['candidates']:
    places = ' → '.join(str(of[model]) for model in ('teacher', 'student') if model in of)
    shown.append(f'{short(of["text"])} ({of["label"]:.3g}, {places})')
  more = [f'and {query["more"]:,} more'] if query['more'] else []
  return '; '.join([*shown, *more])


# Calibration


def _calibration(results: Results) -> Table:
  """Outcomes of test's pairs by bin of their score: counts and means, a column each per model."""
  models, headers, rows = results.calibration.get('models', {}), ['Score'], []
  for name in models:
    headers += [f'Pairs, {name}', f'{_OUTCOMES[results.task]}, {name}']
  shown = '{:.2f}' if results.task == 'regression' else '{:.0%}'
  for number in range(reliability.BINS if models else 0):
    cells = [f'{number / reliability.BINS:.1f} to {(number + 1) / reliability.BINS:.1f}']
    for of in models.values():
      row = next((r for r in of['bins'] if round(r['from'] * reliability.BINS) == number), None)
      cells += [f'{row["count"]:,}', shown.format(row['outcome'])] if row else ['', '']
    rows.append(cells)
  if models:
    errors = [cell for of in models.values() for cell in ('', f'{of["ece"]:.3f}')]
    rows.append(['Expected calibration error', *errors])
  return Table(_calibration_note(results), headers, rows)


def _calibration_note(results: Results) -> str:
  """Explains a score of 0.7 and the calibration; empty if the run did not look."""
  found, task = results.calibration, results.task
  asked = found.get('models', {}).get(results.models[-1]['name'], {}).get('asked')
  if not asked:
    return ''
  between, pairs = f'{asked["from"]:.2f} to {asked["to"]:.2f}', f'{asked["count"]:,} pairs'
  scored = f'scored {between} by the student'
  if task == 'multiclass':
    scored = f'whose likeliest class the student scores {between}'
  if not asked['count']:
    said = f'There is no test pair {scored}.'
  elif task == 'regression':
    said = f'Test pairs {scored} have a mean label of {asked["outcome"]:.2f} ({pairs}).'
  else:
    what = 'are positive' if task == 'binary' else 'have it right'
    said = f'Of test pairs {scored}, {asked["outcome"]:.0%} {what} ({pairs}).'
  made, others = 'as trained', ''
  if found['temperature'] != 1:
    made = f'calibrated on valid: its logits are divided by {found["temperature"]:.3g}'
    if results.significance:
      others = ' Other students, and the test against them, are not calibrated.'
  return (
    f"{said} The student's score is {made}.{others} Expected calibration error: the mean distance, "
    'over pairs, from mean score to outcome of a bin.'
  )


def _thresholds(results: Results) -> Table:
  """Precision, recall and F1 of a binary task's test pairs that the student scores at least so."""
  rows = [
    [
      f'{row["threshold"]:.3g}' + ', best F1 on valid' * row['best_on_valid'],
      f'{row["count"]:,}',
      *(
        'n/a' if row[name] is None else metric(row[name]) for name in ('precision', 'recall', 'f1')
      ),
    ]
    for row in results.calibration.get('thresholds', [])
  ]
  note = 'On test, of the exported scores; the best F1 is looked for on valid.'
  return Table(note, ['Student scores at least', 'Pairs', 'Precision', 'Recall', 'F1'], rows)


# Speed and cost


def _speed(results: Results) -> Table:
  """Pairs a second of teacher and heads, and what a runtime of the head costs in quality."""
  rows = [
    [row['name'], digits(row['pairs_per_second']), *_against(results, row), *_worth(row)]
    for row in results.speed
  ]
  note = speeds.COMPARED if 'teacher' in speeds.by_model(results) else speeds.BASELINE
  note += f' {_LARGEST}' * any('max_difference' in row for row in results.speed)
  return Table(note, ['Model', 'Pairs/s', *speeds.AGAINST, *_worth_headers(results)], rows)


def _stored(results: Results) -> Table:
  """Bytes of stored vectors, and what they cost in quality."""
  rows = [
    [r['dtype'], ', '.join(f'{slot} {size:,}' for slot, size in r['bytes'].items()), *_worth(r)]
    for r in results.stored
  ]
  return Table(_LARGEST, ['As', 'Bytes a text', *_worth_headers(results)], rows)


def _encoders(results: Results) -> Table:
  """Texts a second of the encoders, and what a runtime costs in quality."""
  rows = [
    [r['name'], digits(r['texts_per_second']), times(r['ratio']), f'{r["cosine"]:.4f}', *_worth(r)]
    + [metric(r['int8']['test'])]
    for r in results.encoders
  ]
  note = (
    f"{_LARGEST} Cosine: the mean of vectors' with the exact ones; texts: the last slot's of test."
  )
  worth = _worth_headers(results)
  headers = ['Runtime', 'Texts/s', '× tensorflow', 'Cosine', *worth, 'Test, head in int8']
  return Table(note, headers, rows)


def _against(results: Results, row: dict[str, Any] | None) -> list[str]:
  """A speed row's multiples of what `speeds.AGAINST` names, as cells."""
  return [times(value) for value in speeds.multiples(results, row)]


def _worth_headers(results: Results) -> list[str]:
  shown = label(results.primary_metric)
  return [f'{shown} (valid)', f'{shown} (test)', 'Difference']


def _worth(row: dict[str, Any]) -> list[str]:
  """Cells of a row's metrics and difference, empty where it has none."""
  difference = f'{row["max_difference"]:.1g}' if 'max_difference' in row else ''
  return [metric(row.get('valid')), metric(row.get('test')), difference]


# The rest


def _training(results: Results) -> Table:
  """Time, pace and best step of each training."""
  rows, unit = [], 'pairs'
  for of in results.training:
    loss = metric(of['history'][-1]['loss']) if of.get('history') else ''
    (counted,) = (name for name in of if name.endswith('_per_second'))
    unit, rate = counted.removesuffix('_per_second'), of[counted]  # no rate of no steps
    pace = [duration(of['seconds']), digits(rate) if rate else '', f'{of["best_step"]:,}']
    rows.append([of['name'], *pace, loss])
  return Table('', ['Stage', 'Time', f'{unit.capitalize()}/s', 'Best step', 'Last loss'], rows)


def _data(results: Results) -> Table:
  """Tuples of each set, and how many were left out of it, as valid or test has them."""
  left_out = {f'left out of {name}': count for name, count in results.left_out.items() if count}
  note = 'Left out: tuples that stand in valid or test.' if left_out else ''
  return Table(note, ['', 'Rows'], _named({**results.data, **left_out}))


def _named(values: dict[str, Any]) -> list[list[str]]:
  """Rows of names and values: {'a': {'b': 1}} as 'A b' and '1'."""
  rows = []
  for name, value in values.items():
    inner = value if isinstance(value, dict) else {'': value}
    rows += [[_written(f'{name} {key}'), _value(name, of)] for key, of in inner.items()]
  return rows


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
