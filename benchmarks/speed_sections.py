"""Speeds, as sections of docs/results.md: teachers, heads, encoders, training, jobs and servers."""

from benchmarks import speed_tables
from benchmarks.committed import folded, markdown, measured, read, section, shown
from benchmarks.peers import tables as peers
from benchmarks.summary import RUNS
from common.evaluation.cells import digits


def sections() -> list[str]:
  """What there is of them, in the order in which it is read."""
  return [
    _speeds(),
    _scoring(),
    measured(
      'homedepot',
      "Home Depot: the head's runtimes, and its vectors as stored",
      speed_tables.runtimes,
    ),
    _frontier(),
    _peers(),
    _retrieval(),
    measured('shortlist', 'The first stage: Home Depot', speed_tables.shortlist),
    measured('homedepot_encoding', 'Encoding: Home Depot titles', speed_tables.encoding),
    measured('p2t_encoding', 'Encoding: the catalogue', speed_tables.encoding),
    _training(),
    _stages(),
    measured('light', 'A process that scores without TensorFlow', speed_tables.light),
    _score_job(),
    measured('serving', 'Serving, 1,000 candidates a request', speed_tables.serving),
  ]


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
