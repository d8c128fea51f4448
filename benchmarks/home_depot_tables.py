"""Home Depot's students, as sections of docs/results.md: what brings them near their teacher."""

from typing import Any

from benchmarks import compared
from benchmarks.committed import commands, markdown, read, section
from common.evaluation.cells import chance, change, label, metric, moved, percent

_ENSEMBLE, _CATALOGUE, _WIDE = 'homedepot_ensemble', 'homedepot_catalogue', 'homedepot_wide'
_NEAREST, _OF_TABLE_2, _OF_TABLE_3 = 'homedepot_nearest', 'homedepot_4x12', 'homedepot_4x8'
_FROM_WIDE, _SHORT_FROM_WIDE = 'homedepot_4x12_from_wide', 'homedepot_4x8_from_wide'
_RUNS = ('homedepot_dense', 'homedepot_long', 'homedepot', _ENSEMBLE, _CATALOGUE, _WIDE, _NEAREST)
SHIPPED = 'homedepot_all'  # by configs/homedepot.flags
_RUNS += (_OF_TABLE_2, _OF_TABLE_3, _FROM_WIDE, _SHORT_FROM_WIDE, SHIPPED)
_SIZES = ('output_tokens', 'projection_dim', 'head_inner_dim')
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

_LEVERS = """All but the last eight have 300,032 pairs made of the training texts, in the second and third row scored by the
same teacher, in the first by another of the same flags, and each a stage 1 of 4,000 steps of its own. Delta: against
the teacher, in brackets the 95% interval (paired bootstrap). A block is of 64 terms and 64 titles, and the training pairs among them come first: of fewer pairs a block,
they are more of the set, as test has them, and of more blocks, more of the titles are in one. The third row is of
`configs/homedepot.flags` as it was at first, the last of what it is now.

The fourth row's student learnt the mean logits of three teachers, the third row's one and two more, and is compared
with that one: the mean is better ({} on test, {} alone), but of what the two bring little arrives.

The fifth row's pairs are made of the titles of valid and test too (`--unlabelled_texts`), without their labels and the
terms that stand beside them there, as all products of a shop are known when a student is distilled. (The sets share
no product number, but some products have several: 159 of test's 5,540 titles are in train too, and 105 of its 7,552 pairs
stand there word for word, which teachers and students of all rows learn.) It has twice as many pairs, so the two are
not told apart; its teacher is another of the same flags, in float32 ({} on test), so it is compared with the rows above by what it loses alone.

The sixth row's student learns pairs made as the fifth's, scored by the same teacher, and keeps twice as many tokens a
text in a head of a quarter of the inner width. After stage 1 alone it comes to {} on test, the fifth's to {}, and with
750 steps of stage 2 in place of 2,000 its loss can no longer be told from none (p {}); the two students are not tested
against each other. Its stage 2 was cut for time. It was started again from the data, scores and stage 1 of a run of the
same flags but for stage 2's steps.

The seventh row's student has the sixth's sizes, twice the steps of stage 2 and two teachers of the same flags but for the
seed, as `configs/homedepot_wide.flags` has them; it is compared with the first of them ({} on test, their mean {}; against
the mean: {}). Both intervals end above -1.5%, and neither the teacher alone nor the mean that it learnt is told from
it on test. Stage 2 gives {} over stage 1. What its file divides by as its teacher's pairs/s is of both teachers.

The eighth and ninth row's students learn the same scores of the same pairs in as many steps, in the sizes of the paper's Tables 2
and 3. Neither is told from the first teacher (p {}, {}), but an interval reaches {}; from the mean both are told ({};
{}). On valid both are nearer. They are below the row above, which keeps more tokens ([tested](#home-depot-students-of-two-teachers-against-one-another)). The intervals of these
two and of the last three draw a term with all its titles, those above one pair at a time; test has 1.4 titles a term. Both were
trained at commit a9a3fb12e3, and evaluated and timed at the commit beside them, which trains alike but for logits in
float32 in place of bfloat16. Much of their training ran beside other work.

The tenth row's student has the eighth's sizes, scores and steps, but its encoder starts from the seventh row's student
(`--pretrained=…/student`), and the mean of a text's tokens stands in [CLS]'s place (`--token_selection=mean`), which costs
nothing when a pair is scored. It is told neither from either teacher alone ({}, p {}; {}, p {}) nor from their mean
({}, p {}). After stage 1 alone, seven minutes, it comes to {} on test, the eighth to {}, which its second stage brings to
{}. Its training comes after the seventh's.

The eleventh row's student comes so from the ninth's sizes, and is told from neither teacher alone ({}, p {}; {}, p {}), but from
their mean ({}, p {}). Its second stage is not told from its first ({}, p {}). The first third of stage 1 was trained at
an earlier commit, which trains alike; all of it ran beside light work, and its speeds were timed alone.

The last row is `configs/homedepot.flags`, in float32: one teacher, MiniLM as the start, one command. Pairs of all products, the labels of those
that are training pairs and the mean in [CLS]'s place bring a student of 4 and 12 tokens where two teachers
and a wider student before it did. It is not told from its teacher (p {told}), on valid it is above it, and after stage 1 alone, which
takes {minutes} minutes, it comes to {one} on test ({lost} of its teacher, p {told_one}). Its interval, which draws terms whole,
reaches {wide} to each side, to {low}: on this test set it can show a loss to be below 1.5% of a student alone that loses nothing. Data and
teacher are those of a [run before it](#home-depot-the-shipped-config-and-what-it-was), and the teacher's training ran beside other work. The commands of all but the third, which [stands there](#home-depot-the-heads-runtimes-and-its-vectors-as-stored):"""


