"""Tables of a run's ranking (headers, rows, note) from `results['ranking']` and its models'."""

from typing import Any

from common.evaluation.cells import Parts, compared, label, metric, short


def by_metric(results: dict[str, Any]) -> Parts:
  """A row a metric and model: valid, test with its interval, the change on test, its p."""
  found = {model['name']: model['ranking'] for model in results['models'] if model.get('ranking')}
  names = dict.fromkeys(n for sets in found.values() for of in sets.values() for n in of)
  rows = []
  for name in names:
    for model, sets in found.items():
      valid, test = (sets.get(split, {}).get(name, {}) for split in ('valid', 'test'))
      rows.append([f'{label(name)}, {model}', metric(valid.get('value')), *compared(test)])
  return ['Metric', 'Valid', 'Test', 'Delta (test)', 'p (test)'], rows, note(results)


def by_length(results: dict[str, Any]) -> Parts:
  """Table of test's metric by the length of the query."""
  lengths = _of_test(results).get('by_length', {'metric': '', 'groups': []})
  headers = ['Words of the query', 'Queries', 'Teacher', 'Student', 'Delta', 'p']
  said = f'{label(lengths["metric"])} of test by the length of the query, in words; as above.'
  return headers, [_length_row(of) for of in lengths['groups']], said


def worst(results: dict[str, Any]) -> Parts:
  """The queries of test that the student ranks worst, with their candidates."""
  found = _of_test(results).get('worst', {'metric': '', 'queries': []})
  headers = [f'{label(found["metric"])}, {name}' for name in ('teacher', 'student')]
  rows = [
    [short(q['text']), metric(q.get('teacher')), metric(q['student']), _candidates(q)]
    for q in found['queries']
  ]
  said = "Of test, the student's lowest first; ranks: the student's."
  if any('teacher' in q for q in found['queries']):
    said = (
      "Of test, the student furthest below the teacher first; ranks: the teacher's → the student's."
    )
  return ['Query', *headers, 'Candidates: label, ranks'], rows, said


def note(results: dict[str, Any]) -> str:
  """Explains the ranked queries of test; empty if there are none."""
  if not (of := _of_test(results)):
    return ''
  return (
    f'Mean over the {of["queries"]:,} queries (left texts) of test with two candidates or more, '
    f'{of["candidates"]:,} candidates in all; {of["one_candidate"]:,} queries with one are left '
    f'out, {of["none_relevant"]:,} without a relevant one count 0 (in NDCG those without a label '
    'above 0). NDCG gains the label, the others take 0.5 and more for relevant. In brackets 95% '
    'intervals: bootstrap over queries. Delta: against the teacher, p two-sided.'
  )


def line(results: dict[str, Any]) -> str:
  """The student's ranking of test in a line; empty where there is none."""
  found = results['models'][-1].get('ranking', {}).get('test')
  if not found:
    return ''
  values = [f'{label(name)} {metric(of["value"])}' for name, of in found.items()]
  return f"Ranking of test's {results['ranking']['test']['queries']:,} queries: {', '.join(values)}"


def _of_test(results: dict[str, Any]) -> dict[str, Any]:
  return (results.get('ranking') or {}).get('test', {})


def _length_row(group: dict[str, Any]) -> list[str]:
  """3 to 5, 1,200 queries, then teacher, student and the student's change."""
  words = ' to '.join(f'{n:,}' for n in dict.fromkeys(group['words']))
  teacher = compared(group.get('teacher', {}))[0]
  return [words, f'{group["queries"]:,}', teacher, *compared(group['student'])]


def _candidates(query: dict[str, Any]) -> str:
  """red shoe (0.75, 1 → 4); ..."""
  shown = []
  for of in query['candidates']:
    places = ' → '.join(str(of[model]) for model in ('teacher', 'student') if model in of)
    shown.append(f'{short(of["text"])} ({of["label"]:.3g}, {places})')
  more = [f'and {query["more"]:,} more'] if query['more'] else []
  return '; '.join([*shown, *more])
