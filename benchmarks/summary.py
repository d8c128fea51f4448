"""The README's tables: what to take when, and each task's quality and speed beside the papers'."""

from typing import Any

from benchmarks import nearness
from benchmarks.committed import markdown, read
from benchmarks.nearness import SHIPPED
from common.evaluation import speeds
from common.evaluation.cells import change, digits, label, metric, times

_ROWS = {
  SHIPPED: 'Home Depot',
  'homedepot_nearest': 'Home Depot, of two teachers, twice the tokens',
  'p2t': 'synthetic catalogue',
  'q2p': 'MedQuAD, mined',
}
RUNS = {  # whose speeds are shown, those of the README first
  **_ROWS,
  'homedepot': "Home Depot, of training texts and the teacher's scores alone",
  'homedepot_4x12_from_wide': "Home Depot, of two teachers, from the wider student's encoder",
}
_PAPERS = {  # before the runs of
  SHIPPED: ['P2T-REL, the paper (Table 2)', 'Pearson', '0.757', '0.731', '-3.4%', '362×', ''],
  'q2p': ['Q2P-MAT, the paper (Table 3)', 'AUC-ROC', '0.957', '0.932', '-2.6%', '355×', ''],
  'glue': ['DSE, the paper (Tables 1 and 4)', 'GLUE score', '', '', '-4.6%', '13,594×', ''],
}

_TEACHER = "DiPair's teacher, tensorflow"
_CHOICES = {  # name, the row of its speed, the row of its Pearson, when to take it
  'cross-encoder': (
    "DiPair's teacher, litert-int8",
    _TEACHER,
    'a hundred candidates a query at the most; and as the teacher',
  ),
  '**DiPair**, head in int8': (
    'DiPair head, litert-int8',
    'DiPair head, litert-int8',
    'thousands of candidates a query, billions of pairs in a batch, a teacher or labels at hand',
  ),
  "ColBERT's MaxSim, not trained on the task": (
    'MaxSim of all tokens',
    'MaxSim of all tokens',
    'nothing to learn from, and room for all tokens of all texts',
  ),
  'bi-encoder, cosine, not trained on the task': (
    'cosine of sentence vectors',
    'cosine of sentence vectors',
    'the nearest of millions by an index: a first stage, before any of the others',
  ),
  'the same, fine-tuned on its labels': (
    'cosine of sentence vectors',
    'the same, fine-tuned on the train table',
    'the same',
  ),
}


def choice() -> str:
  """What else there is: quality, speed, bytes of a text, and when it is the better one."""
  made, shipped = read('peers'), read(SHIPPED)
  if not made or not shipped:
    return ''
  of = {row['name']: row for row in made['rows']}
  own = {row['name']: row['test'] for row in shipped['speed'] if 'test' in row}
  own[_TEACHER] = shipped['models'][0]['test'][shipped['primary_metric']]
  rows = []
  for name, (speed, quality, when) in _CHOICES.items():
    if quality in of:
      size = of[speed].get('bytes', {})
      kept = f'{size["int8"]:,.0f}' if size else 'none: reads text'
      shown = [
        metric(own.get(quality, of[quality]['test'])),
        digits(of[speed]['pairs_per_second']),
        kept,
      ]
      rows.append([name, *shown, when])
  headers = ['', 'Pearson, Home Depot', 'pairs/s', 'bytes a title, int8', 'take it for']
  ours, theirs, theirs_crossed = (
    digits(of[name]['pairs_per_second'])
    for name in (
      'DiPair encoder, litert-int8',
      'sentence-transformers, ONNX int8',
      'CrossEncoder, ONNX int8',
    )
  )
  note = f"""\
All from MiniLM-L6; timed on the same two cores in one run, with sentence-transformers'
[forms of it](docs/results.md#other-libraries-beside-ours-home-depot). Pairs/s are of stored vectors, but the
cross-encoder's, which reads both texts: the teacher in LiteRT's int8, its Pearson in float32
(sentence-transformers' ONNX int8: {theirs_crossed}); a title is encoded once, {ours} a second in int8 (by
sentence-transformers' ONNX int8 {theirs}). DiPair's and its teacher's Pearson are of a later run of the same sizes (of those timed:
{metric(of['DiPair head, litert-int8']['test'])} and {metric(of[_TEACHER]['test'])}); MaxSim and cosines were timed on float32. Not for texts that are each met once, in one pair: encoding is
the whole cost then, and a cross-encoder scores better.{_latency()}{_lstm()}"""
  return f'{markdown(headers, rows)}\n\n{note}'


