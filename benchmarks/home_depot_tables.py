"""Home Depot's students, as sections of docs/results.md: what brings them near their teacher, what they are made of."""

from typing import Any

from benchmarks import compared
from benchmarks.committed import commands, markdown, read, section
from common.evaluation.cells import chance, change, label, metric, moved, percent
from dipair.study import tables as study_tables

_ENSEMBLE, _CATALOGUE, _WIDE = 'homedepot_ensemble', 'homedepot_catalogue', 'homedepot_wide'
_NEAREST, _OF_TABLE_2, _OF_TABLE_3 = 'homedepot_nearest', 'homedepot_4x12', 'homedepot_4x8'
_FROM_WIDE, _SHORT_FROM_WIDE = 'homedepot_4x12_from_wide', 'homedepot_4x8_from_wide'
_RUNS = ('homedepot_dense', 'homedepot_long', 'homedepot', _ENSEMBLE, _CATALOGUE, _WIDE, _NEAREST)
_RUNS += (_OF_TABLE_2, _OF_TABLE_3, _FROM_WIDE, _SHORT_FROM_WIDE)
_SIZES = ('output_tokens', 'projection_dim', 'head_inner_dim')
_COMPARED = {  # runs of two teachers, by their folders
  'homedepot_wide2': '8x24 of 128',
  'homedepot_4x12': '4x12 of 128',
  'homedepot_4x8': '4x8 of 256',
  'homedepot_4x12m': '4x12 of 128, from the first',
  'homedepot_4x8m': '4x8 of 256, from the first',
}
_STUDIED = {  # comparisons of the studies that are shown, and their titles
  'table2': 'Cross-attention students (Table 2b)',
  'table6': 'Tokens that are kept (Table 6)',
  'table5': 'Width of the projection (Table 5)',
  'figure3b': 'Layers of the encoders (Figure 3b)',
  'losses': 'Losses of distillation',
  'table4': 'Settings of the head (Table 4)',
  'table7': 'DiPair and Poly-encoders (Table 7)',
  'figure4': 'Length of the texts (Figure 4)',
  'temperature': 'Temperature of the soft labels',
}
STUDIES = {  # of one seed, by their folders in docs/study: a title, and how to read what was found
  'homedepot': (
    'tokens, widths, depths, and students that read both texts',
    """One seed, and stage 1 alone, on frozen encoders, of another teacher by the flags of `configs/homedepot.flags` than the
shipped run's; 1,000 steps of 256 pairs, a quarter of the shipped config's and as many
as there was time for, at one learning rate for all; the cross-attention students have 1,200 steps of 64. Of these,
MiniLM's first three layers alone are above DiPair's head, at a small part of its pairs a second; BERT-Tiny's shape has
random weights. As in the paper, the most tokens are the best, two a side are among the worst, and a narrower projection
loses. Of the tokens kept, rows next to each other cannot be told apart, of widths and depths most can; none of the p's
allows for how many rows there are. First layers alone, frozen, are no sentence encoder's: how far a second stage brings
them is not measured here.

The students are of several starts of the command below, from commit 910cba17f9 on. That of D=16 was trained without
oneDNN, with which it was [ended twice](architecture.md#choices-the-machine). That without a projection was trained
again, at the commit below: before, its head did not start from matches, and came to 0.306 on test; the rows with a
projection start from before that change.""",
  ),
  'homedepot_losses': (
    'losses of distillation',
    """One seed and stage 1 alone, on frozen encoders, 1,000 steps of 256 pairs, at one learning rate for all; the teacher is
another training by the flags of the tables above. Eq. 1 and the squared error of logits, which DSE takes, cannot be
told apart. Margin-MSE and listwise KL compare the candidates of a query alone, so nothing tells them what a score is
over all pairs, which Pearson compares; within a query, by NDCG@10, they are near the others (not tested). On the run
that `python -m dipair.run --flagfile=configs/homedepot.flags --stage1_steps=1000 --stage1_eval_every=250
--stage2_steps=0` makes (its teacher and pairs at commit fbd9529, the rest at the commit below).""",
  ),
  'homedepot_heads': (
    'heads, Poly-encoders, temperature and length',
    """One seed and stage 1 alone, on frozen encoders, 1,000 steps of 256 pairs, at one learning rate for all, on the run of
the losses above, whose own student is the row without changes. Of so many rows some p's below 0.05 are luck. Speeds are
of a machine without instructions for int8 (AVX2), where heads in int8 are no faster than in float32.

Of the head's settings the tokens kept are what counts: twice as many are above all other rows. A second layer gains 2%
of the metric, and costs seven eighths of the pairs a second, as a last layer is computed for one row alone. More
attention heads give nothing that can be seen, nor does the inner width: of 256 it has 2.4 times the pairs a second of
1,024, and is not below it (0.520 and 0.518, not tested against each other). DiPair's FFNN wants to be wide, and comes
to less than DE-FFNN of its width (of 128 not told apart here, p 0.33; in the three seeds told, p 0.006). After as few
steps DE-FFNN of 1,024 comes within 0.001 of the transformer of 4x12 tokens (not tested), at a quarter of its bytes a
title; with twice the tokens the transformer is above it, DiPair's FFNN comes to 0.002 more (not tested).

Without a projection a Poly-encoder has codes alone to learn, and is a third below its teacher, of however many codes;
DiPair of as many tokens is above it, as in the paper (Appendix C), by far more than there. With a projection it comes
to more ([Table 2 of three seeds](study/homedepot_seeds/study.md)).

No temperature on both sides (Hinton et al., 2015) is above T=1, Eq. 1 itself, and T=0.5 is below the others. Three
quarters of the longest lengths do as well as the whole; of half of them 4% are lost, of a quarter, which cuts most
titles, 29%.""",
  ),
}


