"""Tables of calibration and thresholds: headers, rows and note, from `results['calibration']`."""

from typing import Any

from common.evaluation import reliability
from common.evaluation.cells import Parts

_OUTCOMES = {'binary': 'positive', 'regression': 'mean label', 'multiclass': 'right'}
_WORTH = ('precision', 'recall', 'f1')


def by_bin(results: dict[str, Any]) -> Parts:
  """Outcomes of test's pairs by bin of their score: counts and means, a column each per model."""
  found, task = results.get('calibration') or {}, results['task']
  models = found.get('models', {})
  headers = ['Score']
  for name in models:
    headers += [f'Pairs, {name}', f'{_OUTCOMES[task].capitalize()}, {name}']
  rows = []
  for number in range(reliability.BINS):
    cells = [f'{number / reliability.BINS:.1f} to {(number + 1) / reliability.BINS:.1f}']
    for of in models.values():
      row = next((r for r in of['bins'] if round(r['from'] * reliability.BINS) == number), None)
      cells += ['', ''] if row is None else [f'{row["count"]:,}', _share(task, row['outcome'])]
    rows.append(cells)
  errors = [cell for of in models.values() for cell in ('', f'{of["ece"]:.3f}')]
  rows.append(['Expected calibration error', *errors])
  return headers, rows if models else [], note(results)


def thresholds(results: dict[str, Any]) -> Parts:
  """Precision, recall and F1 of a binary task's test pairs that the student scores at least so."""
  rows = [
    [
      f'{row["threshold"]:.3g}' + ', best F1 on valid' * row['best_on_valid'],
      f'{row["count"]:,}',
      *('n/a' if row[name] is None else f'{row[name]:.3f}' for name in _WORTH),
    ]
    for row in (results.get('calibration') or {}).get('thresholds', [])
  ]
  headers = ['Student scores at least', 'Pairs', 'Precision', 'Recall', 'F1']
  return headers, rows, 'On test, of the exported scores; the best F1 is looked for on valid.'


def note(results: dict[str, Any]) -> str:
  """Explains a score of 0.7 and the calibration; empty if the run did not look."""
  found = results.get('calibration') or {}
  asked = found.get('models', {}).get(results['models'][-1]['name'], {}).get('asked')
  if not asked:
    return ''
  between, pairs = f'{asked["from"]:.2f} to {asked["to"]:.2f}', f'{asked["count"]:,} pairs'
  scored = f'scored {between} by the student'
  if results['task'] == 'multiclass':
    scored = f'whose likeliest class the student scores {between}'
  if not asked['count']:
    said = f'There is no test pair {scored}.'
  elif results['task'] == 'regression':
    said = f'Test pairs {scored} have a mean label of {asked["outcome"]:.2f} ({pairs}).'
  else:
    what = 'are positive' if results['task'] == 'binary' else 'have it right'
    said = f'Of test pairs {scored}, {asked["outcome"]:.0%} {what} ({pairs}).'
  made = 'as trained'
  if found['temperature'] != 1:
    made = f'calibrated on valid: its logits are divided by {found["temperature"]:.3g}'
  error = (
    'Expected calibration error: the mean distance, over pairs, from mean score to outcome of a '
    'bin.'
  )
  others = ''
  if made != 'as trained' and results.get('significance'):
    others = ' Other students, and the test against them, are not calibrated.'
  return f"{said} The student's score is {made}.{others} {error}"


def _share(task: str, outcome: float) -> str:
  return f'{outcome:.2f}' if task == 'regression' else f'{outcome:.0%}'
