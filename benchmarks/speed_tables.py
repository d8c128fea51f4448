"""Tables of measured speeds; each says what its × is against."""

from typing import Any

from benchmarks.committed import command
from common.evaluation import speeds
from common.evaluation.cells import chance, digits, label, metric, percent, times
from common.evaluation.tables import Table, against

# Cross-encoders of the shapes that the heads of benchmarks.scoring learn from.
_TEACHERS = {'DiPair': 'MiniLM-L6', 'DSE': 'BERT-large'}
_DSE_PAPER = [
  ['Table 3, the paper', '1,000,000 pairs', '', '', '34,776.00', '34.73', '2.48', '934×'],
  ['Table 4, the paper', '100,000 candidates', '', '', '3,480.00', '0.05', '0.20', '13,594×'],
]


def scoring(made: dict[str, Any]) -> Table:
  """A row a contender of `benchmarks.scoring`."""
  rates = {row['name']: row['pairs_per_second'] for row in made['rows']}
  rows = []
  for r in made['rows']:
    teacher = _TEACHERS.get(r['name'].replace(',', '').split()[0])
    own = r['pairs_per_second'] / rates[f'{teacher} cross-encoder, 128 tokens'] if teacher else None
    rows.append(
      [
        *(r['name'], digits(r['pairs_per_second']), f'{digits(r["least"])} to {digits(r["most"])}'),
        *(times(own), times(r['ratio']), f'{r["mflop"]:,.2f}', f'{r["gemm_share"]:.0%}'),
        f'{r["kilobytes"]:,.1f}',
      ]
    )
  note = (
    "×: to cross-encoders on 128 tokens. A teacher's shape: for DiPair MiniLM-L6, the default; "
  )
  note += 'for DSE BERT-large, whose width its vectors have. Heads score stored vectors: encoding, '
  note += 'once per text, is not in their pairs/s. '
  note += f'GEMM: {made["gemm_mflops"] / 1e3:,.0f} GFLOP/s in float32.'
  headers = [
    '',
    'pairs/s',
    'range',
    "× a teacher's shape",
    speeds.AGAINST[1],
    'MFLOP/pair',
    'of GEMM',
  ]
  return Table(note, [*headers, 'kB/pair'], rows)


def quickest(rows: list[Any], made: dict[str, Any]) -> list[Any]:
  """Of the rows of `scoring`, each model's quickest: exact, and in int8 where that is quicker."""
  exact: dict[str, tuple[float, int]] = {}
  int8: dict[str, tuple[float, int]] = {}
  for number, row in enumerate(made['rows']):
    model, best = row['name'].split(',')[0], int8 if 'int8' in row['name'] else exact
    if 'float16' not in row['name']:
      best[model] = max(best.get(model, (0.0, 0)), (row['pairs_per_second'], number))
  quicker = [found for model, found in int8.items() if found[0] > 1.1 * exact[model][0]]
  return [rows[number] for number in sorted(number for _, number in [*exact.values(), *quicker])]


def serving(made: dict[str, Any]) -> Table:
  """What `benchmarks.serving` sent to the local server."""
  query = made['query']
  rows = [
    *(
      [
        f'{load["requests"]:,} requests of {kind} vectors, {load["concurrency"]} at a time',
        f'{digits(load["rows_per_second"])} pairs/s, {load["ratio"]:.0%} of the head alone (of the '
        f"server's processor time {load['head_share']:.0%} is the head's); p50 {load['p50']:.2f} s, "
        f'p99 {load["p99"]:.2f} s; {sum(load["errors"].values())} lost',
      ]
      for kind, load in (('float32', made['load']), ('int8', made['load_int8']))
    ),
    [
      f'a query of the page, its best ten of {query["products"]:,} stored products',
      f'p50 {1e3 * query["whole"]:.0f} ms, p99 {1e3 * query["p99"]:.0f}; of it encode '
      f'{1e3 * query["encode"]:.0f}, head {1e3 * query["head"]:.0f}, sort {1e3 * query["sort"]:.1f}',
    ],
    [
      'malformed requests while good ones go on',
      '; '.join(f'{name} ({count})' for name, count in made['malformed'].items()),
    ],
  ]
  note = 'The load is sent from the same two cores.'
  return Table(note, ['', 'local server, head in LiteRT int8'], rows)


def encoders(runs: dict[str, dict[str, Any]]) -> Table:
  """A row a run and runtime of its exported encoders; none where no run has measured them."""
  rows = [
    [title, row['name'], digits(row['texts_per_second']), times(row['ratio'])]
    + [f'{row["cosine"]:.4f}', f'{row["test"]:.4f}', f'{row["int8"]["test"]:.4f}']
    for title, results in runs.items()
    for row in results.get('encoders', [])
  ]
  note = (
    "Texts: of the last slot, 512 of the run's. Cosine: the mean of vectors' with TensorFlow's."
  )
  headers = ['', 'encoders', 'texts/s', '× tensorflow', 'cosine', 'test metric']
  return Table(note, [*headers, 'test metric, head in int8'], rows)


