"""A run's speeds, as multiples of its own teacher's and of BERT-base's at 128 tokens.

A speed row is {'name', 'model', 'pairs_per_second', 'ratio'} of `Results.speed`: 'model' is
'student' (the exported one), 'teacher' or another name; 'ratio' is to BERT-base at 128 tokens.
"""

import re
from typing import Any

from common.evaluation.results import Results

AGAINST = ['× its teacher', '× BERT-base at 128']  # headers of `multiples`
BASELINE = (
  'BERT-base at 128: a cross-encoder of its shapes with random weights, on 128 tokens. '
  "A head's pairs/s are of stored vectors: encoding, once per text, is not in them."
)
COMPARED = (
  "Its teacher: the run's own, on the test tuples at their real lengths, tokenization included. "
  + BASELINE
)


def multiples(results: Results, row: dict[str, Any] | None) -> tuple[float | None, float | None]:
  """A speed row's pairs/s divided by the run's teacher's, and by BERT-base's at 128 tokens.

  None stands for what the run did not measure; BERT-base itself is no multiple of the teacher.
  """
  if row is None:
    return None, None
  own, teacher = None, by_model(results).get('teacher')
  if teacher and (row is teacher or row in heads(results)):
    own = row['pairs_per_second'] / teacher['pairs_per_second']
  return own, row['ratio']


def by_model(results: Results) -> dict[str, dict[str, Any]]:
  """{model name: the first speed row that is its own}."""
  names, found = {model['name'] for model in results.models}, {}
  for row in results.speed:
    if (name := _owner(results, row)) in names:
      found.setdefault(name, row)
  return found


def heads(results: Results) -> list[dict[str, Any]]:
  """Speed rows of the exported student's head: one a runtime, the default's first."""
  last = results.models[-1]['name']
  return [row for row in results.speed if _owner(results, row) == last]


def default_and_fastest(results: Results) -> list[dict[str, Any]]:
  """The head's row by the default runtime and, where another is faster, the fastest one's."""
  rows = heads(results)
  fastest = sorted(rows[1:], key=lambda row: -row['pairs_per_second'])[:1]
  return rows[:1] + [r for r in fastest if r['pairs_per_second'] > rows[0]['pairs_per_second']]


def _owner(results: Results, row: dict[str, Any]) -> str:
  """The model that a speed row belongs to; the student is the last model.

  Rows of earlier runs say it by their name's first word.
  """
  model = row.get('model') or re.split(r'\W', row['name'].lower())[0]
  return results.models[-1]['name'] if model in ('student', results.student) else model
