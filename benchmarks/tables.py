"""Fills the number blocks of the documents from benchmarks/results.

python -m benchmarks.tables

A block stands between `<!-- NAME: written by benchmarks/tables.py -->` and `<!-- /NAME -->`. The
sentences around it are written by hand.
"""

import os
import re
from collections.abc import Callable
from typing import Any

from benchmarks.committed import ROOT, exists, read
from common.errors import InputError
from common.evaluation import speeds
from common.evaluation.cells import chance, change, digits, label, metric, moved, times
from common.evaluation.results import Results
from common.evaluation.tables import Table

PAGES = (
  'README.md',
  'docs/results.md',
  *(f'docs/results/{name}.md' for name in ('speed', 'waiting', 'peers', 'retrieval')),
  *(f'docs/results/{name}.md' for name in ('large_jobs', 'hard_knocks', 'findings')),
  'docs/explanation/cost.md',
  'docs/how-to/machine.md',
  *(f'docs/how-to/{name}.md' for name in ('choose_a_head', 'your_data')),
)
_BLOCK = re.compile(r'(<!-- (\S+): .*? -->\n)(.*?)(<!-- /\2 -->)', re.DOTALL)

_RESULTS = {  # runs that are judged by pairs that nothing has learnt from
  'homedepot_products': 'Home Depot, new products',
  'homedepot_queries': 'Home Depot, new queries',
  'p2t': 'synthetic catalogue',
  'q2p': 'MedQuAD, answer or not',
  'code_search': 'code search in SQL, match or not',
}
_RERANKED = {'retrieval': 'MedQuAD', 'retrieval_code_search': 'code search in SQL'}
_GLUE = {'mrpc': 'MRPC, paraphrase or not', 'snli': 'SNLI, entailment'}
_LEARNERS = ('teacher', 'student', 'bi-encoder')  # from the same labels
_TASKS = {'qqp': 'QQP', 'mrpc': 'MRPC', 'stsb': 'STS-B', 'snli': 'SNLI'}
_MODELS = {  # of MedQuAD's study
  'teacher': 'cross-encoder, the teacher',
  'DiPair, transformer': 'DiPair, `--head=transformer`',
  'LITE': 'DiPair, `--head=lite`',
  'MaxSim': 'late interaction, `--head=max_sim`',
  'Poly-encoder': 'Poly-encoder, `--head=poly_encoder --output_tokens=11,1`',
  'DE-FFNN': 'one vector of each text, `--head=ffnn --output_tokens=1,1`',
}
_HEADS = {'transformer': 'transformer', 'lite': 'LITE'}
_SPEEDS = {'homedepot': 'Home Depot'}  # a run whose quality is told elsewhere
_RUNTIMES = ('tensorflow', 'litert', 'litert-int8')
# In older results; no runtimes now.
_GONE = ('DiPair head, xla', "DiPair's teacher, openvino", 'DiPair encoder, openvino')
# Cross-encoders of the shapes that the heads of benchmarks.scoring learn from.
_TEACHERS = {'DiPair': 'MiniLM-L6', 'DSE': 'BERT-large'}


def main() -> None:
  """Writes the pages."""
  for page in PAGES:
    text = filled(page)
    with open(os.path.join(ROOT, page), 'w', encoding='utf-8') as file:
      file.write(text)


def filled(page: str) -> str:
  """A page's text, its blocks filled anew.

  Raises:
    InputError: If a block is not known, or its results are missing.
  """
  with open(os.path.join(ROOT, page), encoding='utf-8') as file:
    text = file.read()
  return _BLOCK.sub(lambda found: f'{found[1]}{_block(found[2], page)}\n{found[4]}', text)


def _block(name: str, page: str) -> str:
  """Text of a block."""
  if name in BLOCKS:
    return BLOCKS[name]()
  if name not in TABLES:
    raise InputError(
      f'{page}: no block is called {name}; there are {", ".join([*BLOCKS, *TABLES])}'
    )
  made = read(name)
  return '\n\n'.join([_shown(TABLES[name](made)), f'{_by(made)}{_on(made)}.'])


# What students lose and gain