def runtimes(made: dict[str, Any]) -> Table:
  """A row a runtime of a run's head, and one a dtype of its stored vectors."""
  rows = []
  for row in [*speeds.heads(made), *made['stored']]:
    what = row.get('name') or f'vectors stored in {row["dtype"]}'
    size = ' + '.join(f'{count:,}' for count in row.get('bytes', {}).values())
    speed = times(row['ratio']) if 'ratio' in row else ''
    rows.append([what, speed, f'{row["test"]:.4f}', f'{row["max_difference"]:.1e}', size])
  headers = ['', speeds.AGAINST[1], 'test metric', 'largest difference', 'bytes, left + right']
  return Table('', headers, rows)


def dse(made: dict[str, Any]) -> Table:
  """A row a table of the DSE paper, length and runtime, of `benchmarks.dse_speed`; the paper's last."""
  rows = [
    [r['table'], r['what'], str(r['tokens']), r['runtime']]
    + [*(f'{r[k]:,.2f}' for k in ('teacher', 'psi', 'f')), times(r['speedup'])]
    for r in made['rows']
  ]
  note = f"{made['note']} ×: the teacher's seconds to those of encoding and f together. "
  note += 'The teacher is a BERT-Large cross-encoder; here all weights are random.'
  headers = [
    '',
    'scored',
    'tokens of a sentence',
    'f run by',
    'teacher, s',
    'encoding, s',
    'f, s',
    '× its teacher',
  ]
  return Table(note, headers, [*rows, *_DSE_PAPER])


def of_runs(runs: dict[str, dict[str, Any]]) -> Table:
  """A row a teacher and head of each run, by the run's title."""
  rows = [
    [title, row['name'], digits(row['pairs_per_second']), *against(results, row)]
    for title, results in runs.items()
    for row in results['speed']
  ]
  return Table(speeds.COMPARED, ['run', '', 'pairs/s', *speeds.AGAINST], rows)


def encoding(made: dict[str, Any]) -> Table:
  """A row a form of `benchmarks.encoding`."""
  rows, note = [], ''
  for row in made['rows']:
    ratio = times(row['ratio']) if row['ratio'] else ''
    rows.append([row['name'], digits(row['texts_per_second']), ratio])
    if 'peak_memory' in row:
      before, peak = (f'{row[key] / 1e9:.1f} GB' for key in ('memory_before', 'peak_memory'))
      note = f'The store: {row["bytes_per_text"]:,.0f} bytes a text; memory {peak} at the most, '
      note += f'{before} before it.'
  return Table(note, ['', 'texts/s', f'× {made["rows"][0]["name"]}'], rows)


def training(made: dict[str, Any], without_amx: dict[str, Any]) -> Table:
  """A row a pair of forms of `benchmarks.training`."""
  rows = []
  for row in made['rows']:
    (what, forms), rates = row['name'].split(': '), row['pairs_per_second']
    one, other = forms.split(' / ')
    rows.append([what, f'{one} against {other}', *map(digits, rates), times(row['ratio'])])
  blocks = made.get('block_pairs', 512)
  teacher, second = (
    times(row['ratio']) for row in without_amx['rows'] if 'bfloat16' in row['name']
  )
  note = f"""Steps of both forms in turn, on a CPU with AMX; stage 2's on pairs in blocks of {blocks}. Plain: both texts of every pair, padded to the longest. On two cores of AMD EPYC,
with avx512_bf16 and no AMX, bfloat16 has {teacher} for the teacher and {second} in stage 2 (`{command(without_amx)}`,
commit {without_amx['commit']})."""
  return Table(note, ['', 'forms', 'pairs/s', 'against', '×'], rows)


def stages(made: dict[str, Any]) -> Table:
  """A row a stage of `benchmarks.stages`, of two runs."""
  one, other = made['runs']
  rows = [
    [name, digits(one['seconds'][name]), digits(s), times(one['seconds'][name] / s)]
    for name, s in other['seconds'].items()
  ]
  both = [sum(run['seconds'][row[0]] for row in rows) for run in (one, other)]
  rows.append(['all of these', *map(digits, both), times(both[0] / both[1])])
  headers = ['', *(f'{machine(run)}, s' for run in (one, other)), '×']
  return Table(
    'Seconds of stages as the runs log them, each run alone on its machine.', headers, rows
  )


