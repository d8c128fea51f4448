"""Other encoders, as sections of docs/results.md: language models of one's own texts, and their students."""

from typing import Any

from benchmarks.committed import markdown, read, shown
from common.evaluation.cells import digits, metric
from common.pretrain.language_model import LOSS
from dipair.study import tables as study_tables

_RUNS = {  # files of results, by what each run trains
  'MiniLM-L6, trained further': 'pretrain_minilm',
  'its every other layer, 3 of 6, taught by it (DistilBERT)': 'pretrain_distilbert',
  'the same layers, untaught: masked words alone': 'pretrain_untaught',
  '4 layers, 256 wide, own word pieces, from random weights': 'pretrain_scratch',
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


def pretraining() -> str:
  """What masked language models come to on Home Depot's texts."""
  runs = {name: made for name, file in _RUNS.items() if (made := read(file))}
  if not runs:
    return ''
  rows = [[name, *_cells(made)] for name, made in runs.items()]
  corpus = next(iter(runs.values()))['corpus']
  distinct = corpus['documents'] - corpus['repeated documents']
  note = f"""Masked language models on {distinct - corpus['held out']:,} different titles and search terms of the
training pairs, {corpus['held out']:,} of them held out. Loss (nats) and accuracy: of their masked words, by the
checkpoint as it is read back. Losses over different word pieces are not comparable."""
  commands = '\n'.join(f'- `{made["command"]}`, commit {made["commit"]}' for made in runs.values())
  title = "## Language models of one's own texts: Home Depot"
  return '\n\n'.join([title, markdown(_HEADERS, rows), note, commands])


def students() -> str:
  """Students of one teacher with other encoders."""
  made = read('study_encoders')
  if not made:
    return ''
  return shown('Other encoders: Home Depot', made, study_tables.table(made, 'students'))


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
