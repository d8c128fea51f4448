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
_FIRST = "In int8: of the first seed, after the exact head's."


def table(study: dict[str, Any], key: str) -> Table:
  """One comparison.

  Args:
    study: As `study.json` holds it.
    key: Of its comparisons.
  """
  primary, second = study['metrics']
  comparison = study['comparisons'][key]
  rows, timed = comparison['rows'], comparison['timed']
  headers = ['Student', f'{label(primary)} (valid)', 'Delta (valid)', f'{label(primary)} (test)']
  headers += ['Delta (test)', 'p', 'p (closest)', f'{label(second)} (test)']
  headers += [f'{label(RANKING)} (test)', 'Head parameters', 'Bytes a text', 'Texts/s']
  headers += ['Texts/s in int8', 'Pairs/s']
  headers += [*reversed(speeds.AGAINST), '× in int8', 'Test in int8']
  encoding = study['encoding'] if comparison.get('encoders') else {}
  cells = [
    [*_quality(study, row), *_texts(encoding, row), *_speeds(study, row, timed)] for row in rows
  ]
  if study['teacher']:
    cells.insert(0, _teacher(study, timed))
  kept = [i for i in range(len(headers)) if any(row[i] for row in cells)]
  notes = [_DELTA, _P] if study['teacher'] else [_P.replace('against the teacher, and ', '')]
  if any(len(row['students']) > 1 for row in rows):
    notes += [_SPREAD, _FIRST] if timed else [_SPREAD]
  if encoding:
    notes.append('Texts/s: texts of test, encoded as exported, tokenization included.')
  if timed:
    notes.append(f'Pairs/s: of a head on stored vectors in LiteRT. {speeds.COMPARED}')
    notes += [_CROSS] if any(row['cross'] for row in rows) else []
  shown = [[row[i] for i in kept] for row in cells]
  return Table(' '.join(notes), [headers[i] for i in kept], shown)


def values(study: dict[str, Any], row: dict[str, Any], split: str, name: str) -> list[float]:
  """A metric of a row, a seed each."""
  found = [study['students'][student][split][name] for student in row['students']]
  return [np.nan if value is None else value for value in found]


def runs_of(study: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
  """Speeds of a row by runtime, of its first seed; empty where they were not measured."""
  return study['speed'].get('students', {}).get(row['students'][0], {})


def _quality(study: dict[str, Any], row: dict[str, Any]) -> list[str]:
  primary, second = study['metrics']
  first = study['students'][row['students'][0]]
  p_value, closest = row.get('p_value', {}).get('test'), row.get('p_closest')
  return [
    row['name'],
    mean(values(study, row, 'valid', primary)),
    percent(row.get('delta', {}).get('valid')),
    mean(values(study, row, 'test', primary)),
    change(row, 'test'),
    '' if p_value is None else chance(p_value),
    '' if closest is None else chance(closest),
    mean(values(study, row, 'test', second)),
    mean(values(study, row, 'test', RANKING)) if _ranks(study, first) else '',
    f'{first["head_parameters"]:,}' if 'head_parameters' in first else '',
    ' + '.join(f'{size:,}' for size in first.get('bytes', [])),
  ]


def _texts(encoding: dict[str, dict[str, float]], row: dict[str, Any]) -> list[str]:
  """Texts that a row's students encode a second, by runtime; empty where that was not measured."""
  rates = encoding.get(row['students'][0], {})
  return [digits(rates[runtime]) if runtime in rates else '' for runtime in ENCODERS]


def _speeds(study: dict[str, Any], row: dict[str, Any], timed: bool) -> list[str]:
  """Pairs/s, × BERT-base, × the teacher, × in int8, its metric."""
  if not timed:
    return [''] * 5
  runs = runs_of(study, row)
  teacher = study['speed'].get('teacher')
  at_base = runs.get(BASELINE) or runs[RUNTIMES[1]]
  beside = runs.get(REAL) or runs[RUNTIMES[1]]
  own = teacher and beside['pairs_per_second'] / teacher['pairs_per_second']
  int8, in_int8 = runs.get(INT8), ''
  if int8:
    exact, *others = values(study, row, 'test', study['metrics'][0])
    in_int8 = f'{metric(exact)}, {metric(int8["test"])}' if others else metric(int8['test'])
  return [
    digits(at_base['pairs_per_second']),
    times(at_base['ratio']),
    times(own) if own else '',
    times(int8['ratio']) if int8 else '',
    in_int8,
  ]


def _teacher(study: dict[str, Any], timed: bool) -> list[str]:
  primary, second = study['metrics']
  valid, test = study['teacher']['valid'], study['teacher']['test']
  cells = ['teacher', metric(valid[primary]), '', metric(test[primary]), '', '', '']
  ranking = metric(test[RANKING]) if _ranks(study, study['teacher']) else ''
  cells += [metric(test[second]), ranking, '', '', '', '']
  if timed and (rate := study['speed'].get('teacher')):
    ratio = rate['pairs_per_second'] / study['speed']['base']['pairs_per_second']
    return [*cells, digits(rate['pairs_per_second']), times(ratio), '1×', '', '']
  return [*cells, '', '', '', '', '']


def _ranks(study: dict[str, Any], model: dict[str, Any]) -> bool:
  """Whether ranking has a column of its own."""
  return RANKING in model['test'] and RANKING not in study['metrics']
