"""Writes the tables of README, docs/results.md, docs/scaling.md, and docs/scoring.png, from results.

python -m benchmarks.tables
"""

import json
import os
import re
from typing import Any

from matplotlib.figure import Figure

from common.evaluation.tables import digits, label, percent, times

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_P2T_PAPER = ['P2T-REL, the paper (Table 2)', 'Pearson', '0.757', '0.731', '-3.4%', '362×', '']
_Q2P_PAPER = ['Q2P-MAT, the paper (Table 3)', 'AUC-ROC', '0.957', '0.932', '-2.6%', '355×', '']
_DSE_PAPER = ['DSE, the paper (Tables 1 and 4)', 'GLUE score', '', '', '-4.6%', '13,594×', '']
_RUNS = {'homedepot': 'Home Depot', 'p2t': 'synthetic catalogue', 'q2p': 'MedQuAD, mined'}


def main() -> None:
  """Replaces what stands between the README's two markers; writes the others anew."""
  _fill('README.md', 'results', _summary())
  _fill('docs/scaling.md', 'cost', _cost())
  encoding = [_encoding('homedepot', 'Home Depot titles'), _encoding('p2t', 'the catalogue')]
  sections = [_mined(), _glue(), _senteval(), _dse_speed(), _scoring(), _runtimes()]
  sections += [*encoding, _score_job(), _serving()]
  intro = '# Results\n\nWritten by `python -m benchmarks.tables` from the files under '
  intro += '[benchmarks/results](../benchmarks/results). Two cores, no GPU.'
  with open(os.path.join(ROOT, 'docs', 'results.md'), 'w', encoding='utf-8') as file:
    file.write('\n\n'.join([intro, *filter(None, sections)]) + '\n')


def _fill(name: str, marker: str, text: str) -> None:
  """Replaces what stands between a file's two markers."""
  path = os.path.join(ROOT, name)
  with open(path, encoding='utf-8') as file:
    before = file.read()
  marked = re.compile(f'(<!-- {marker}: .*? -->\n).*?(<!-- /{marker} -->)', re.DOTALL)
  with open(path, 'w', encoding='utf-8') as file:
    file.write(marked.sub(lambda m: f'{m[1]}{text}\n{m[2]}', before))


def _read(name: str) -> dict[str, Any] | None:
  path = os.path.join(ROOT, 'benchmarks', 'results', f'{name}.json')
  if not os.path.exists(path):
    return None
  with open(path, encoding='utf-8') as file:
    return json.load(file)


def _markdown(headers: list[str], rows: list[list[str]]) -> str:
  lines = [headers, ['---'] * len(headers), *rows]
  return '\n'.join(f'| {" | ".join(line)} |' for line in lines)


def _section(title: str, made: dict[str, Any], table: str, note: str = '') -> str:
  by = f'`{made["command"]}`, commit {made["commit"]}.'
  return '\n\n'.join(filter(None, [f'## {title}', table, note, by]))


def _summary() -> str:
  """The README's table."""
  headers = ['task', 'test metric', 'teacher', 'student', 'change', 'head, exact', 'head, int8']
  rows = []
  for name, title in _RUNS.items():
    if results := _read(name):
      rows += [_P2T_PAPER] * (name == 'homedepot') + [_Q2P_PAPER] * (name == 'q2p')
      speed = (_read(f'{name}_runtimes') or {'rows': results['speed']})['rows']
      rows.append(_run_row(results, title, speed))
  if glue := _read('glue'):
    rows.append(_DSE_PAPER)
    table = glue['table']
    teacher = next(row for row in table['rows'] if row[0] == 'Teacher')
    student = next(row for row in table['rows'] if row[0] == 'DSE (alpha = 0.5)')
    title = f'DSE, {", ".join(table["headers"][1:-2])}'
    speed = (_read('dse_speed') or {'rows': []})['rows']
    online = {  # with queries as long as the paper's
      row['runtime']: times(row['speedup'])
      for row in speed
      if row['table'] == 'Table 4' and row['tokens'] == 128
    }
    exact, narrow = (online.get(name, '') for name in ('tensorflow', 'litert-int8'))
    rows.append([title, 'mean', teacher[-2], student[-2], student[-1], exact, narrow])
  return _markdown(headers, rows)


def _run_row(results: dict[str, Any], title: str, speed: list[dict[str, Any]]) -> list[str]:
  metric = results['primary_metric']
  teacher, student = results['models'][0], results['models'][-1]
  heads = [row for row in speed if ' head' in row.get('name', '')]
  narrow = [row for row in heads if row['name'].endswith('litert-int8')]
  exact = [row for row in heads if row not in narrow and 'float16' not in row['name']]
  return [
    title,
    label(metric),
    f'{teacher["test"][metric]:.3f}',
    f'{student["test"][metric]:.3f}',
    percent(student['delta']['test']),
    times(max(row['ratio'] for row in exact)),
    times(narrow[0]['ratio']) if narrow else '',
  ]


