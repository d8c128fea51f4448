"""Writes the tables of README, docs/results.md, docs/scaling.md, and the pictures, from results.

python -m benchmarks.tables
"""

import os
import re

from benchmarks import (
  dse_tables,
  encoder_tables,
  home_depot_studies,
  home_depot_tables,
  inspection_table,
  pictures,
  robustness_table,
  speed_tables,
)
from benchmarks.committed import ROOT, command, folded, markdown, read, section, shown
from benchmarks.findings import findings
from benchmarks.peers import tables as peers
from benchmarks.summary import RUNS, choice, summary
from common.evaluation.cells import digits
from dipair.study import tables as study_tables

_STUDIES = {  # by run: how to read what it found; a folder each in docs/study
  'homedepot_seeds': "Stage 1 alone, 1,000 steps of 256 pairs, a quarter of the shipped config's, at one learning rate "
  "for all heads; the encoders are frozen, so DE-Cos is the start's own cosine with a scale and a bias. As in the paper, "
  "DE-Cos is last and DiPair's transformer first, above LITE, the next below, and above all others; DiPair's FFNN stands "
  'below DE-FFNN here, on MedQuAD and in the larger heads of its Table 4. LITE and the Poly-encoder, which compare '
  'tokens with one another, are above both; MaxSim and DE-FFNN cannot be told apart, nor can LITE and the Poly-encoder.',
  'p2t': 'One seed, and short stages: 500 steps, then 20, which are all that "one stage" has; the '
  "cross-attention students have 300 steps, too few to compare with. The catalogue's labels follow words that two "
  'texts share, which favours MaxSim and cosines; FFNNs, which start at random, are far from done.',
  'q2p': 'On an earlier run than the one below, whose flags were not kept with it. '
  'One seed, and stage 1 alone, 2,000 steps at one learning rate for all heads; the cross-attention '
  'students have 400 steps of 32 pairs and are no baselines. With its encoders frozen and no projection, DE-Cos '
  "is the start's own cosine, of which a scale and a bias are learnt. DE-FFNN and DiPair's transformer stand in the "
  "paper's order; DiPair's FFNN, below DE-FFNN, does not. LITE is as good as the transformer here.",
}


def main() -> None:
  """Writes the files, and draws the pictures."""
  for path, text in written().items():
    with open(os.path.join(ROOT, path), 'w', encoding='utf-8') as file:
      file.write(text)
  pictures.draw()
  for run in (*home_depot_studies.STUDIES, *_STUDIES):
    pictures.study(run)


def written() -> dict[str, str]:
  """{path below the root: its text}: what stands between two markers is new, or the whole."""
  encoding = [_encoding('homedepot', 'Home Depot titles'), _encoding('p2t', 'the catalogue')]
  sections = [
    findings(),
    _speeds(),
    *home_depot_tables.sections(),
    *home_depot_studies.sections(),
    *map(_study, _STUDIES),
    *encoder_tables.sections(),
    _mined(),
    *dse_tables.sections(),
    _scoring(),
  ]
  sections += [
    _retrieval(),
    _runtimes(),
    _frontier(),
    _shortlist(),
    *encoding,
    _training(),
    _stages(),
  ]
  sections += [_peers(), _light(), _score_job(), _serving(), _robustness(), _tokens()]
  intro = '# Results\n\nWritten by `python -m benchmarks.tables` from the files under '
  intro += (
    '[benchmarks/results](../benchmarks/results). Two cores, no GPU, where nothing else is said.'
  )
  return {
    'README.md': _filled('README.md', choice=choice(), results=summary()),
    'docs/scaling.md': _filled('docs/scaling.md', cost=_cost(), memory=_memory()),
    'docs/results.md': '\n\n'.join([intro, *filter(None, sections)]) + '\n',
  }