def sections() -> list[str]:
  """What there is of them, in the order in which it is read."""
  return [_levers(), _shipped(), _of_two_teachers(), _stages(), _vectors()]


def _levers() -> str:
  """Home Depot's student by what its distillation set is made of and the steps of its second stage."""
  runs = {name: made for name in _RUNS if (made := read(name))}
  if len(runs) < len(_RUNS):
    return ''
  primary, rows, curves = runs['homedepot']['primary_metric'], [], []
  shipped = [runs['homedepot']['flags'][size] for size in _SIZES]
  for made in runs.values():
    flags, student, last = made['flags'], _student(made), made['training'][-1]
    name = f'blocks of {flags["block_pairs"]} pairs'
    if flags.get('unlabelled_texts'):
      name += f", {flags['distillation_pairs']:,} in all, of the other sets' titles too"
    name += f'; {flags["stage2_steps"]:,} steps of {flags["stage2_batch_size"]} in stage 2'
    if (teachers := len(flags['teachers'])) > 1:
      name += f', of {teachers} teachers'
    if (sizes := [flags[size] for size in _SIZES]) != shipped:
      (left, right), dim, inner = sizes
      name += f'; {left}x{right} tokens of {dim}, inner width {inner:,}'
    if flags['token_selection'] == 'mean':
      name += "; the mean in [CLS]'s place"
    if flags['pretrained'].endswith('/student'):
      name += "; from the seventh row's student"
    if flags.get('alpha', 1) < 1:
      name += '; labels too'
    quality = [[metric(student[of][primary]), change(student, of)] for of in ('valid', 'test')]
    rows.append([name, *quality[0], *quality[1], made['commit']])
    curves.append([name, _curve(last, primary)])
  of = label(primary)
  headers = ['', f'{of} (valid)', 'Delta (valid)', f'{of} (test)', 'Delta (test)', 'Commit']
  tables = [markdown(headers, rows), markdown(['', f'{of} on valid, by step of stage 2'], curves)]
  *first, _, ensemble, catalogue, wide, nearest, narrow, short, from_wide, last, own = runs.values()
  named = (narrow, short)
  tests = [metric(model['test'][primary]) for model in ensemble['models'][:2]]
  tests.append(metric(catalogue['models'][0]['test'][primary]))
  tests += [metric(made['models'][1]['test'][primary]) for made in (wide, catalogue)]
  tests.append(chance(wide['models'][-1]['p_value']['test']))
  tests += [metric(nearest['models'][place]['test'][primary]) for place in (1, 0)]
  tests.append(of_teachers(nearest)[1])
  tests.append(_tested(nearest['significance'])[0])
  tests += [chance(made['against_one'][0]['p_value']) for made in named]
  tests.append(percent(min(made['against_one'][0]['low'] for made in named)))
  tests += [of_teachers(made)[1] for made in named]
  tests += _told(from_wide)
  tests += [metric(made['models'][-2]['test'][primary]) for made in (from_wide, narrow)]
  tests.append(metric(narrow['models'][-1]['test'][primary]))
  tests += [*_told(last), *_tested(last['significance'])]
  title = '## Home Depot: what brings the student near its teacher'
  return '\n\n'.join(
    [
      title,
      *tables,
      _LEVERS.format(*tests, **_of_shipped(own)),
      commands([*first, ensemble, catalogue, wide, nearest, *named, from_wide, last, own]),
    ]
  )


