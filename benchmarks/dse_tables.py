"""DSE as sections of docs/results.md: GLUE, SentEval and its speed in the paper's shapes."""

import numpy as np

from benchmarks import speed_tables
from benchmarks.committed import commands, markdown, read, section, shown
from common.evaluation.cells import chance, change, label, mean, metric, moved
from experiments import suite

_WHOLE = 'MiniLM-L6, all 6 layers: a sentence encoder'
_STARTS = {  # files of runs, by what their students start from
  'its first 4 layers': 'qqp_4_layers',
  'random weights, 4 layers, 256 wide': 'qqp_random',
}
_OF_STARTS = """Accuracy on test, and relative changes with their 95% intervals (paired bootstrap). MiniLM's last layers are what a
billion pairs have made a sentence encoder; its first four have learnt from them too, but do not give its vectors. All
three students learn of one teacher, its scores and the labels, on pairs shuffled one by one, and from no start is the teacher seen
to add to the labels. In an earlier run from four layers, whose batches held pairs that follow one another in the file, it
added 1.1% [0.4, 1.8]; one seed each, which does not tell the order of the pairs from chance. What the start gives is far
more: with alpha = 0.5, {} points of accuracy from random weights to four layers, {} from these to six. 750 steps, from random
weights 1,500. The random checkpoint is by
`python -m common.pretrain --flagfile=configs/pretrain.flags --run_dir=runs/random_qqp --input_files=data/glue/QQP/train.tsv --text_columns=question1,question2 --max_length=64 --steps=0 --warmup_steps=0`;
the two runs, with data, teacher and its scores of the first row's:"""


def sections() -> list[str]:
  """What there is of them, in the order in which it is read."""
  return [_glue(), _teachers(), _starts(), _senteval(), _speed()]


def _glue() -> str:
  """Table 1 with ours, and students' changes with their intervals."""
  made = read('glue')
  if not made:
    return ''
  table = suite.table1(made['results'])
  note = f"""{table.note} QQP and SNLI are subsets, and the models small (MiniLM-L6 throughout), one seed. QNLI, of
whose pairs the dev set alone was at hand, and RTE, of whose labelled pairs 277 are not its training set's, are left out.
The students start from all-MiniLM-L6-v2, a sentence encoder trained on a billion pairs, duplicate questions
and NLI among them: the table cannot tell what of a score is that start's and what the teacher's ([QQP from other starts](#dse-from-other-starts-qqp)). The teachers
start there too, and as cross-encoders make less of it on STS-B, where all students but the frozen one are above them, and
on MRPC. What the teacher's logits add to the labels is sure on STS-B alone; on QQP alpha = 0.5 is below the labels alone,
and not told from them (p {chance(made['results']['qqp']['significance']['p_value'])}). In an earlier run, whose batches held pairs that follow one another in the file, it
was above them by 0.8% [0.2, 1.6]; one seed each, which does not tell the order of the pairs from chance. A frozen encoder is below alpha = 0.5 and 1 in
all four (not tested). The students of QQP and SNLI were still rising on valid; of the teachers, trained for longer by
three seeds, [QQP's alone gains by it](#glues-teachers-until-valid-stops-rising)."""
  found = suite.changes(made['results'])
  note += f'\n\n{markdown(found.headers, found.rows)}\n\n{found.note}'
  return shown('DSE on GLUE (Table 1)', made, table, note)