def results() -> str:
  """A row a task: quality of teacher and student, and the ratio of their speeds in float32."""
  runs, glue = _there(_RESULTS), read('glue')['results']
  rows = [(_HEADS[made['flags']['head']], _run(made, title)) for title, made in runs.items()]
  for name, title in _RERANKED.items():
    rows += [(_HEADS['lite'], row) for row in _reranking(read(name), title)]
  rows += [("DSE's f", _run(glue[task], title)) for task, title in _GLUE.items()]
  columns = [('head', _OF_RUN), *rows]
  headers, *cells = [[row[0], head, *row[1:]] for head, row in columns]
  return _markdown(headers, cells)


def models() -> str:
  """A row a model that MedQuAD's study trained: quality, pairs a second, bytes of two texts."""
  made = read('study_q2p')
  primary, speed = made['metrics'][0], made['speed']
  rate = speed['teacher']['pairs_per_second']
  cells = {'teacher': [metric(made['teacher']['test'][primary]), digits(rate), '']}
  for row in made['comparisons']['table2']['rows']:
    if row['name'] in _MODELS:
      (name,) = row['students']
      rate = speed['students'][name]['litert']['pairs_per_second']
      size = ' + '.join(f'{count:,}' for count in made['students'][name]['bytes'])
      quality = metric(made['students'][name]['test'][primary])
      cells[row['name']] = [quality, digits(rate), size]
  rows = [[title, *cells[name]] for name, title in _MODELS.items()]
  return _markdown(['model', label(primary), 'pairs/s', 'bytes per question + per answer'], rows)


def heads(made: dict[str, Any]) -> Table:
  """A row a head of one run: quality, bytes of two texts, pairs a second; beside a bi-encoder."""
  primary, speed = made['metrics'][0], made['speed']
  alone = next(
    one['models']['bi-encoder']
    for one in read('bi_encoder')['rows']
    if made['title'].endswith(one['title'])
  )
  against = moved(alone['delta'], *alone['delta_interval'])
  rate = digits(speed['teacher']['pairs_per_second'])
  shown = [['teacher', metric(made['teacher']['test'][primary]), '', '', rate, '']]
  for row in made['comparisons']['heads']['rows']:
    (name,) = row['students']
    runs, size = speed['students'][name], made['students'][name]['bytes']
    rates = [digits(runs[one]['pairs_per_second']) for one in _RUNTIMES[1:]]
    quality = [metric(made['students'][name]['test'][primary]), change(row, 'test')]
    shown.append([row['name'], *quality, ' + '.join(f'{count:,}' for count in size), *rates])
  shown.append(['bi-encoder of the same labels', metric(alone['value']), against, '', '', ''])
  headers = ['head', label(primary), 'of the teacher', 'bytes per left + per right text']
  return Table('', [*headers, 'pairs/s', 'pairs/s in int8'], shown)


def stages(made: dict[str, Any]) -> Table:
  """A row a student of Figure 3a: by both stages, by each alone."""
  primary = made['metrics'][0]
  shown = [['teacher', metric(made['teacher']['test'][primary]), '']]
  for row in made['comparisons']['figure3a']['rows']:
    (name,) = row['students']
    quality = metric(made['students'][name]['test'][primary])
    shown.append([row['name'], quality, change(row, 'test')])
  return Table('', ['student', label(primary), 'of the teacher'], shown)


def glue() -> str:
  """A row a task of GLUE: DSE's student against its teacher, and against the labels alone."""
  rows, runs = [], read('glue')['results']
  for task, title in _TASKS.items():
    tested = runs[task]['significance']
    gain = moved(tested['delta'], tested['low'], tested['high'])
    rows.append([*_run(runs[task], title), gain])
  return _markdown([*_OF_RUN, 'change against the labels alone'], rows)


_OF_RUN = ['task', 'metric', 'teacher', 'student', 'change', 'pairs/s, × its teacher']


def _run(made: dict[str, Any], title: str) -> list[str]:
  """Cells of `_OF_RUN`."""
  results = Results.of_json(made)
  primary, teacher, student = results.primary_metric, results.models[0], results.models[-1]
  ratio, _ = speeds.multiples(results, speeds.heads(results)[0])
  return [
    *(title, label(primary), metric(teacher['test'][primary]), metric(student['test'][primary])),
    *(change(student, 'test'), times(ratio)),
  ]