def _of_shipped(made: dict[str, Any]) -> dict[str, str]:
  """What is said of the shipped config's student, and of what it was after stage 1."""
  primary, (first, both) = made['primary_metric'], made['models'][1:]
  low, high = both['interval']['test']
  return {
    'told': chance(both['p_value']['test']),
    'minutes': f'{made["training"][1]["seconds"] / 60:.0f}',
    'one': metric(first['test'][primary]),
    'lost': change(first, 'test'),
    'told_one': chance(first['p_value']['test']),
    'low': percent(low),
    'wide': f'{(high - low) / 2:.1%}',
  }


def _curve(phase: dict[str, Any], primary: str) -> str:
  """A phase's metric on valid, by step."""
  return ', '.join(f'{at["step"]:,}: {metric(at["valid"][primary])}' for at in phase['history'])


def _student(made: dict[str, Any]) -> dict[str, Any]:
  """A run's student, against its only teacher, or the first of several."""
  student = made['models'][-1]
  if of_first := made.get('against_one'):
    primary, first = made['primary_metric'], of_first[0]
    on_valid = student['valid'][primary] / made['models'][1]['valid'][primary] - 1
    delta = {'valid': on_valid, 'test': first['delta']}
    student = {**student, 'delta': delta, 'interval': {'test': [first['low'], first['high']]}}
  return student


def _told(made: dict[str, Any]) -> list[str]:
  """A student's changes on test from each of several teachers, and from their mean, each with its p."""
  alone = [cell for of in made['against_one'] for cell in _tested(of)]
  return [*alone, of_teachers(made)[1], chance(made['models'][-1]['p_value']['test'])]


def _tested(found: dict[str, Any]) -> list[str]:
  """A difference, and its p."""
  return [moved(found['delta'], found['low'], found['high']), chance(found['p_value'])]


def of_teachers(made: dict[str, Any]) -> tuple[str, str]:
  """A student's changes on test from the first of several teachers, and from their mean."""
  return change(_student(made), 'test'), change(made['models'][-1], 'test')


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
    """They are the seventh to the eleventh row of the first table, on whose scores of the same pairs all were trained in as many steps. The
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
  made, one, two = map(read, ('homedepot_stages', 'homedepot_one_stage', _OF_TABLE_2))
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
  curves = [_curve(phase, primary) for phase in phases]
  values = [metric(model['test']) for model in made['models']]
  rows = [
    *map(list, zip(names, curves, values, ['', '', ', p '.join(_tested(found))], strict=True))
  ]
  of, pace = label(primary), second['seconds'] / steps[1]
  headers = ['', f'{of} on valid, by step', f'{of} on test', 'against both stages']
  note = f"""The first table's eighth row, and a student of its sizes, pairs and scores whose encoder and head were trained together from
the start: in {steps[2] - steps[1]} steps more than stage 2, nearly the time of stage 1, on frozen encoders, and at twice stage 2's learning
rate, 1e-4, as its head is new. It comes to less, but is not told from both stages; the paper's transformer loses more (AUC-ROC
0.891 in place of 0.930, Figure 3a). Here a head starts where [tokens attend to those like them](architecture.md#choices-training),
so that stage 1 has less to guard an encoder from. What two stages give besides is time: stage 1, {first['seconds']:.0f} s, comes on valid
to more than one stage in 1,000 steps, {1000 * pace:,.0f} s at stage 2's pace (its own
run shared the machine, and was slower). One seed, one learning rate; bootstrap of terms with all their titles.

`{one['command']}`, commit {one['commit']}."""
  title = 'Home Depot: one stage of training and two (Figure 3a)'
  return section(title, made, markdown(headers, rows), note)


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