def _teachers() -> str:
  """GLUE's teachers by seed, trained for longer than Table 1's."""
  made, tasks = read('glue_teachers'), read('glue')
  if not made or not tasks:
    return ''
  rows, gains = [], {}
  for task, found in made['tasks'].items():
    steps, best = zip(*(max(curve, key=lambda at: at[1]) for curve in found['curves']), strict=True)
    own = tasks['results'].get(task)
    ours = ['', '']
    if own:
      value = own['models'][0]['valid'][found['metric']]
      gains[task] = np.mean(best) - value
      ours = [metric(value), f'{own["flags"]["teacher_steps"]:,}']
    rows.append(
      [
        f'{suite.TITLES[task]}, {label(found["metric"])}',
        *ours,
        f'{found["steps"]:,}',
        mean(best),
        ', '.join(map(metric, best)),
        ', '.join(f'{step:,}' for step in steps),
        mean([curve[-1][1] for curve in found['curves']]),
      ]
    )
  headers = ['Task', "Table 1's", 'its steps', 'Steps', 'Best', 'by seed', 'at step', 'Last']
  note = f"""![Metric on valid by step](glue_teachers.png)

On valid, by which a run takes its checkpoint; mean ± standard deviation of three seeds, trained on an NVIDIA H100 at
commit f624847833. A teacher ends at the step in the table, or once five evaluations in turn are no better: at the end
none rises by more than chance. QQP's gain {100 * gains['qqp']:.1f} points to Table 1's teacher, so that its students there have an easier
teacher to match than three more epochs would give; SNLI's and STS-B's gain no more than seeds differ by, and MRPC's differ
by seed by more than any of Table 1's students from its teacher. RTE's learn next to nothing: from a sentence encoder, of
2,220 pairs, a cross-encoder is right as often as a coin. What they come to on test, and students of them, are not
measured."""
  title = "GLUE's teachers, until valid stops rising"
  by = {'command': made['command'], 'commit': made['commit']}  # put together where there is no GPU
  return section(title, by, markdown(headers, rows), note)


def _starts() -> str:
  """What distillation gives students of other starts, on QQP."""
  tasks = read('glue')
  runs = {name: made for name, file in _STARTS.items() if (made := read(file))}
  if not tasks or len(runs) < len(_STARTS):
    return ''
  rows = []
  for name, run in {_WHOLE: tasks['results']['qqp'], **runs}.items():
    models = {model['name']: model for model in run['models']}
    found = [models[name]['test']['accuracy'] for name in ('student, labels', 'student', 'teacher')]
    gain = run['significance']
    given = moved(gain['delta'], gain['low'], gain['high'])
    cells = [*map(metric, found), given, chance(gain['p_value']), change(models['student'], 'test')]
    rows.append([name, *cells])
  headers = [
    'Start',
    'alpha = 0',
    'alpha = 0.5',
    'Teacher',
    'What the teacher adds',
    'p',
    'alpha = 0.5 to teacher',
  ]
  title = '## DSE from other starts: QQP'
  whole, four, random = (100 * float(row[2]) for row in rows)
  note = _OF_STARTS.format(f'{four - random:.1f}', f'{whole - four:.1f}')
  return '\n\n'.join([title, markdown(headers, rows), note, commands(runs.values())])


def _senteval() -> str:
  """Table 2 with ours."""
  made = read('senteval')
  if not made:
    return ''
  table, (raw, *students) = made['table'], made['scores'].values()
  on = lambda task: [np.mean(student[task]) - np.mean(raw[task]) for student in students]  # noqa: E731
  near, below = sorted(on('CR')), sorted(on('STS-B'))
  note = f"""{table['note']} The students are those of SNLI in [Table 1](#dse-on-glue-table-1): they learnt from a subset
of it, 15,796 pairs, and start from the MiniLM of the first row, which a billion pairs have made a sentence encoder. On CR
they are as good, {near[0]:+.1f} to {near[-1]:+.1f}, on all others below it, on STS-B by {-below[-1]:.1f} to {-below[0]:.1f}: as a start for other
tasks the raw encoder is the better one here; nor is the teacher's help (alpha = 0.5, 1) seen. The paper's encoder had
met no pairs but BERT's own, and gained by those of AllNLI. Seven of SentEval's ten tasks, of which the paper's AVG are
here too, by cross-validation of 10 folds as there. One seed, no intervals."""
  title = 'Sentence vectors on SentEval (Table 2)'
  return section(title, made, markdown(table['headers'], table['rows']), note)


def _speed() -> str:
  """Tables 3 and 4 with ours."""
  made = read('dse_speed')
  title = 'DSE in BERT-Large shapes (Tables 3 and 4)'
  return shown(title, made, speed_tables.dse(made)) if made else ''
