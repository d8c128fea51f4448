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
  speed_sections,
  speed_tables,
  summary,
)
from benchmarks.committed import (
  ROOT,
  command,
  markdown,
  measured,
  read,
  section,
  shown,
  transductive,
)
from benchmarks.findings import findings
from experiments.study import tables as study_tables

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
  parts = {
    'How near on Home Depot': home_depot_tables.sections(),
    'What a student is made of': [
      *home_depot_studies.sections(),
      measured(
        'homedepot_inspect',
        'What the output tokens carry, on Home Depot',
        inspection_table.tokens,
      ),
    ],
    "The papers' comparisons": [*map(_study, _STUDIES), _mined()],
    'Encoders and language models': encoder_tables.sections(),
    'DSE': dse_tables.sections(),
    'Speed': speed_sections.sections(),
    'Robustness': [_robustness()],
  }
  parts = {part: [*map(_marked, sections)] for part, sections in parts.items()}
  sections = [section for of_part in parts.values() for section in of_part]
  intro = """# Results

Written by `python -m benchmarks.tables` from the files under [benchmarks/results](../benchmarks/results). Two cores, no
GPU, where nothing else is said.

## Transductive figures

Home Depot's figures on this page were measured before the toolkit left judged pairs out of training. Its
students saw some of the pairs that judge them, and its teachers some:

- 105 of test's 7,552 pairs and 85 of valid's 7,335 also stand in train, with their labels.
- `--unlabelled_texts` added the titles of valid and test. So the teacher scored 1,865 of test's pairs and
  1,799 of valid's, and the student learnt these scores.
- 97% of test's terms stand in train. No figure here is about new queries.

Sections with such figures are marked "transductive". They will be measured again on unseen pairs. Speeds are
not affected. The catalogue, MedQuAD, MRPC, RTE and SNLI share no pair between training and judging sets. Of
STS-B's 5,168 training pairs 17 do, of QQP's 43,011 one."""
  return {
    'README.md': _filled('README.md', results=summary.results(), models=summary.models()),
    'docs/scaling.md': _filled('docs/scaling.md', cost=_cost(), memory=_memory()),
    'docs/results.md': '\n\n'.join(filter(None, [intro, findings(), _contents(parts), *sections]))
    + '\n',
  }


def _marked(text: str) -> str:
  """A section, marked where its quality was measured by pairs that were learnt from."""
  heading = text.partition('\n')[0]
  return transductive(text) if 'Home Depot' in heading and 'Pearson' in text else text


def _contents(parts: dict[str, list[str]]) -> str:
  """A line a part, which links to its sections."""
  lines = []
  for part, sections in parts.items():
    links = []
    for title in re.findall('^## (.*)$', '\n'.join(sections), re.MULTILINE):
      anchor = re.sub(r'[^\w\- ]', '', title.lower()).replace(' ', '-')
      links.append(f'[{title.removeprefix("Home Depot: ")}](#{anchor})')
    lines.append(f'- **{part}**: {" · ".join(links)}')
  return '\n\n'.join(['## All sections', '\n'.join(lines)])


def _filled(name: str, **texts: str) -> str:
  """A file's text with others between the markers of their names."""
  with open(os.path.join(ROOT, name), encoding='utf-8') as file:
    found = file.read()
  for marker, text in texts.items():
    before, first, rest = re.split(f'(<!-- {marker}: .*? -->\n)', found)
    last = f'<!-- /{marker} -->'
    found = f'{before}{first}{text}\n{last}{rest.split(last, 1)[1]}'
  return found


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


def _memory() -> str:
  made = read('memory')
  table = speed_tables.memory(made) if made else None
  return f'{markdown(table.headers, table.rows)}\n\n{table.note}' if table else ''


def _cost() -> str:
  made = read('cost')
  if not made:
    return ''
  tables = [markdown(table['headers'], table['rows']) for table in made['tables']]
  notes = [table['note'] for table in made['tables'] if table['note']]
  return '\n\n'.join([f'`{command(made)}`', *tables, *notes])


if __name__ == '__main__':
  main()