def _latency() -> str:
  """What a query's candidates take, and how far rates of two runs may lie apart."""
  made, own = read('scoring'), read('homedepot')
  if not made or not own:
    return ''
  of = {row['name']: row for row in made['rank']}
  int8, exact = (of[f'DiPair, {runtime}'] for runtime in ('litert-int8', 'tensorflow'))
  alone = next(row for row in own['speed'] if row['name'] == 'DiPair head, litert-int8')
  return f"""

For a query that waits: 1,000 candidates are ranked in {int8['p50']:.0f} ms (p99 {int8['p99']:.0f}) with the head in int8, in {exact['p50']:.0f} ms
({exact['p99']:.0f}) in TensorFlow, of stored vectors of 4 and 8 tokens of 256 ([measured](docs/results.md#scoring)). Rented cores
differ by the day: in a run of its own the head of the table has {digits(alone['pairs_per_second'])} pairs/s. Compare within one table."""


def _lstm() -> str:
  """What a student without attention comes to, in a run of its own."""
  of_dipair = 'homedepot_catalogue'
  made, dipair = read('homedepot_bilstm_catalogue'), read(of_dipair)
  if not made or not dipair:
    return ''
  quality = metric(made['models'][-1]['test'][made['primary_metric']])
  (encoder, head, stored), (beside_encoder, beside, _) = (
    [
      next(row for row in results[of] if row[name].endswith('int8'))
      for of, name in (('encoders', 'name'), ('speed', 'name'), ('stored', 'dtype'))
    ]
    for results in (made, dipair)
  )
  return f"""

Of texts as short as these, DSE on a BiLSTM comes to {quality} where it has met all titles without their labels
(`--unlabelled_texts`; `configs/homedepot_bilstm.flags`), with {stored['bytes']['right']} bytes a title in int8
([measured](docs/results.md#the-siamese-bilstm-of-tang-et-al-2019-home-depot)). In int8 its head has {digits(head['pairs_per_second'])} pairs/s and
its encoder {digits(encoder['texts_per_second'])} titles a second; [DiPair of the same pairs](benchmarks/results/{of_dipair}.json), timed as it was
in a run of its own and not with the table above, had {digits(beside['pairs_per_second'])} and {digits(beside_encoder['texts_per_second'])}."""


def summary() -> str:
  """The table and what its columns are."""
  headers = ['task', 'test metric', 'teacher', 'student', 'change', *speeds.AGAINST]
  rows, teachers = [], []
  for name, title in _ROWS.items():
    if results := read(name):
      head = results['flags']['head']
      title += '' if head == 'transformer' else f', `--head={head}`'
      rows += [*filter(None, [_PAPERS.get(name)]), _run(results, title)]
      teachers.append(results['flags']['teacher_pretrained'])
  if glue := read('glue'):
    rows += [_PAPERS['glue'], _glue(glue)]
    teachers += [results['flags']['teacher_pretrained'] for results in glue['results'].values()]
  if made := read('dse_speed'):
    rows.append(_large_shapes(made))
  names = ', '.join(f'`{name}`' for name in dict.fromkeys(teachers))
  note = f"""\
Speed is the head's pairs/s on stored vectors by the default runtime, `tensorflow`, and after "int8"
by the fastest, `litert-int8`; what it is divided by is in TensorFlow's float32{_in_int8()}. An empty place was not
measured. All but Home Depot's first are of a machine with AMX. **Encoding, once per text, is not in
it** (in DSE's paper and in BERT-Large's shapes, the query's is). *Its teacher* is the run's own
({names}), on the test pairs at their real lengths, tokenization included; the papers have their own,
BERT-Large's shapes a BERT-Large cross-encoder on 128 tokens. *BERT-base at 128* is a cross-encoder of
BERT-base's shapes with random weights, on 128 tokens. In brackets: a change's 95% interval, by paired bootstrap: Home
Depot's second and MedQuAD's, measured before the others, draw pairs one by one, the others' texts with all their pairs. DSE's tasks are small, QQP
and SNLI subsets, and MiniLM-L6 is a sentence encoder that has seen such pairs: [what that explains](docs/results.md#dse-on-glue-table-1), and each task's interval.{_home_depots()}"""
  return f'{markdown(headers, rows)}\n\n{note}'


