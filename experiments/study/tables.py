"""A study's comparisons as tables of formatted cells."""

from typing import Any

import numpy as np

from common.evaluation import speeds
from common.evaluation.cells import chance, change, digits, label, mean, metric, percent, times
from common.evaluation.tables import Table
from experiments.study.comparing import RANKING
from experiments.study.speeds import BASELINE, ENCODERS, INT8, REAL
from experiments.study.students import RUNTIMES

_DELTA = 'Delta: against the teacher, in brackets its 95% interval.'
_P = (
  'p: two-sided, paired bootstrap; against the teacher, and against the closest baseline, the row '
  'that is next below on test.'
)
_SPREAD = 'Mean ± standard deviation over seeds; tests are of the mean.'
_FIRST = "In int8: of the first seed, after the exact head's."
_TEXTS = 'Texts/s: texts of test, encoded as exported, tokenization included.'
_PAIRS = f'Pairs/s: of a head on stored vectors in LiteRT. {speeds.COMPARED}'
_CROSS = (
  "A cross-attention student's pairs/s and × BERT-base are on 128 tokens, its × the teacher is at "
  "real lengths, as are the teacher's pairs/s."
)
_OF_TEXTS = dict(zip(ENCODERS.values(), ('Texts/s', 'Texts/s in int8'), strict=True))
_SPEEDS = ('Pairs/s', *reversed(speeds.AGAINST), '× in int8', 'Test in int8')


def table(study: dict[str, Any], key: str) -> Table:
  """A comparison as a table.

  Args:
    study: Contents of `study.json`.
    key: Key among its comparisons.
  """
  comparison, teacher = study['comparisons'][key], study['teacher']
  rows, timed = comparison['rows'], comparison['timed']
  shown = [_teacher(study, timed)] if teacher else []
  for row in rows:
    shown.append({**_quality(study, row), **(_speeds(study, row) if timed else {})})
  headers = [name for name in _headers(study) if any(cells.get(name) for cells in shown)]
  several = any(len(row['students']) > 1 for row in rows)
  notes = {
    _DELTA: teacher,
    _P: teacher,
    _P.replace('against the teacher, and ', ''): not teacher,
    _SPREAD: several,
    _FIRST: several and timed,
    _TEXTS: 'Texts/s' in headers,
    _PAIRS: timed,
    _CROSS: timed and any(row['cross'] for row in rows),
  }
  note = ' '.join(text for text, holds in notes.items() if holds)
  return Table(note, headers, [[cells.get(name, '') for name in headers] for cells in shown])


def values(study: dict[str, Any], row: dict[str, Any], split: str, name: str) -> list[float]:
  """A metric of a row's students, a seed each; nan where it is undefined."""
  found = [study['students'][student][split][name] for student in row['students']]
  return np.array(found, float).tolist()


def runs_of(study: dict[str, Any], row: dict[str, Any]) -> dict[str, dict[str, Any]]:
  """Speeds of a timed row's first student by runtime, and its metric there."""
  runs = study['speed']['students'][row['students'][0]]
  return {
    runtime: {name: np.nan if value is None else value for name, value in run.items()}
    for runtime, run in runs.items()
  }


def _of(name: str, split: str) -> str:
  """Header of a metric of a set."""
  return f'{label(name)} ({split})'


def _headers(study: dict[str, Any]) -> list[str]:
  """Headers of all columns in order; a table leaves out a column without a cell."""
  primary, second = study['metrics']
  quality = [_of(primary, 'valid'), 'Delta (valid)', _of(primary, 'test'), 'Delta (test)']
  quality += ['p', 'p (closest)', _of(second, 'test'), _of(RANKING, 'test')]
  sizes = ['Head parameters', 'Bytes a text']
  named = ['Student', *quality, *sizes, *_OF_TEXTS.values(), *_SPEEDS]
  return list(dict.fromkeys(named))  # ranking may be the metric that decides


def _quality(study: dict[str, Any], row: dict[str, Any]) -> dict[str, str]:
  """Metrics of a row, its change against the teacher, and its sizes."""
  first = study['students'][row['students'][0]]
  p_value, closest = row.get('p_value', {}).get('test'), row.get('p_closest')
  parameters = first['head_parameters']
  found = {
    'Student': row['name'],
    'Delta (valid)': percent(row.get('delta', {}).get('valid')),
    'Delta (test)': change(row, 'test'),
    'p': '' if p_value is None else chance(p_value),
    'p (closest)': '' if closest is None else chance(closest),
    'Head parameters': '' if parameters is None else f'{parameters:,}',
    'Bytes a text': ' + '.join(f'{size:,}' for size in first['bytes']),
  }
  shown = _shown(study, first)
  return found | {_of(n, split): mean(values(study, row, split, n)) for n, split in shown}


def _shown(study: dict[str, Any], model: dict[str, Any]) -> list[tuple[str, str]]:
  """Metrics of a model that have a column, and their sets."""
  primary, second = study['metrics']
  ranking = [(RANKING, 'test')] if RANKING in model['test'] else []
  return [(primary, 'valid'), (primary, 'test'), (second, 'test'), *ranking]


def _speeds(study: dict[str, Any], row: dict[str, Any]) -> dict[str, str]:
  """Cells of encoders, then of the exact head or of cross-attention, then of the head in int8."""
  runs = runs_of(study, row)
  encoders = {
    header: digits(runs[key]['texts_per_second'])
    for key, header in _OF_TEXTS.items()
    if key in runs
  }
  teacher = study['speed'].get('teacher')
  at_base = runs.get(BASELINE) or runs[RUNTIMES[1]]
  beside = runs.get(REAL) or runs[RUNTIMES[1]]
  cells = [digits(at_base['pairs_per_second']), times(at_base['ratio'])]
  cells.append(times(beside['pairs_per_second'] / teacher['pairs_per_second']) if teacher else '')
  if int8 := runs.get(INT8):
    exact, *others = values(study, row, 'test', study['metrics'][0])
    in_int8 = f'{metric(exact)}, {metric(int8["test"])}' if others else metric(int8['test'])
    cells += [times(int8['ratio']), in_int8]
  return {**encoders, **dict(zip(_SPEEDS, cells, strict=False))}


def _teacher(study: dict[str, Any], timed: bool) -> dict[str, str]:
  """Cells of the teacher's row."""
  teacher = study['teacher']
  found = {_of(name, split): metric(teacher[split][name]) for name, split in _shown(study, teacher)}
  if timed and (rate := study['speed'].get('teacher')):
    ratio = rate['pairs_per_second'] / study['speed']['base']['pairs_per_second']
    found |= zip(_SPEEDS, (digits(rate['pairs_per_second']), times(ratio), '1×'), strict=False)
  return {'Student': 'teacher', **found}