def sections() -> list[str]:
  """What there is of them, in the order in which it is read."""
  return [_levers(), _compared(), _vectors(), *map(_studied, STUDIES)]


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
    quality = [[metric(student[of][primary]), change(student, of)] for of in ('valid', 'test')]
    rows.append([name, *quality[0], *quality[1], made['commit']])
    found = [f'{at["step"]:,}: {metric(at["valid"][primary])}' for at in last['history']]
    curves.append([name, ', '.join(found)])
  of = label(primary)
  headers = ['', f'{of} (valid)', 'Delta (valid)', f'{of} (test)', 'Delta (test)', 'Commit']
  tables = [markdown(headers, rows), markdown(['', f'{of} on valid, by step of stage 2'], curves)]
  note = """All but the last seven have 300,032 pairs made of the training texts, in the second and third row scored by the
same teacher, in the first by another of the same flags, and each a stage 1 of 4,000 steps of its own. Delta: against
the teacher, in brackets the 95% interval (paired bootstrap). A block is of 64 terms and 64 titles, and the training pairs among them come first: of fewer pairs a block,
they are more of the set, as test has them, and of more blocks, more of the titles are in one. The third row is the
shipped config's.

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
two and of the last two draw a term with all its titles, those above one pair at a time; test has 1.4 titles a term. Both were
trained at commit a9a3fb12e3, and evaluated and timed at the commit beside them, which trains alike but for logits in
float32 in place of bfloat16. Much of their training ran beside other work.

The tenth row's student has the eighth's sizes, scores and steps, but its encoder starts from the seventh row's student
(`--pretrained=…/student`), and the mean of a text's tokens stands in [CLS]'s place (`--token_selection=mean`), which costs
nothing when a pair is scored. It is told neither from either teacher alone ({}, p {}; {}, p {}) nor from their mean
({}, p {}). After stage 1 alone, seven minutes, it comes to {} on test, the eighth to {}, which its second stage brings to
{}. Its training comes after the seventh's.

The last row's student comes so from the ninth's sizes, and is told from neither teacher alone ({}, p {}; {}, p {}), but from
their mean ({}, p {}). Its second stage is not told from its first ({}, p {}). The first third of stage 1 was trained at
an earlier commit, which trains alike; all of it ran beside light work, and its speeds were timed alone. The commands of all but the third, which is [the shipped config's](#home-depot-the-heads-runtimes-and-its-vectors-as-stored):"""
  *first, _, ensemble, catalogue, wide, nearest, narrow, short, from_wide, last = runs.values()
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
      note.format(*tests),
      commands([*first, ensemble, catalogue, wide, nearest, *named, from_wide, last]),
    ]
  )


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


def _compared() -> str:
  """Home Depot's students of two teachers, each against each."""
  made = read('homedepot_compared')
  if not made:
    return ''
  tables = []
  for stage, title in (('student, stage 1', 'After stage 1'), ('student', 'After both stages')):
    found = compared.table(made, stage)
    rows = [[_COMPARED[run], *cells] for run, *cells in found.rows]
    headers = [*found.headers[:2], *(f'against {row[0]}' for row in rows[:-1])]
    tables.append(f'**{title}**\n\n{markdown(headers, rows)}')
  return section(
    'Home Depot: students of two teachers against one another',
    made,
    '\n\n'.join(tables),
    f"""{found.note}
They are the last five rows of the table above, on whose scores of the same pairs all were trained in as many steps. The
encoder of the first, with the mean of the tokens, gives a smaller student more than 1% after stage 1 alone, where it is told
from the first no more; of it 0.6 to 0.8% are left after stage 2, which for 4x12 is told from none, for 4x8 not. One seed
each; none of the p's allows for how many there are.""",
  )


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


def _studied(name: str) -> str:
  """A study's tables and how to read them; of main results those that read both texts, beside DiPair's."""
  made = read(f'study_{name}')
  if not made:
    return ''
  title, prose = STUDIES[name]
  parts, notes = [], []
  for key, of in _STUDIED.items():
    if key not in made['comparisons']:
      continue
    table = study_tables.table(made, key)
    crossed = [row['name'] for row in made['comparisons'][key]['rows'] if row['cross']]
    names = ['teacher', 'DiPair, transformer', *crossed] if crossed else None
    rows = [row for row in table.rows if names is None or row[0] in names]
    parts.append(f'**{of}**\n\n{markdown(table.headers, rows)}')
    notes.append(table.note)
  note = f'{notes[0]}\n\n{prose}\n[All of its tables and figures](study/{name}/study.md).'
  return section(f'Home Depot: {title}', made, '\n\n'.join(parts), note)