def _home_depots() -> str:
  """What Home Depot's students learnt, and what that of two teachers is against one of them."""
  wide = read('homedepot_nearest')
  if not wide:
    return ''
  return f"""
Home Depot's students learnt from the titles of all products, test's among them, without their labels
(`--unlabelled_texts`); the first also the labels of the training pairs, with the mean of a text's tokens among those kept:
[what each gave](docs/results.md#home-depot-what-the-shipped-config-has-after-stage-1). The second learnt the mean of two
teachers; against one of them it is at {nearness.of_teachers(wide)[0]}, and its teacher's pairs/s are of both."""


def _in_int8() -> str:
  """What a teacher gains in int8, which no multiple counts."""
  made = read('peers')
  if not made:
    return ''
  of = {row['name']: row for row in made['rows']}
  int8, exact = (
    of[f"DiPair's teacher, {runtime}"]['pairs_per_second']
    for runtime in ('litert-int8', 'tensorflow')
  )
  return f""" (in int8 the teacher of Home Depot is itself {times(int8 / exact)} as
fast, [measured](docs/results.md#other-libraries-beside-ours-home-depot))"""


def _run(results: dict[str, Any], title: str) -> list[str]:
  primary = results['primary_metric']
  teacher, student = results['models'][0], results['models'][-1]
  heads = speeds.heads(results)
  int8 = next((row for row in heads if row['name'].endswith('litert-int8')), None)
  both = zip(*(speeds.multiples(results, row) for row in (heads[0], int8)), strict=True)
  return [
    *(title, label(primary), metric(teacher['test'][primary]), metric(student['test'][primary])),
    *(change(student, 'test'), *(_both(times(a), times(b)) for a, b in both)),
  ]


def _glue(made: dict[str, Any]) -> list[str]:
  """DSE's mean over the tasks, and the least and most of their speeds."""
  headers, rows = made['table']['headers'], made['table']['rows']
  models = {row[0]: dict(zip(headers, row, strict=True)) for row in rows}
  teacher, student = models['Teacher'], models['DSE (alpha = 0.5)']
  title = f'DSE from MiniLM-L6: {", ".join(headers[1 : headers.index("AVG")])}'
  spans = [_spans(made, runtime) for runtime in ('tensorflow', 'litert-int8')]
  ranges = [_both(*of) for of in zip(*spans, strict=True)]
  return [title, 'mean', teacher['AVG'], student['AVG'], student['Degradation'], *ranges]


def _spans(made: dict[str, Any], runtime: str) -> list[str]:
  """Least and most of the tasks' multiples by a runtime of the head."""
  found = [
    speeds.multiples(results, next(r for r in speeds.heads(results) if r['name'].endswith(runtime)))
    for results in made['results'].values()
  ]
  return [f'{times(min(values))} to {times(max(values))}' for values in zip(*found, strict=True)]


def _large_shapes(made: dict[str, Any]) -> list[str]:
  """Table 4's speed, with queries as long as the paper's; random weights have no quality."""
  online = {
    row['runtime']: row
    for row in made['rows']
    if row['table'] == 'Table 4' and row['tokens'] == 128
  }
  default, int8 = (times(online[name]['speedup']) for name in ('tensorflow', 'litert-int8'))
  title = "DSE in BERT-Large's shapes, random weights: a query, "
  title += online['tensorflow']['what']
  return [title, '', '', '', '', _both(default, int8), '']


def _both(default: str, int8: str) -> str:
  return f'{default}, int8 {int8}' if int8 else default