def _serving() -> str:
  made = _read('serving')
  if not made:
    return ''
  load, swaps, query = made['load'], made['swaps'], made['query']
  rows = [
    [f'{load["requests"]:,} requests, {load["concurrency"]} at a time']
    + [f'{digits(load["rows_per_second"])} pairs/s, {load["ratio"]:.0%} of the head alone; p50 ']
    + [f'{load["p50"]:.2f} s, p99 {load["p99"]:.2f} s; {sum(load["errors"].values())} lost'],
    [f'{swaps["swaps"]} versions swapped under load']
    + [f'{swaps["requests"]:,} requests, {swaps["lost"]} lost; p99 ', f'{swaps["p99"]:.2f} s'],
    [f'a query of the page, its best ten of {query["products"]:,} stored products']
    + [f'p50 {1e3 * query["whole"]:.0f} ms, p99 {1e3 * query["p99"]:.0f}; of it encode ']
    + [f'{1e3 * query["encode"]:.0f}, head {1e3 * query["head"]:.0f}, ']
    + [f'sort {1e3 * query["sort"]:.1f}'],
  ]
  answers = [f'{name} ({count})' for name, count in made['malformed'].items()]
  rows.append(['malformed requests while good ones go on', '; '.join(answers)])
  table = _markdown(
    ['', 'local server, head in LiteRT int8'], [[r[0], ''.join(r[1:])] for r in rows]
  )
  return _section('Serving, 1,000 candidates a request', made, table)


def _mined() -> str:
  made = _read('q2p')
  if not made:
    return ''
  sheet = made['mined']
  rows = [
    [split, *(f'{counts[name]:,}' for name in ('queries', 'positive', 'negative'))]
    for split, counts in sheet['splits'].items()
  ]
  transfer = sheet['transfer']
  rows.append(['transfer set', f'{transfer["queries"]:,}', f'{transfer["pairs"]:,} unlabelled', ''])
  metric = made['primary_metric']
  found = ', '.join(f'{m["name"]} {m["test"][metric]:.3f}' for m in made['models'])
  note = f'Of {sheet["known"]["positive"]:,} matches of {sheet["queries"]:,} queries and '
  note += f'{sheet["passages"]:,} passages; negatives have an inner product below '
  note += f'{sheet["threshold"]:.3f}. Queries that two splits share: '
  note += (
    f'{sum(sheet["shared"]["queries"].values())}; pairs: {sum(sheet["shared"]["pairs"].values())}. '
  )
  note += f'AUC-ROC on test: {found}; of the inner product alone {sheet["similarity_auc_roc"]:.3f}.'
  headers = ['', 'queries', 'positive', 'negative']
  return _section('MedQuAD, mined (Q2P-MAT)', made, _markdown(headers, rows), note)


def _glue() -> str:
  made = _read('glue')
  if not made:
    return ''
  table = made['table']
  note = f'{table["note"]} QQP and SNLI are subsets, and the models small (MiniLM-L6 throughout).'
  return _section('DSE on GLUE (Table 1)', made, _markdown(table['headers'], table['rows']), note)


def _senteval() -> str:
  made = _read('senteval')
  if not made:
    return ''
  table = made['table']
  return _section(
    'Sentence vectors on SentEval (Table 2)',
    made,
    _markdown(table['headers'], table['rows']),
    f'{table["note"]} DSE: trained on a subset of SNLI, 15,796 pairs, from the MiniLM that stands '
    'beside it, which a billion pairs have made a sentence encoder.',
  )


def _dse_speed() -> str:
  made = _read('dse_speed')
  if not made:
    return ''
  rows = [
    [r['table'], r['what'], str(r['tokens']), r['runtime']]
    + [*(f'{r[k]:,.2f}' for k in ('teacher', 'psi', 'f')), times(r['speedup'])]
    for r in made['rows']
  ]
  headers = ['', 'scored', 'tokens', 'f run by', 'teacher, s', 'encoding, s', 'f, s', 'speedup']
  table = _markdown(headers, rows)
  return _section('DSE in BERT-Large shapes (Tables 3 and 4)', made, table, made['note'])


