"""Other encoders, as sections of docs/results.md: language models of one's own texts, and their students."""

from typing import Any

from benchmarks.committed import markdown, read, section, shown
from common.evaluation.cells import chance, change, digits, label, mean, metric
from common.pretrain.language_model import LOSS
from dipair.study import tables as study_tables
from dipair.study.speeds import ENCODERS

_RUNS = {  # files of results, by what each run trains
  'MiniLM-L6, trained further': 'pretrain_minilm',
  'its every other layer, 3 of 6, taught by it (DistilBERT)': 'pretrain_distilbert',
  'the same layers, untaught: masked words alone': 'pretrain_untaught',
  '4 layers, 256 wide, own word pieces, from random weights': 'pretrain_scratch',
}
_TEACHERS = {  # files of results, and their titles
  'teachers_minilm': 'Teachers from a language model of their own texts: Home Depot',
  'teachers_3_layers': 'Teachers of three layers: Home Depot',
}
_NAMES = {  # by checkpoint
  'minilm': 'MiniLM-L6',
  'runs/minilm_homedepot/checkpoint': "MiniLM-L6, trained further on Home Depot's texts",
  'runs/distilbert_homedepot/checkpoint': 'every other layer, taught (DistilBERT)',
  'runs/untaught_homedepot/checkpoint': 'every other layer, masked words alone',
}
_HEADERS = [
  '',
  'Parameters',
  'Word pieces',
  'Minutes',
  'Loss, held out',
  'Accuracy, held out',
  'Loss by step',
]


def sections() -> list[str]:
  """What there is of them, in the order in which it is read."""
  return [_pretraining(), _teachers(), _students()]


def _pretraining() -> str:
  """What masked language models come to on Home Depot's texts."""
  runs = {name: made for name, file in _RUNS.items() if (made := read(file))}
  if not runs:
    return ''
  rows = [[name, *_cells(made)] for name, made in runs.items()]
  corpus = next(iter(runs.values()))['corpus']
  distinct = corpus['documents'] - corpus['repeated documents']
  note = f"""Masked language models on {distinct - corpus['held out']:,} different titles and search terms of the
training pairs; {corpus['held out']:,} others are held out. Loss (nats) and accuracy: of their masked words, by the
checkpoint as it is read back. Losses over different word pieces are not comparable. MiniLM comes without a head for
masked words, and 1,200 steps have not made it a better one than its students become: what being taught by it can
give is not seen here, and the layers alone do better."""
  commands = '\n'.join(f'- `{made["command"]}`, commit {made["commit"]}' for made in runs.values())
  title = "## Language models of one's own texts: Home Depot"
  return '\n\n'.join([title, markdown(_HEADERS, rows), note, commands])


def _students() -> str:
  """Students of one teacher with other encoders."""
  made = read('study_encoders')
  if not made:
    return ''
  table = study_tables.table(made, 'students')
  rows = {row['name']: row for row in made['comparisons']['students']['rows']}
  own, lstm = (made['encoding'][rows[name]['students'][0]] for name in ("as the run's", 'bilstm'))
  plain, int8 = (f'{lstm[runtime] / own[runtime]:.1f}' for runtime in ENCODERS)
  note = f"""{table.note} One seed, and stages of 1,500 and 300 steps, shorter than the run's own, on the set in
blocks of 512 pairs; the BiLSTM has 1,500 of stage 2 alone, at a higher rate, as of its weights the word embeddings
alone are pretrained. To have been pretrained on the texts is worth much to an encoder of random weights and to three
of MiniLM's layers (every other one, trained, against the first as they are), and nothing that can be seen to MiniLM
itself (the run's own row, whose p is against that one, next below). On texts as short as these the BiLSTM comes near
it, and encodes {plain} times as many a second, in int8 {int8} times."""
  return shown('Other encoders: Home Depot', made, table, note)


def _teachers() -> str:
  """Teachers that start from these language models."""
  sections = []
  for name, title in _TEACHERS.items():
    if made := read(name):
      primary, seeds = label(made['metric']), len(made['rows'][0]['test'])
      headers = ['Starts from', f'{primary} (valid)', f'{primary} (test)', 'Delta (test)', 'p']
      rows = [
        [
          _NAMES[row['pretrained']],
          mean(row['valid']),
          mean(row['test']),
          change(row, 'test') if number else '',
          chance(row['p_value']['test']) if number else '',
        ]
        for number, row in enumerate(made['rows'])
      ]
      of = f'mean ± standard deviation of {seeds} seeds' if seeds > 1 else 'one seed'
      note = f"""Fine-tuned alike on Home Depot's labelled pairs, {of}. Delta and p (paired bootstrap) are against
the first row."""
      sections.append(section(title, made, markdown(headers, rows), note))
  return '\n\n'.join(sections)


def _cells(made: dict[str, Any]) -> list[str]:
  """A run's row, without its name."""
  (phase,), valid = made['training'], made['models'][-1]['valid']
  return [
    f'{made["export"]["parameters"]:,}',
    f'{made["corpus"]["vocabulary"]:,}',
    digits(phase['seconds'] / 60),
    metric(valid[LOSS]),
    metric(valid['mlm_accuracy']),
    ', '.join(f'{at["step"]:,}: {at["valid"][LOSS]:.2f}' for at in phase['history']),
  ]