def _filled(name: str, **texts: str) -> str:
  """A file's text with others between the markers of their names."""
  with open(os.path.join(ROOT, name), encoding='utf-8') as file:
    found = file.read()
  for marker, text in texts.items():
    before, first, rest = re.split(f'(<!-- {marker}: .*? -->\n)', found)
    last = f'<!-- /{marker} -->'
    found = f'{before}{first}{text}\n{last}{rest.split(last, 1)[1]}'
  return found


def _speeds() -> str:
  """Teachers and heads of all runs."""
  runs = {title: results for name, title in RUNS.items() if (results := read(name))}
  if glue := read('glue'):
    runs |= {results['title']: results for results in glue['results'].values()}
  if not runs:
    return ''
  table = speed_tables.of_runs(runs)
  every = folded('Every run, teacher and head', markdown(table.headers, table.rows))
  text = f"## Speed of the runs' teachers and heads\n\n{every}\n\n{table.note}"
  table = speed_tables.encoders(runs)
  if table.rows:
    text += f"\n\n## The runs' encoders\n\n{markdown(table.headers, table.rows)}\n\n{table.note}"
  return text


def _serving() -> str:
  made = read('serving')
  title = 'Serving, 1,000 candidates a request'
  return shown(title, made, speed_tables.serving(made)) if made else ''


def _robustness() -> str:
  made = {name: found for name in robustness_table.TRIALS if (found := read(name))}
  table = robustness_table.robustness(made)
  return f'## Hard knocks\n\n{markdown(table.headers, table.rows)}\n\n{table.note}' if made else ''


def _study(run: str) -> str:
  """The first comparison, and where the others are."""
  made = read(f'study_{run}')
  if not made:
    return ''
  table = study_tables.table(made, next(iter(made['comparisons'])))
  note = f'{table.note}\n\n![Speed and quality](study/{run}/figure1.png)\n\n'
  note += f'[All of its tables and figures](study/{run}/study.md). {_STUDIES[run]}'
  title = f'The students of the DiPair paper, on {made["title"].removeprefix("DiPair on ")}'
  if (seeds := len(next(iter(made['comparisons'].values()))['rows'][0]['students'])) > 1:
    title += f', {seeds} seeds'
  return shown(title, made, table, note)


def _tokens() -> str:
  made = read('homedepot_inspect')
  title = 'What the output tokens carry, on Home Depot'
  return shown(title, made, inspection_table.tokens(made)) if made else ''


def _mined() -> str:
  made = read('q2p')
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
  return section('MedQuAD, mined (Q2P-MAT)', made, markdown(headers, rows), note)


def _scoring() -> str:
  made = read('scoring')
  if not made:
    return ''
  ranks = [
    [r['name'], f'{r["p50"]:.1f}', f'{r["p99"]:.1f}', digits(r['rate'])] for r in made['rank']
  ]
  rank = markdown(['rank, 1,000 candidates', 'p50, ms', 'p99 of 50, ms', 'pairs/s'], ranks)
  picture = '![Their pairs a second, on a logarithmic axis](scoring.png)'
  table = speed_tables.scoring(made)
  best = markdown(table.headers, speed_tables.quickest(table.rows, made))
  every = folded('Every form', markdown(table.headers, table.rows))
  note = f'{table.note}\n\n{picture}\n\n{every}\n\n{rank}'
  return section('Scoring', made, best, note)


def _frontier() -> str:
  made = read('frontier')
  if not made:
    return ''
  table = speed_tables.frontier(made)
  picture = f'![{made["metric"]} against speed, a point a size](frontier.png)'
  choose = """\
To choose: the last layer is computed for one row, so most of the time of two layers is the first's, and
one layer alone, or an FFNN, costs a small part of it. Its feed-forward is the cheapest to make
narrower. What a text stores, tokens × width, is what a store of millions of them weighs. Start from the
smallest that loses what you can bear on your own valid set. Each is one training of one seed: another of the sizes of
README's catalogue, 4+12 tokens × 128 and 2 layers of 1,024, comes to more than this one."""
  note = f'{picture}\n\n{table.note}\n\n{choose}'
  return shown('Heads by size', made, table, note)


