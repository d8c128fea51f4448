"""A study's comparisons as tables of formatted cells."""

from typing import Any

import numpy as np

from common.evaluation import speeds
from common.evaluation.cells import chance, change, digits, label, mean, metric, percent, times
from common.evaluation.tables import Table
from dipair.study.results import RANKING
from dipair.study.speeds import BASELINE, ENCODERS, INT8, REAL, RUNTIMES

_DELTA = 'Delta: against the teacher, in brackets its 95% interval.'
_P = (
  'p: two-sided, paired bootstrap; against the teacher, and against the closest baseline, the row '
  'that is next below on test.'
)
_SPREAD = 'Mean ± standard deviation over seeds; tests are of the mean.'
_CROSS = (
  "A cross-attention student's pairs/s and × BERT-base are on 128 tokens, its × the teacher is at real "
  "lengths, as are the teacher's pairs/s."
)
_TEXTS = dict(zip(ENCODERS, ('Texts/s', 'Texts/s in int8'), strict=True))
_SPEEDS = ('Pairs/s', *reversed(speeds.AGAINST), '× in int8', 'Test in int8')
_FIRST = "In int8: of the first seed, after the exact head's."


def table(study: dict[str, Any], key: str) -> Table:
  """One comparison.

  Args:
    study: As `study.json` holds it.
    key: Of its comparisons.
  """
  comparison = study['comparisons'][key]
  rows, timed = comparison['rows'], comparison['timed']
  encoding = study['encoding'] if comparison.get('encoders') else {}
  found = [_teacher(study, timed)] if study['teacher'] else []
  for row in rows:
    cells = {**_quality(study, row), **_texts(encoding, row)}
    found.append({**cells, **_speeds(study, row)} if timed else cells)
  headers = [name for name in _headers(study) if any(cells.get(name) for cells in found)]
  notes = [_DELTA, _P] if study['teacher'] else [_P.replace('against the teacher, and ', '')]
  if any(len(row['students']) > 1 for row in rows):
    notes += [_SPREAD, _FIRST] if timed else [_SPREAD]
  if encoding:
    notes.append('Texts/s: texts of test, encoded as exported, tokenization included.')
  if timed:
    notes.append(f'Pairs/s: of a head on stored vectors in LiteRT. {speeds.COMPARED}')
    notes += [_CROSS] if any(row['cross'] for row in rows) else []
  shown = [[cells.get(name, '') for name in headers] for cells in found]
  return Table(' '.join(notes), headers, shown)


def values(study: dict[str, Any], row: dict[str, Any], split: str, name: str) -> list[float]:
  """A metric of a row, a seed each."""
  found = [study['students'][student][split][name] for student in row['students']]
  return [np.nan if value is None else value for value in found]


def runs_of(study: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
  """Speeds of a row by runtime, of its first seed, and its metric there; empty where they were not measured."""
  runs = study['speed'].get('students', {}).get(row['students'][0], {})
  return {
    runtime: {name: np.nan if value is None else value for name, value in run.items()}
    for runtime, run in runs.items()
  }


def _of(name: str, split: str) -> str:
  """Header of a metric of a set."""
  return f'{label(name)} ({split})'


def _headers(study: dict[str, Any]) -> list[str]:
  """Headers of all that a table may show, in order; a column without a cell is left out."""
  primary, second = study['metrics']
  quality = [_of(primary, 'valid'), 'Delta (valid)', _of(primary, 'test'), 'Delta (test)']
  quality += ['p', 'p (closest)', _of(second, 'test'), _of(RANKING, 'test')]
  named = ['Student', *quality, 'Head parameters', 'Bytes a text', *_TEXTS.values(), *_SPEEDS]
  return list(dict.fromkeys(named))  # ranking may be the metric that decides


def _quality(study: dict[str, Any], row: dict[str, Any]) -> dict[str, str]:
  primary, second = study['metrics']
  first = study['students'][row['students'][0]]
  p_value, closest = row.get('p_value', {}).get('test'), row.get('p_closest')
  found = {
    'Student': row['name'],
    _of(primary, 'valid'): mean(values(study, row, 'valid', primary)),
    'Delta (valid)': percent(row.get('delta', {}).get('valid')),
    _of(primary, 'test'): mean(values(study, row, 'test', primary)),
    'Delta (test)': change(row, 'test'),
    'p': '' if p_value is None else chance(p_value),
    'p (closest)': '' if closest is None else chance(closest),
    _of(second, 'test'): mean(values(study, row, 'test', second)),
    'Head parameters': f'{first["head_parameters"]:,}' if 'head_parameters' in first else '',
    'Bytes a text': ' + '.join(f'{size:,}' for size in first.get('bytes', [])),
  }
  if _ranks(study, first):
    found[_of(RANKING, 'test')] = mean(values(study, row, 'test', RANKING))
  return found


def _texts(encoding: dict[str, dict[str, float]], row: dict[str, Any]) -> dict[str, str]:
  """Texts that a row's students encode a second, by runtime, where that was measured."""
  rates = encoding.get(row['students'][0], {})
  return {header: digits(rates[of]) for of, header in _TEXTS.items() if of in rates}


def _speeds(study: dict[str, Any], row: dict[str, Any]) -> dict[str, str]:
  """Pairs/s, × BERT-base, × the teacher, × in int8, its metric."""
  runs = runs_of(study, row)
  teacher = study['speed'].get('teacher')
  at_base = runs.get(BASELINE) or runs[RUNTIMES[1]]
  beside = runs.get(REAL) or runs[RUNTIMES[1]]
  cells = [digits(at_base['pairs_per_second']), times(at_base['ratio'])]
  cells.append(times(beside['pairs_per_second'] / teacher['pairs_per_second']) if teacher else '')
  if int8 := runs.get(INT8):
    exact, *others = values(study, row, 'test', study['metrics'][0])
    in_int8 = f'{metric(exact)}, {metric(int8["test"])}' if others else metric(int8['test'])
    cells += [times(int8['ratio']), in_int8]
  return dict(zip(_SPEEDS, cells, strict=False))


def _teacher(study: dict[str, Any], timed: bool) -> dict[str, str]:
  primary, second = study['metrics']
  valid, test = study['teacher']['valid'], study['teacher']['test']
  found = {
    'Student': 'teacher',
    _of(primary, 'valid'): metric(valid[primary]),
    _of(primary, 'test'): metric(test[primary]),
    _of(second, 'test'): metric(test[second]),
  }
  if _ranks(study, study['teacher']):
    found[_of(RANKING, 'test')] = metric(test[RANKING])
  if timed and (rate := study['speed'].get('teacher')):
    ratio = rate['pairs_per_second'] / study['speed']['base']['pairs_per_second']
    found |= zip(_SPEEDS, (digits(rate['pairs_per_second']), times(ratio), '1×'), strict=False)
  return found


def _ranks(study: dict[str, Any], model: dict[str, Any]) -> bool:
  """Whether ranking has a column of its own."""
  return RANKING in model['test'] and RANKING not in study['metrics']