def _scoring() -> str:
  made = _read('scoring')
  if not made:
    return ''
  rows = [
    [
      *(r['name'], digits(r['pairs_per_second']), f'{digits(r["least"])} to {digits(r["most"])}'),
      *(times(r['ratio']), f'{r["mflop"]:,.2f}', f'{r["gemm_share"]:.0%}'),
      f'{r["kilobytes"]:,.1f}',
    ]
    for r in made['rows']
  ]
  headers = ['', 'pairs/s', 'range', 'ratio', 'MFLOP/pair', 'of GEMM', 'kB/pair']
  ranks = [
    [r['name'], f'{r["p50"]:.1f}', f'{r["p99"]:.1f}', digits(r['rate'])] for r in made['rank']
  ]
  rank = _markdown(['rank, 1,000 candidates', 'p50, ms', 'p99, ms', 'pairs/s'], ranks)
  _plot(made['rows'])
  picture = '![Pairs a second of all, on a logarithmic axis](scoring.png)'
  note = f'{made["note"]}\n\n{picture}\n\n{rank}'
  return _section('Scoring', made, _markdown(headers, rows), note)


def _plot(rows: list[dict[str, Any]]) -> None:
  figure = Figure(figsize=(9, 0.28 * len(rows) + 1), layout='constrained')
  axes = figure.add_subplot(xscale='log', xlabel='pairs/s')
  colors = {'DiPair': '#1d4ed8', 'DSE': '#0f766e'}
  names = [row['name'] for row in rows][::-1]
  rates = [row['pairs_per_second'] for row in rows][::-1]
  shades = [colors.get(re.split(r'\W', name)[0], '#c2570c') for name in names]
  axes.barh(names, rates, color=shades)
  for number, rate in enumerate(rates):
    axes.annotate(digits(rate), (rate, number), (4, 0), textcoords='offset points', va='center')
  axes.margins(x=0.12, y=0.01)
  axes.spines[['top', 'right']].set_visible(False)
  figure.savefig(os.path.join(ROOT, 'docs', 'scoring.png'), dpi=110)


def _encoding(name: str, title: str) -> str:
  made = _read(f'{name}_encoding')
  if not made:
    return ''
  rows, note = [], ''
  for row in made['rows']:
    ratio = times(row['ratio']) if row['ratio'] else ''
    rows.append([row['name'], digits(row['texts_per_second']), ratio])
    if 'peak_memory' in row:
      before, peak = (f'{row[key] / 1e9:.1f} GB' for key in ('memory_before', 'peak_memory'))
      note = f'The store: {row["bytes_per_text"]:,.0f} bytes a text; memory {peak} at the most, '
      note += f'{before} before it.'
  table = _markdown(['', 'texts/s', 'ratio'], rows)
  return _section(f'Encoding: {title}', made, table, note)


def _runtimes() -> str:
  made = _read('homedepot_runtimes')
  if not made:
    return ''
  rows = []
  for row in made['rows']:
    what = row.get('name') or f'vectors stored in {row["dtype"]}'
    speed = times(row['ratio']) if 'ratio' in row else ''
    size = ' + '.join(f'{count:,}' for count in row.get('bytes', {}).values())
    worth = [f'{row["test"]:.4f}', f'{row["max_difference"]:.1e}'] if 'test' in row else ['', '']
    rows.append([what, speed, *worth, size])
  headers = ['', 'speed', 'test metric', 'largest difference', 'bytes, left + right']
  title = "Home Depot: the head's runtimes, and its vectors as stored"
  return _section(title, made, _markdown(headers, rows))


def _score_job() -> str:
  made = _read('score_job')
  if not made:
    return ''
  rows = [
    [f'{r["pairs"]:,}', f'{r["seconds"]:,.0f}', digits(r['pairs_per_second'])]
    + [digits(r['steady_pairs_per_second']), digits(r['head_pairs_per_second'])]
    + [f'{r["ratio"]:.1%}', *(f'{r[key] / 1e9:.2f} GB' for key in ('rss', 'uss'))]
    for r in made['rows']
  ]
  headers = ['pairs', 'seconds', 'pairs/s', 'steady', 'head alone', 'ratio', 'RSS', 'USS']
  killed, bad = made['killed'], made['bad_rows']
  note = f'{made["note"]} Killed with {killed["done_when_killed"]} of {killed["shards"]} shards '
  note += f'done and started again: {killed["rows"]:,} rows, {killed["rows_twice"]} of them twice, '
  same = 'the same' if killed['same_rows_and_scores'] else 'not the same'
  note += f'{same} as without. Of {bad["rows"]:,} rows with {sum(bad["made"].values()):,} bad ones '
  note += f'{bad["refused"]:,} were put aside and {bad["scored"]:,} scored.'
  return _section('The scoring job on Beam', made, _markdown(headers, rows), note)


def _cost() -> str:
  made = _read('cost')
  if not made:
    return ''
  tables = [_markdown(table['headers'], table['rows']) for table in made['tables']]
  notes = [table['note'] for table in made['tables'] if table['note']]
  return '\n\n'.join([f'`{made["command"]}`', *tables, *notes])


if __name__ == '__main__':
  main()