def _reranking(made: dict[str, Any], title: str) -> list[list[str]]:
  """MRR of candidates that student and teacher rerank; their speeds are of other arithmetic."""
  of = {row['name']: row['metrics']['mrr@10'] for row in made['rows']}
  title = f'{title}, {made["depth"]} candidates a query reranked'
  rows = []
  for added, key, note in (
    ('', 'against_teacher', ''),
    (' + first stage', 'against_sum', ', first stage added to both'),
  ):
    student, teacher = of[f'student{added}'], of[f'teacher{added}']
    lost = moved(*(student[key][name] for name in ('delta', 'low', 'high')))
    cells = [metric(teacher['value']), metric(student['value']), lost, '']
    rows.append([f'{title}{note}', label('mrr@10'), *cells])
  return rows


def retrieval(made: dict[str, Any]) -> Table:
  """Ranking of the first stage, and of those that rank its nearest anew."""
  counts = ', '.join(f'{int(count):,}' for count in made['own'])
  shares = ', '.join(f'{share:.1%}' for share in made['own'].values())
  note = (
    f'{made["queries"]:,} queries of the test split, {made["passages"]:,} passages; the nearest '
    f"{made['depth']:,} hold {made['found']:.1%} of what is relevant. By the student's own first "
    f'vectors the nearest {counts} of all passages hold {shares}.'
  )
  (summed,) = (row['metrics'] for row in made['rows'] if row['name'] == 'student + first stage')
  for key, other in (('against_teacher', 'teacher'), ('against_sum', "teacher's sum")):
    changes = (
      f'{label(name)} {moved(of["delta"], of["low"], of["high"])} (p {chance(of["p_value"])})'
      for name, metrics in summed.items()
      for of in (metrics[key],)
    )
    note += f" Against the {other}, the student's sum changes {', '.join(changes)}."
  headers, rows = ['ranked by'], []
  for name in made['rows'][0]['metrics']:
    headers += [label(name), 'p']
  for row in made['rows']:
    cells = [row['name']]
    for of in row['metrics'].values():
      cells.append(f'{metric(of["value"])} [{metric(of["low"])}, {metric(of["high"])}]')
      cells.append(chance(of['p_value']) if 'p_value' in of else '')
    rows.append([*cells, digits(row['milliseconds'])])
  return Table(note, [*headers, 'p50, ms a query'], rows)


def bi_encoder(made: dict[str, Any]) -> Table:
  """A row a run: teacher, student, and a bi-encoder that learnt the same labels."""
  headers = ['task', 'labels', 'metric', *_LEARNERS]
  rows = []
  for row in sorted(made['rows'], key=lambda row: (row['title'].split(',')[0], row['labels'])):
    shown = [row['title'], f'{row["labels"]:,}', label(row['metric'])]
    for name in _LEARNERS:
      of = row['models'][name]
      low, high = of['interval']
      shown.append(f'{metric(of["value"])} [{metric(low)}, {metric(high)}]')
    shown.append(
      moved(row['models']['student']['delta'], *row['models']['student']['delta_interval'])
    )
    rows.append([*shown, _against(row), row['run']['commit']])
  headers += ['student, of the teacher', 'of the bi-encoder', 'commit']
  return Table('On test, with 95% intervals.', headers, rows)


def labels() -> str:
  """A row a number of Home Depot's labels: what each model reaches on test."""
  found = [row for row in read('bi_encoder')['rows'] if row['title'].startswith('Home Depot')]
  rows = [
    [f'{row["labels"]:,}', *(metric(row['models'][n]['value']) for n in _LEARNERS), _against(row)]
    for row in sorted(found, key=lambda row: row['labels'])
  ]
  return _markdown(['labels', *_LEARNERS, 'student, of the bi-encoder'], rows)


def _against(row: dict[str, Any]) -> str:
  """The student against the bi-encoder."""
  against = row['against_bi_encoder']
  return moved(against['delta'], against['low'], against['high'])


# Speeds


def run_speeds() -> str:
  """A row a run: pairs a second of its teacher and its head, and the multiples in float32."""
  rows = []
  for title, made in _timed_runs().items():
    results = Results.of_json(made)
    heads = _by_runtime(speeds.heads(results))
    own, base = speeds.multiples(results, heads['tensorflow'])
    teacher = speeds.by_model(results)['teacher']
    rates = [row['pairs_per_second'] for row in (teacher, *(heads[name] for name in _RUNTIMES))]
    rows.append([title, *map(digits, rates), times(own), times(base)])
  headers = ['run', 'teacher', *(f'head, {name}' for name in _RUNTIMES)]
  return _markdown([*headers, *speeds.AGAINST], rows)


