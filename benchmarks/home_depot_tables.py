"""Home Depot's students, as sections of docs/results.md: what brings them near their teacher, vectors as titles."""

from typing import Any

from benchmarks.committed import markdown, read, section
from common.evaluation.cells import change, label, metric

_RUNS = ('homedepot_dense', 'homedepot_long', 'homedepot', 'homedepot_ensemble')


def sections() -> list[str]:
  """What there is of them, in the order in which it is read."""
  return [_levers(), _vectors()]


def _levers() -> str:
  """Home Depot's student by what its distillation set is made of and the steps of its second stage."""
  runs = [made for name in _RUNS if (made := read(name))]
  if not runs:
    return ''
  primary, rows, curves = runs[0]['primary_metric'], [], []
  for made in runs:
    flags, student, last = made['flags'], _student(made), made['training'][-1]
    name = f'blocks of {flags["block_pairs"]} pairs; {flags["stage2_steps"]:,} steps of '
    name += f'{flags["stage2_batch_size"]} in stage 2'
    if (teachers := len(flags['teachers'])) > 1:
      name += f', of {teachers} teachers'
    quality = [[metric(student[of][primary]), change(student, of)] for of in ('valid', 'test')]
    rows.append([name, *quality[0], *quality[1], made['commit']])
    found = [f'{at["step"]:,}: {metric(at["valid"][primary])}' for at in last['history']]
    curves.append([name, ', '.join(found)])
  of = label(primary)
  headers = ['', f'{of} (valid)', 'Delta (valid)', f'{of} (test)', 'Delta (test)', 'Commit']
  tables = [markdown(headers, rows), markdown(['', f'{of} on valid, by step of stage 2'], curves)]
  note = """Each has 300,032 pairs made of the training texts, in all rows but the last scored by the same teacher, and a
stage 1 of 4,000 steps of its own. Delta: against the teacher, in brackets the 95% interval (paired bootstrap). A block is of 64 terms
and 64 titles, and the training pairs among them come first: of fewer pairs a block, they are more of the set, as test
has them, and of more blocks, more of the titles are in one. The third row is the shipped config's. The last one's
student learnt the mean logits of three teachers, the others' one and two more, and is compared with that one: the
mean is better ({} on test, {} alone), but of what the two bring little arrives. Its command:"""
  tests = [metric(model['test'][primary]) for model in runs[-1]['models']]
  title = 'Home Depot: what brings the student near its teacher'
  return section(title, runs[-1], '\n\n'.join(tables), note.format(*tests))


def _student(made: dict[str, Any]) -> dict[str, Any]:
  """A run's student, against its only teacher, or the first of several."""
  student = made['models'][-1]
  if of_first := made.get('against_one'):
    primary, first = made['primary_metric'], of_first[0]
    on_valid = student['valid'][primary] / made['models'][1]['valid'][primary] - 1
    delta = {'valid': on_valid, 'test': first['delta']}
    student = {**student, 'delta': delta, 'interval': {'test': [first['low'], first['high']]}}
  return student


def _vectors() -> str:
  """Home Depot's titles as vectors, beside the student of its texts after as many steps."""
  made, texts = read('homedepot_vectors'), read('homedepot_long')
  if not made or not texts:
    return ''
  primary = made['primary_metric']
  models = {'titles as texts': texts, "titles as their words' SVD, 256 wide": made}
  rows = []
  for name, of in models.items():
    student = next(model for model in of['models'] if model['name'] == 'student, stage 1')
    rows.append([name, metric(student['valid'][primary]), metric(student['test'][primary])])
  headers = ['', f'{label(primary)} (valid)', f'{label(primary)} (test)']
  note = "The same teacher's scores of the same pairs, 4,000 steps of stage 1. By `examples/product_vectors.py`:"
  title = 'Home Depot: vectors in place of titles (DiPair §5)'
  return section(title, made, markdown(headers, rows), note)