def machine(run: dict[str, Any]) -> str:
  """An accelerator, or the cores of a processor."""
  named = run['accelerators']
  return f'{run["cores"]} cores' if named == 'none' else f'one {named}, {run["cores"]} cores'


def light(made: dict[str, Any]) -> Table:
  """Times and sizes of `benchmarks.light`."""
  rows = [
    ['import dipair', f'{made["import"]:.2f} s'],
    ['load an export, head and encoder in LiteRT int8', f'{made["load"]:.2f} s'],
    ['first score, of two texts', f'{made["score"]:.2f} s'],
    ['peak memory', f'{made["peak_memory"] / 1e6:,.0f} MB'],
    ['the environment on disk, pip with it', f'{made["installed"] / 1e6:,.0f} MB'],
  ]
  return Table('', ['', ''], rows)


def frontier(made: dict[str, Any]) -> Table:
  """A row a size of `benchmarks.frontier`, the fastest last."""
  rows = []
  for row in sorted(made['rows'], key=lambda row: row['heads']['litert-int8']['ratio']):
    exact, int8 = row['heads']['litert'], row['heads']['litert-int8']
    rows.append(
      [row['name'], f'{row["bytes"]["float16"]:,}', digits(exact['pairs_per_second'])]
      + [digits(int8['pairs_per_second']), times(exact['ratio']), times(int8['ratio'])]
      + [f'{exact["test"]:.3f}', f'{int8["test"]:.3f}']
      + [percent(int8['test'] / made['teacher'] - 1)]
    )
  note = f'{made["title"]}; the teacher: {made["teacher"]:.3f}. Bytes: of a left and a right text, '
  note += 'stored in float16. Pairs/s: of the head on stored vectors, LiteRT.'
  headers = [
    'tokens kept × width, head',
    'bytes',
    'pairs/s',
    'in int8',
    speeds.AGAINST[1],
    'in int8',
  ]
  return Table(note, [*headers, made['metric'], 'in int8', "to the teacher's"], rows)


def score_job(made: dict[str, Any]) -> Table:
  """A row a job of `benchmarks.score_job`."""
  headers = ['pairs', 'seconds', 'pairs/s', 'head alone', 'of the head', 'steady', 'RSS', 'USS']
  cells = [
    [f'{r["pairs"]:,}', f'{r["seconds"]:,.0f}', digits(r['pairs_per_second'])]
    + [digits(r['head_pairs_per_second']), f'{r["wall_ratio"]:.1%}', f'{r["ratio"]:.1%}']
    + [f'{r[key] / 1e9:.2f} GB' for key in ('rss', 'uss')]
    for r in made['rows']
  ]
  note = (
    f'{made["workers"]} processes, {made["runtime"]}. Of the head alone: from start to end of the '
  )
  note += (
    'job; steady: without both. RSS, USS: of the largest process, with and without pages of stores.'
  )
  return Table(note, headers, cells)


def shortlist(made: dict[str, Any]) -> Table:
  """Recall and time by the shortlist's length."""
  note = (
    f'{made["queries"]:,} queries of the test set, its {made["stored"]:,} titles stored. Recall: '
  )
  note += f"of the head's best {made['top_k']} of all. Time: from a query's vectors to its results."
  rows = [
    [row['name'], f'{row["recall"]:.1%}', f'{1e3 * row["seconds"]:,.1f}'] for row in made['rows']
  ]
  return Table(note, ['ranked by the head', 'recall', 'p50, ms a query'], rows)


def retrieval(made: dict[str, Any]) -> Table:
  """Ranking of the first stage, and of those that rank its nearest anew."""
  note = (
    f'{made["queries"]:,} queries of the test split, {made["passages"]:,} passages; the nearest '
    f'{made["depth"]:,} hold {made["found"]:.1%} of what is relevant. In brackets: 95% intervals, by '
    'bootstrap over queries; p: against the first stage. Time: of a query, from its text (the nearest: '
    'from its vector).'
  )
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


def memory(made: dict[str, Any]) -> Table:
  """Peaks of a step on both sizes of data, and how many times the one the other is."""
  note = f'Megabytes of a process, at 1x {made["rows"]:,} pairs and at 10x (mining: a tenth of them). Own: '
  note += 'without the mapped pages of files; all: with them.'
  rows = []
  for step in made['steps']:
    peaks = [f'{1e3 * value:,.0f}' for key in ('own_gb', 'resident_gb') for value in step[key]]
    rows.append([step['name'], *peaks, f'{step["ratio"]:.2f}×'])
  return Table(note, ['', 'own, 1x', 'own, 10x', 'all, 1x', 'all, 10x', 'own, 10x to 1x'], rows)