def _memory() -> str:
  made = read('memory')
  table = speed_tables.memory(made) if made else None
  return f'{markdown(table.headers, table.rows)}\n\n{table.note}' if table else ''


def _shortlist() -> str:
  made = read('shortlist')
  return shown('The first stage: Home Depot', made, speed_tables.shortlist(made)) if made else ''


def _retrieval() -> str:
  made = read('retrieval')
  if not made:
    return ''
  table = speed_tables.retrieval(made)
  note = f"""{table.note} The first stage is the embedder that the student started from, which a billion pairs
have trained, questions with their answers among them. The student has learnt from matches, from passages far from
them, and from its teacher's scores of twelve near passages a query; the mean of a text's tokens is one of those it
compares."""
  return shown('MedQuAD as retrieval', made, table, note)


def _encoding(name: str, title: str) -> str:
  made = read(f'{name}_encoding')
  return shown(f'Encoding: {title}', made, speed_tables.encoding(made)) if made else ''


def _training() -> str:
  made, other = read('training'), read('training_epyc')
  return shown('Training', made, speed_tables.training(made, other)) if made and other else ''


def _stages() -> str:
  made, language_model = read('stages'), read('pretrain_minilm_gpu')
  if not made or not language_model:
    return ''
  table, (pretrained,) = speed_tables.stages(made), language_model['training']
  note = f"""{table.note} The main job by `configs/p2t.flags`; on the GPU by `{made['runs'][1]['command']}`, in bfloat16,
with the distillation set scored by TensorFlow there, in place of int8 on the cores, and stopped at its export, which
uses no GPU. The steps are few (150, 500, 20), so that tracing graphs, once a stage, is much of it. Many trainings fit one
GPU: MiniLM's pretraining had {digits(pretrained['sequences_per_second'])} sequences of up to 64 word pieces a second there,
beside a dozen others."""
  return shown('The main job on a GPU', made, table, note)


def _peers() -> str:
  made = read('peers')
  if not made:
    return ''
  tables = [f'{markdown(t.headers, t.rows)}\n\n{t.note}' for t in peers.peers(made)]
  tables.append(
    "DiPair's teachers had their pairs tokenized before the clock started, some 3% of the time in int8; as the command is "
    'now, they have not.'
  )
  return section('Other libraries beside ours: Home Depot', made, '\n\n'.join(tables))


def _light() -> str:
  made = read('light')
  title = 'A process that scores without TensorFlow'
  return shown(title, made, speed_tables.light(made)) if made else ''


def _runtimes() -> str:
  made = read('homedepot')
  title = "Home Depot: the head's runtimes, and its vectors as stored"
  return shown(title, made, speed_tables.runtimes(made)) if made else ''


def _score_job() -> str:
  made = read('score_job')
  if not made:
    return ''
  table = speed_tables.score_job(made)
  killed, bad = made['killed'], made['bad_rows']
  note = f'{table.note} Killed with {killed["done_when_killed"]} of {killed["shards"]} shards '
  note += f'done and started again: {killed["rows"]:,} rows, {killed["rows_twice"]} of them twice, '
  same = 'the same' if killed['same_rows_and_scores'] else 'not the same'
  note += f'{same} as without. Of {bad["rows"]:,} rows with {sum(bad["made"].values()):,} bad ones '
  note += f'{bad["refused"]:,} were put aside and {bad["scored"]:,} scored.'
  return shown('The scoring job on Beam', made, table, note)


def _cost() -> str:
  made = read('cost')
  if not made:
    return ''
  tables = [markdown(table['headers'], table['rows']) for table in made['tables']]
  notes = [table['note'] for table in made['tables'] if table['note']]
  return '\n\n'.join([f'`{command(made)}`', *tables, *notes])


if __name__ == '__main__':
  main()