def run_encoders() -> str:
  """A row a run: texts a second of its exported encoders, and what int8 costs."""
  rows = []
  for title, made in _timed_runs().items():
    encoders = {row['name']: row for row in made['encoders']}
    int8 = encoders['litert-int8']
    rates = [digits(encoders[name]['texts_per_second']) for name in _RUNTIMES]
    tests = [f'{encoders["tensorflow"]["test"]:.4f}', f'{int8["test"]:.4f}']
    rows.append([title, *rates, times(int8['ratio']), f'{int8["cosine"]:.4f}', *tests])
  headers = ['run', *_RUNTIMES, 'int8, × tensorflow', 'cosine of int8', 'test metric', 'in int8']
  return _markdown(headers, rows)


def _timed_runs() -> dict[str, dict[str, Any]]:
  """Runs in the speed table, by title."""
  glue = read('glue')['results']
  own = {f'DSE: {title}': glue[task] for task, title in _TASKS.items()}
  return _there({**_RESULTS, **_SPEEDS}) | own


def _there(titles: dict[str, str]) -> dict[str, dict[str, Any]]:
  """Results by title, of those names that have some."""
  return {title: read(name) for name, title in titles.items() if exists(name)}


def _by_runtime(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
  return {row['name'].rpartition(', ')[2]: row for row in rows}


def scoring(made: dict[str, Any]) -> Table:
  """A row a model of `benchmarks.scoring`, in its quickest forms."""
  rates = {row['name']: row['pairs_per_second'] for row in made['rows']}
  rows = []
  for r in quickest(made['rows']):
    teacher = _TEACHERS.get(r['name'].replace(',', '').split()[0])
    own = r['pairs_per_second'] / rates[f'{teacher} cross-encoder, 128 tokens'] if teacher else None
    rows.append(
      [
        *(r['name'], digits(r['pairs_per_second']), f'{digits(r["least"])} to {digits(r["most"])}'),
        *(times(own), times(r['ratio']), f'{r["mflop"]:,.2f}', f'{r["gemm_share"]:.0%}'),
        f'{r["kilobytes"]:,.1f}',
      ]
    )
  note = f'GEMM: {made["gemm_mflops"] / 1e3:,.0f} GFLOP/s in float32.'
  headers = ['', 'pairs/s', 'range', "× a teacher's shape", speeds.AGAINST[1], 'MFLOP/pair']
  return Table(note, [*headers, 'of GEMM', 'kB/pair'], rows)


def quickest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
  """Each model's quickest row: exact, and in int8 where that is quicker."""
  exact: dict[str, dict[str, Any]] = {}
  int8: dict[str, dict[str, Any]] = {}
  for row in rows:
    model, best = row['name'].split(',')[0], int8 if 'int8' in row['name'] else exact
    if 'float16' not in row['name']:
      best[model] = max(best.get(model, row), row, key=lambda row: row['pairs_per_second'])
  worth = [
    row
    for model, row in int8.items()
    if row['pairs_per_second'] > 1.1 * exact[model]['pairs_per_second']
  ]
  kept = {row['name'] for row in (*exact.values(), *worth)}
  return [row for row in rows if row['name'] in kept]


def rank(made: dict[str, Any]) -> Table:
  """A row a form of LiteRT in `benchmarks.scoring`'s ranking of 1,000 stored candidates."""
  rows = [
    [r['name'], f'{r["p50"]:.1f}', f'{r["p99"]:.1f}', digits(r['rate'])]
    for r in made['rank']
    if r['name'].endswith(('litert', 'litert-int8'))
  ]
  return Table('', ['rank, 1,000 candidates', 'p50, ms', 'p99 of 50, ms', 'pairs/s'], rows)


def late_interaction(made: dict[str, Any]) -> Table:
  """A row a head and way of `benchmarks.late_interaction`."""
  rows = []
  for of_head in zip(made['rows'][::2], made['rows'][1::2], strict=True):
    for row in of_head:
      rate, slow = row['pairs_per_second'], of_head[1]['pairs_per_second']
      rows.append(
        [
          *(row['name'], digits(rate), f'{digits(row["least"])} to {digits(row["most"])}'),
          *(times(rate / slow), f'{rate * made["bytes"] / 1e9:.1f}'),
          *(f'{row["arithmetic"]:.0e}', f'{row["stored"]:.0e}'),
        ]
      )
  headers = ['rank, int8 store', 'pairs/s', 'range', '× pair by pair', 'GB/s of the store']
  note = (
    f'One query, {made["candidates"]:,} candidates of {made["bytes"]:,} bytes. Errors: greatest '
    "difference of logits, in the logits' standard deviations."
  )
  return Table(note, [*headers, 'error of arithmetic', 'with int8 storage'], rows)


def encoding(made: dict[str, Any]) -> Table:
  """A row a form of `benchmarks.encoding`."""
  rows, note = [], ''
  for row in made['rows']:
    ratio = times(row['ratio']) if row['ratio'] else ''
    rows.append([row['name'], digits(row['texts_per_second']), ratio])
    if 'peak_memory' in row:
      before, peak = (f'{row[key] / 1e9:.1f} GB' for key in ('memory_before', 'peak_memory'))
      note = f'Into the store: memory {peak} at the most, {before} before it.'
  return Table(note, ['', 'texts/s', f'× {made["rows"][0]["name"]}'], rows)


def training(made: dict[str, Any]) -> Table:
  """A row a pair of forms of `benchmarks.training`."""
  rows = []
  for row in made['rows']:
    (what, forms), rates = row['name'].split(': '), row['pairs_per_second']
    one, other = forms.split(' / ')
    rows.append([what, f'{one} against {other}', *map(digits, rates), times(row['ratio'])])
  return Table('', ['', 'forms', 'pairs/s', 'against', '×'], rows)


def light(made: dict[str, Any]) -> Table:
  """Times and sizes of `benchmarks.light`."""
  rows = [
    ['import dipair', f'{made["import"]:.2f} s'],
    ["load 'medquad', head and encoder in LiteRT int8", f'{made["load"]:.2f} s'],
    ['first score, of two texts', f'{made["score"]:.2f} s'],
    ['peak memory', f'{made["peak_memory"] / 1e6:,.0f} MB'],
    ['the environment on disk, pip with it', f'{made["installed"] / 1e6:,.0f} MB'],
  ]
  return Table('', ['', ''], rows)


def score_job(made: dict[str, Any]) -> Table:
  """A row a job of `benchmarks.score_job`."""
  headers = ['pairs', 'seconds', 'pairs/s', 'head alone', 'of the head', 'steady', 'RSS', 'USS']
  cells = [
    [f'{r["pairs"]:,}', f'{r["seconds"]:,.0f}', digits(r['pairs_per_second'])]
    + [digits(r['head_pairs_per_second']), f'{r["wall_ratio"]:.1%}', f'{r["ratio"]:.1%}']
    + [f'{r[key] / 1e9:.2f} GB' for key in ('rss', 'uss')]
    for r in made['rows']
  ]
  return Table(f'{made["workers"]} processes, {made["runtime"]}.', headers, cells)


def latency(made: dict[str, Any]) -> list[Table]:
  """Milliseconds to rerank by `benchmarks.latency`, and its servers."""
  at: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
  for row in made['rows']:
    at.setdefault((row['name'], row['where']), {})[row['candidates']] = row
  p50 = {key: of[max(of)]['p50'] for key, of in at.items()}  # of the longest requests
  crossed = min((p50[key] for key in p50 if key[1] == 'new'), default=None)
  ranked = []
  for (name, where), of in at.items():
    alone = [key for key in p50 if key[0] == name and key[1].endswith('alone')]
    alone = [key for key in alone if where == f'{key[1].split(",")[0]}, server']
    own = p50[name, where]
    cells = [f'{row["p50"]:.1f} ({row["p99"]:.1f})' for row in of.values()]
    against = times(own / p50[alone[0]]) if alone else ''
    ranked.append([name, where, *cells, against, times(crossed / own) if crossed else ''])
  counts = [f'{count:,}' for count in next(iter(at.values()))]
  first = next(iter(made['servers'].values()))
  note = (
    f'The server answers {first["start"]:.2f} s after its start. With {made["cached"]:,} documents '
    f'in its cache it takes {first["rss"] / 1e6:,.0f} MB.'
  )
  many = f'{made["clients"]} clients'
  served = [
    [
      *(name, f'{of["one"]:.1f}', f'{of["many"]:.1f}', f'{of["many"] / of["one"]:.2f}'),
      f'{of["longest_to_mean"]:.2f}',
    ]
    for name, of in made['servers'].items()
  ]
  return [
    Table(
      'Milliseconds: p50 (p99). Ratios are of p50 at the most candidates.',
      ['', 'texts', *counts, '× alone', 'times as fast as the fastest cross-encoder'],
      ranked,
    ),
    Table(note, ['requests/s', 'one client', many, 'ratio', 'longest to mean'], served),
  ]


def clients(made: dict[str, Any]) -> Table:
  """A row a client of `benchmarks.clients`."""
  rows = [
    [', '.join(f'{name} {version}' for name, version in of['versions'].items()), checked]
    for of in made['clients'].values()
    for checked in of['checked']
  ]
  return Table('', ['client', 'what was checked'], rows)


def memory(made: dict[str, Any]) -> Table:
  """Peaks of a step on both sizes of data, and how many times the one the other is."""
  rows = []
  for step in made['steps']:
    peaks = [f'{1e3 * value:,.0f}' for key in ('own_gb', 'resident_gb') for value in step[key]]
    rows.append([step['name'], *peaks, f'{step["ratio"]:.2f}×'])
  return Table('', ['', 'own, 1x', 'own, 10x', 'all, 1x', 'all, 10x', 'own, 10x to 1x'], rows)


def _several(name: str, shown: Callable[[dict[str, Any]], list[Table]]) -> str:
  made = read(name)
  return '\n\n'.join([*map(_shown, shown(made)), f'{_by(made)}{_on(made)}.'])


def peers(made: dict[str, Any]) -> list[Table]:
  """Encoders of texts, and scorers of pairs.

  Args:
    made: 'rows' with 'kind', 'name', and what is known of 'pairs_per_second', 'least', 'most',
      'cosine' with float32, 'bytes' of a right text by dtype and 'test' (Pearson); 'counts' and
      'versions'.
  """
  counts = made['counts']
  rows = [row for row in made['rows'] if row['name'] not in _GONE]
  encoders = [row for row in rows if row['kind'] == 'encoding']
  scorers = [row for row in rows if row['kind'] != 'encoding']
  max_sim = next(row for row in scorers if row['name'].startswith('MaxSim'))
  encoding = [[*_timed(row, encoders[0]), f'{row["cosine"]:.4f}'] for row in encoders]
  scoring = []
  for row in scorers:
    against = '' if row['kind'] == 'pairs' else _multiple(row, max_sim)
    sizes = [f'{row["bytes"][of]:,.0f}' if 'bytes' in row else '' for of in ('float32', 'int8')]
    scoring.append([*_timed(row, scorers[0]), against, *sizes, _tested(row)])
  versions = ', '.join(f'{name} {version}' for name, version in made['versions'].items())
  encoded = f'{counts["texts"]:,} titles, {counts["threads"]} cores. {versions}.'
  scored = f'{counts["pairs"]:,} pairs from their text; {counts["candidates"]:,} stored titles for '
  speed = ['', 'per second', 'range']
  of_scorers = ['× MaxSim', 'bytes a title, float32', 'int8', 'Pearson']
  return [
    Table(encoded, [*speed, f'× {encoders[0]["name"]}', 'cosine with float32'], encoding),
    Table(
      f'{scored}each of {counts["queries"]:,} queries.',
      [*speed, f'× {scorers[0]["name"]}', *of_scorers],
      scoring,
    ),
  ]


def _timed(row: dict[str, Any], base: dict[str, Any]) -> list[str]:
  """A row's name, speed, range, and multiple of another's; empty where it was not measured."""
  if 'pairs_per_second' not in row:
    return [row['name'], '', '', '']
  span = f'{digits(row["least"])} to {digits(row["most"])}'
  return [row['name'], digits(row['pairs_per_second']), span, _multiple(row, base)]


def _multiple(row: dict[str, Any], base: dict[str, Any]) -> str:
  rate = row.get('pairs_per_second')
  return times(rate / base['pairs_per_second']) if rate else ''


def _tested(row: dict[str, Any]) -> str:
  return f'{row["test"]:.3f}' if 'test' in row else ''


def _cost() -> str:
  made = read('cost')
  tables = [_markdown(table['headers'], table['rows']) for table in made['tables']]
  notes = [table['note'] for table in made['tables'] if table['note']]
  return '\n\n'.join([f'`{made["command"]}`', *tables, *notes])


# Trials of tests/robustness


def robustness() -> str:
  """Rows by kind of trial: cases, outcomes, and the command."""
  rows = []
  for name, of_trial in _TRIALS.items():
    made = read(name)
    rows += [
      [what, f'{cases:,}', outcome, f'`{made["command"]}`, {made["commit"]}']
      for what, cases, outcome in of_trial(made)
    ]
  return _markdown(['trial', 'cases', 'outcome', 'by'], rows)


def _knocks(made: dict[str, Any]) -> list[tuple[str, int, str]]:
  names = {'commands': 'flags with wrong values', 'tables': 'tables with one fault, or none'}
  rows = []
  for key, what in names.items():
    refused, taken = (sum(c.get(o, 0) for c in made[key].values()) for o in ('refused', 'taken'))
    faults = sum(fault.split()[0].rstrip(',') in made[key] for fault in made['faults'])
    outcome = f'{refused:,} refused, {taken:,} taken as they are meant; {faults} faults'
    rows.append((what, refused + taken + faults, outcome))
  return rows


def _damages(made: dict[str, Any]) -> list[tuple[str, int, str]]:
  named, same, faults = made['named'], made['the same'], len(made['faults'])
  outcome = f'{named:,} refused, {same:,} read as ever; {faults} faults'
  return [('files cut, emptied, removed, with a bit flipped', named + same + faults, outcome)]


def _malformed(made: dict[str, Any]) -> list[tuple[str, int, str]]:
  lost = sum(made['lost'].values())
  outcome = f'{made["faults"]} faults; of {made["good"]:,} good ones beside them {lost} lost'
  return [('malformed requests to the local server', made['cases'], outcome)]


def _storm(made: dict[str, Any]) -> list[tuple[str, int, str]]:
  low, high = made['megabytes']
  outcome = (
    f'{len(made["faults"])} faults; {low} to {high} MB; of {made["counted"]:,} documents in '
    'answers all are in the cache after `kill -9`'
  )
  cases = sum(sum(of.values()) for of in made['statuses'].values())
  return [
    ('good, malformed, large, slow and vanishing requests to the rerank server', cases, outcome)
  ]


def _kills(made: dict[str, Any]) -> list[tuple[str, int, str]]:
  what = f'{len(made["subjects"])} commands killed before a step that writes, and run again'
  return [(what, made['kills'], f'{made["equal"]} ended as an unbroken run, bit by bit')]


_TRIALS = {
  **{'knocks': _knocks, 'damages': _damages, 'malformed': _malformed, 'storm': _storm},
  'kills': _kills,
}


# Markdown


def _markdown(headers: list[str], rows: list[list[str]]) -> str:
  lines = [headers, ['---'] * len(headers), *rows]
  return '\n'.join(f'| {" | ".join(line)} |' for line in lines)


def _shown(table: Table) -> str:
  """A table, and its note below it."""
  return '\n\n'.join(filter(None, [_markdown(table.headers, table.rows), table.note]))


def _by(made: dict[str, Any]) -> str:
  """The command of results, and its commit."""
  return f'`{made["command"]}`, commit {made["commit"]}'


def _on(made: dict[str, Any]) -> str:
  """The processor, where it is not the one of nearly all results."""
  cpu = made['environment'].get('cpu', 'Intel')
  return '' if cpu.startswith('Intel') else f', on two cores of {cpu}'


BLOCKS: dict[str, Callable[[], str]] = {
  'results': results,
  'models': models,
  'glue': glue,
  'run_speeds': run_speeds,
  'run_encoders': run_encoders,
  'latency': lambda: _several('latency', latency),
  'peers': lambda: _several('peers', peers),
  'cost': _cost,
  'memory': lambda: _shown(memory(read('memory'))),
  'rank': lambda: _shown(rank(read('scoring'))),
  'robustness': robustness,
  'labels': labels,
}
TABLES: dict[str, Callable[[dict[str, Any]], Table]] = {  # by the name of their results
  'bi_encoder': bi_encoder,
  'clients': clients,
  'p2t_encoding': encoding,
  'late_interaction': late_interaction,
  'light': light,
  'retrieval': retrieval,
  'retrieval_code_search': retrieval,
  'score_job': score_job,
  'study_heads': heads,
  'study_3a': stages,
  'scoring': scoring,
  'training': training,
}


if __name__ == '__main__':
  main()
