"""Studies of Home Depot's students, as sections of docs/results.md: what they are made of."""

from benchmarks.committed import command, markdown, read, section
from experiments.study import tables as study_tables
from experiments.study.speeds import ENCODERS

_STUDIED = {  # comparisons of the studies that are shown, and their titles
  'table2': 'Heads (Table 2)',
  'table6': 'Tokens that are kept (Table 6)',
  'table5': 'Width of the projection (Table 5)',
  'figure3b': 'Layers of the encoders (Figure 3b)',
  'losses': 'Losses of distillation',
  'students': 'Other ways to train',
  'table4': 'Settings of the head (Table 4)',
  'table7': 'DiPair and Poly-encoders (Table 7)',
  'figure4': 'Length of the texts (Figure 4)',
  'temperature': 'Temperature of the soft labels',
  'encoders': "The texts' encoders, shared or not (§4.2)",
}
_NAMES = {"as the run's": 'all 6, the student itself'}
_DEPTHS = """Query encoders of the first layers of a finished student's, trained anew with its head against its
products' vectors, which stay as they are (`--freeze_right`): 300 steps of 256 pairs, one seed. More layers are better (two
and three are not told apart), and even five of the six do not come back to the student in these steps; on valid all were
rising still. Try int8 first, in which all six layers take less time than one of them in TensorFlow. Time: of one query a
call, tokenization included, median of 5 rounds, in TensorFlow and in LiteRT's int8 (`{command}`, commit {commit}); weights
change none of it."""
STUDIES = {  # by their folders in docs/study: a title, and how to read what was found
  'homedepot_whole': (
    'every head by the whole recipe',
    """One seed a head, by the recipe of the student of 4 and 12 tokens of two teachers: both stages, so that encoders are
trained with their heads; on a GPU in bfloat16, MaxSim on two cores. The teacher is the mean of the two. As in the paper
DE-Cos is last and DiPair's transformer first, above LITE, the next below, and the encoders make up most of what heads
without attention lack: frozen, DE-Cos loses a third of the metric ([three
seeds](#the-students-of-the-dipair-paper-on-home-depot-3-seeds)), trained a sixteenth. Heads that compare tokens with
one another, MaxSim, LITE and the Poly-encoder, cannot be told apart, nor the Poly-encoder from DE-FFNN. DiPair's FFNN
is not above DE-Cos, and DE-FFNN not below it, against the paper's order: its 16 tokens of 128 side by side, from random
weights, are more than it makes use of here. Seeds differ, and none of the p's allows for that.""",
  ),
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
  'levers': (
    'losses of distillation and other levers, three seeds',
    """Stage 1 alone, on frozen encoders, 1,000 steps of 256 pairs, at one learning rate for all: what a longer training or a
second stage makes of the differences is not measured here. Squared errors of logits, DSE's loss, are below Eq. 1 in the
mean, but not by each seed. Margin-MSE and listwise KL compare the
candidates of a query alone, so nothing tells them what a score is over all pairs, which Pearson compares; within a
query, by NDCG@10, they are near the others (not tested). The mean of a text's tokens in [CLS]'s place, which costs
nothing, and a head of twice the layers are each above the run's own student by each seed; the two are not told apart.
An encoder of the fine-tuned teacher's weights (DSE, 3.4), frozen, is far below MiniLM's: the teacher learnt to read two
texts together, and MiniLM to place each by itself.""",
  ),
  'labels': (
    "the labels beside the teacher's scores, three seeds",
    """Stage 1 alone, as above, on the same pairs and scores; 161,840 of the 300,032 pairs made are training pairs and keep their
labels, which `--alpha` below 1 takes beside the teacher's scores (DSE, Eq. 2); of the others it learns from these alone.
It costs nothing, and gives more than any of the levers above: half of each takes away two thirds of what the student
lost, and each seed of it is above each of the others'. Labels also give listwise KL the level that its lists leave
open.""",
  ),
  'both_stages': (
    'the labels in both stages',
    """One seed, the same pairs and scores, 1,000 steps of stage 1 and 150 of stage 2, the encoders trained with the rest. With
half of the labels (`--alpha=0.5`) the student is not told apart from its teacher, and is well above the one that
learns from the scores alone. The teacher is one of 1,600 steps; of a better one, in longer stages, less is left of it, as
the next section has it.""",
  ),
  'shipped': (
    'the labels in long stages',
    """`configs/homedepot.flags` before it took all products' titles and the mean in [CLS]'s place, one seed: the run's student, and one
of the scores alone (`--alpha=1`), of the same teacher, pairs and scores in as many steps, 4,000 of stage 1 and 1,000 of stage 2. What the labels gave in short trainings has
mostly gone: 1.0% of the metric on test is left, within chance, and on NDCG@10 the student of the scores alone is the higher
one (not tested). On valid, by which a checkpoint is chosen, the student of the labels is as good as its teacher, on test it
is not, and neither is surely within 1.5% of it. What they do save is time: after stage 1 alone, of seven minutes, the
student of the labels comes to 0.548 on test, where both stages, of fifty, bring the one of the scores alone. What brought
the config's student nearer is [the next thing it took](#home-depot-the-shipped-config-and-what-it-was).""",
  ),
  'stage_1': (
    'what the shipped config has, after stage 1',
    """The run of `configs/homedepot.flags`, and its stage 1 alone, on frozen encoders: as it is, of the teacher's scores alone
(`--alpha=1`), and with [CLS] in place of the mean. Without the titles of all products, and without the mean, stage 1 comes to
0.548 ([what the config was](#home-depot-the-shipped-config-and-what-it-was)). So labels and titles give 1.5% and 1.4%, which
is not tested one by one, and the mean 0.5%, which is within chance.
Where training must be short, stage 1 with all three takes seven minutes, and is within chance of its teacher. One seed each.""",
  ),
  'narrow': (
    'fewer and wider tokens, by the shipped recipe',
    """The shipped run's data, teacher, pairs, scores and steps, in bfloat16, as `--precision=auto` has it on these cores, one seed
each: the config's student again, 0.562 in float32, and one of 4 and 8 tokens of 256, the size of the paper's Table 3. This one is within 1.5%
of its teacher, by its whole interval. Which of the two is better is not known: on test it is the wider one (p 0.045), on
valid the other, and another arithmetic alone moves the shipped one by 0.003. A title is 8 tokens of 256 in place of 12 of 128, a third more
bytes, and the head has 2.4 times the parameters.""",
  ),
  'homedepot_encoders': (
    'one encoder or two',
    """One seed, 1,000 steps of stage 1, in which the encoders are frozen and so the same, and 150 of stage 2, in which each text's
own may go its own way. They come to the same, as terms and titles are of one language here: two encoders are twice the
weights to train, keep and load, for nothing. The run shares one, as `--shared_encoder` is the default.""",
  ),
  'homedepot_heads': (
    'heads, Poly-encoders, temperature and length',
    """One seed and stage 1 alone, on frozen encoders, 1,000 steps of 256 pairs, at one learning rate for all, on the run
that `python -m dipair.run --flagfile=configs/homedepot.flags --distillation_pairs=300032 --unlabelled_texts=
--token_selection=first --alpha=1 --stage1_steps=1000 --stage1_eval_every=250 --stage2_steps=0` makes (its teacher and pairs at commit fbd9529), whose own student is the row without changes. Of so many rows some p's below 0.05 are luck. Speeds are
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
  return [*map(_studied, STUDIES), _query_depths()]


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
    of = 'Cross-attention students (Table 2b)' if crossed else of
    parts.append(f'**{of}**\n\n{markdown(table.headers, rows)}')
    notes.append(table.note)
  note = f'{notes[0]}\n\n{prose}\n[All of its tables and figures](study/{name}/study.md).'
  return section(f'Home Depot: {title}', made, '\n\n'.join(parts), note)


def _query_depths() -> str:
  """What a shallower encoder of queries loses, and the time that it saves."""
  made, timed = read('study_queries'), read('query_depth')
  if not made or not timed:
    return ''
  table = study_tables.table(made, 'students')
  quality = [name for name in table.headers[1:] if name.startswith(('Pearson', 'Delta', 'p'))]
  times = {row['layers']: [f'{row[runtime]:.2f}' for runtime in ENCODERS] for row in timed['rows']}
  layers = {
    row['name']: made['students'][row['students'][0]]['flags'].get(
      'left_encoder_layers', max(times)
    )
    for row in made['comparisons']['students']['rows']
  }
  rows = []
  for row in table.rows:
    cells = dict(zip(table.headers, row, strict=True))
    name = cells['Student']
    of_query = (
      times[layers[name]] if name in layers else ['', '']
    )  # the teacher has no query's vectors
    rows.append([_NAMES.get(name, name), *(cells[of] for of in quality), *of_query])
  headers = ["Query's encoder", *quality, 'ms a query', 'in int8']
  note = _DEPTHS.format(command=command(timed), commit=timed['commit'])
  return section(
    "Home Depot: layers of the query's encoder alone", made, markdown(headers, rows), note
  )
