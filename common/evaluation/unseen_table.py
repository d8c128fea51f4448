"""The table of a run's quality on unseen texts, from `results['unseen']`."""

from typing import Any

from common.evaluation.cells import Parts, compared

_LEARNT = {'train': 'train', 'distillation': 'the distillation set'}
_UNSEEN = {'left': 'left text', 'right': 'right text', 'both': 'both texts'}


def unseen(results: dict[str, Any]) -> Parts:
  """A row for each part that has tuples; parts alike of both learnt sets share one."""
  alike: dict[tuple[str, str, str], tuple[dict[str, Any], list[str]]] = {}
  for part in results.get('unseen') or []:
    if part['tuples']:
      cells = str([part['tuples'], part.get('models')])
      _, learnt = alike.setdefault((part['set'], part['unseen'], cells), (part, []))
      learnt.append(_LEARNT[part['learnt']])
  rows = [_row(part, ' or '.join(learnt)) for part, learnt in alike.values()]
  note = (
    'Tuples of valid and test with texts that were not learnt from. Parts of fewer than 200 tuples '
    'have no metrics. In brackets 95% intervals. Delta: against the teacher, p two-sided.'
  )
  return ['Unseen', 'Tuples', 'Teacher', 'Student', 'Delta', 'p'], rows, note


def line(results: dict[str, Any]) -> str:
  """The student on test's left texts that were not learnt from; empty where they are few."""
  for part in results.get('unseen') or []:
    named = part['set'], part['learnt'], part['unseen']
    if named == ('test', 'distillation', 'left') and 'models' in part:
      name, tuples, teacher, student, change, _ = _row(part, _LEARNT['distillation'])
      against = f', teacher {teacher}, change {change}' if teacher else ''
      return f'Unseen, {name}: student {student}{against} ({tuples} tuples)'
  return ''


def _row(part: dict[str, Any], learnt: str) -> list[str]:
  models = dict(part.get('models', {}))
  teacher, *_ = compared(models.pop('teacher', {}))
  student = compared(next(iter(models.values()), {}))
  name = f'{part["set"]}: {_UNSEEN[part["unseen"]]} not in {learnt}'
  return [name, f'{part["tuples"]:,}', teacher, *student]
