"""Home Depot's students, as sections of docs/results.md: what brings them near their teacher, tested."""

from benchmarks import compared, nearness
from benchmarks.committed import commands, folded, markdown, read, section
from common.evaluation.cells import chance, change, label, mean, metric

_OF_TWO_TEACHERS = {  # runs, by their folders
  'homedepot_wide2': '8x24 of 128',
  'homedepot_4x12': '4x12 of 128',
  'homedepot_4x8': '4x8 of 256',
  'homedepot_4x12m': '4x12 of 128, from the first',
  'homedepot_4x8m': '4x8 of 256, from the first',
}
_SHIPPED_AND_BEFORE = {
  'homedepot': 'of the training texts, [CLS] kept',
  'homedepot_all': "of all products' titles too, the mean in [CLS]'s place",
}

_GOING_ON = """The shipped run's stage 1, and from its weights a short stage 2 for each of three seeds, of another order of the pairs and another
dropout: 200 steps of 256 at the run's own rate, in bfloat16, on all pairs or on the half whose soft labels the student of stage 1
is farthest from. Each change is of the mean of the seeds' metric; p is two-sided, paired bootstrap, and knows of no seeds. A
student whose last step is below its start on valid is that start, as in a run: one of all pairs' is.

So short a stage 2 gives nothing on test by itself; the mean of its three weights (Wortsman et al., 2022) is above each of them and above
stage 1, and costs nothing when a pair is scored; the mean of their logits, three students to store and to score, is hardly
more. In 600 steps together they come near the run's own stage 2 of 1,000 ([M](#home-depot-what-brings-the-student-near-its-teacher), not
tested). The worst pairs are no better to learn from than all, and on test below them, within chance."""


def sections() -> list[str]:
  """What there is of them, in the order in which it is read."""
  return [nearness.section(), _shipped(), _of_two_teachers(), _stages(), _going_on(), _vectors()]


def _shipped() -> str:
  """The shipped config's student, and the one of what the config was."""
  return _compared(
    'homedepot_shipped_compared',
    'the shipped config, and what it was',
    _SHIPPED_AND_BEFORE,
    """One teacher, and as many steps of each stage; both learn the labels too (`--alpha=0.5`). The second has twice as many pairs,
made of valid's and test's titles too, without their labels. [What each gave](#home-depot-what-the-shipped-config-has-after-stage-1) after stage 1. One seed each.""",
  )


def _of_two_teachers() -> str:
  """Home Depot's students of two teachers, each against each."""
  return _compared(
    'homedepot_compared',
    'students of two teachers against one another',
    _OF_TWO_TEACHERS,
    """They are G to K of [the first table](#home-depot-what-brings-the-student-near-its-teacher), all trained on the same scores of the same pairs in as many steps. The
encoder of the first, with the mean of the tokens, gives a smaller student more than 1% after stage 1 alone, where it is told
from the first no more; of it 0.6 to 0.8% are left after stage 2, which for 4x12 is told from none, for 4x8 not. One seed
each; none of the p's allows for how many there are.""",
  )


def _compared(name: str, title: str, names: dict[str, str], note: str) -> str:
  """Students of several runs, each against each, after each stage."""
  made = read(name)
  if not made:
    return ''
  tables = []
  for stage, of in (('student, stage 1', 'After stage 1'), ('student', 'After both stages')):
    found = compared.table(made, stage)
    rows = [[names[run], *cells] for run, *cells in found.rows]
    headers = [*found.headers[:2], *(f'against {row[0]}' for row in rows[:-1])]
    tables.append(f'**{of}**\n\n{markdown(headers, rows)}')
  return section(f'Home Depot: {title}', made, '\n\n'.join(tables), f'{found.note}\n{note}')


def _stages() -> str:
  """A student of Home Depot trained in one stage, beside the one trained in two."""
  made, one, two = map(read, ('homedepot_stages', 'homedepot_one_stage', 'homedepot_4x12'))
  if not made or not one or not two:
    return ''
  primary, (found,) = two['primary_metric'], made['differences']
  first, second, _ = phases = [*two['training'][-2:], one['training'][-1]]
  steps = [phase['history'][-1]['step'] for phase in phases]
  names = (
    f'stage 1 of two, {steps[0]:,} steps',
    f'both, {steps[1]:,} of stage 2',
    f'one stage, {steps[2]:,} steps',
  )
  curves = [nearness.curve(phase, primary) for phase in phases]
  values = [metric(model['test']) for model in made['models']]
  rows = [*map(list, zip(names, curves, values, ['', '', compared.tested(found)], strict=True))]
  of, pace = label(primary), second['seconds'] / steps[1]
  headers = ['', f'{of} on valid, by step', f'{of} on test', 'against both stages']
  note = f"""H of [the first table](#home-depot-what-brings-the-student-near-its-teacher), and a student of its sizes, pairs and scores whose encoder and head were trained together from
the start: in {steps[2] - steps[1]} steps more than stage 2, nearly the time of stage 1, on frozen encoders, and at twice stage 2's learning
rate, 1e-4, as its head is new. It comes to less, but is not told from both stages; the paper's transformer loses more (AUC-ROC
0.891 in place of 0.930, Figure 3a). Here a head starts where [tokens attend to those like them](architecture.md#choices-training),
so that stage 1 has less to guard an encoder from. What two stages give besides is time: stage 1, {first['seconds']:.0f} s, comes on valid
to more than one stage in 1,000 steps, {1000 * pace:,.0f} s at stage 2's pace (its own
run shared the machine, and was slower). One seed, one learning rate; bootstrap of terms with all their titles.

{folded('The command of the one stage', commands([one]))}"""
  title = 'Home Depot: one stage of training and two (Figure 3a)'
  return section(title, made, markdown(headers, rows), note)


def _going_on() -> str:
  """Stage 2 again from the shipped run's stage 1: by seeds, on its worst pairs, and averages."""
  made = read('going_on')
  if not made:
    return ''
  rows = []
  for row in made['rows']:
    cells = [mean(row[of]) for of in ('valid', 'test')]
    for name, of in row['against'].items():
      told = f'{change(of, "test")}, p {chance(of["p_value"]["test"])}'
      cells.append('' if name == row['name'] else told)
    rows.append([row['name'], *cells])
  of = label(made['metric'])
  headers = [
    '',
    f'{of} (valid)',
    f'{of} (test)',
    *(f'against {one}' for one in made['rows'][0]['against']),
  ]
  title = 'Home Depot: stage 2 on the worst pairs, and averages over seeds'
  return section(title, made, markdown(headers, rows), _GOING_ON)


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
  note = """The same teacher's scores of the same pairs, 4,000 steps of stage 1; not measured again since a head's segment
embeddings are as large as its tokens, which of vectors are not quite of size 1, and vectors are standardized. By `examples/product_vectors.py`:"""
  title = 'Home Depot: vectors in place of titles (DiPair §5)'
  return section(title, made, markdown(headers, rows), note)
