"""Language models of one's own texts, as a section of docs/results.md."""

from typing import Any

from benchmarks.committed import markdown, read
from common.evaluation.cells import digits, metric
from common.pretrain.language_model import LOSS

_RUNS = {  # files of results, by what each run trains
  'MiniLM-L6, trained further': 'pretrain_minilm',
  'its every other layer, 3 of 6, taught by it (DistilBERT)': 'pretrain_distilbert',
  'the same layers, untaught: masked words alone': 'pretrain_untaught',
  '4 layers, 256 wide, own words, from random weights': 'pretrain_scratch',
}
_HEADERS = [
  '',
  'parameters',
  'word pieces',
  'steps',
  'minutes',
  'loss',
  'accuracy',
  'loss, by step',
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
training pairs. Loss (nats) and accuracy: of masked words in {corpus['held out']:,} that are held out, of the
checkpoint as it is read back. Losses over different word pieces are not comparable."""
  commands = '\n'.join(f'- `{made["command"]}`, commit {made["commit"]}' for made in runs.values())
  title = "## Language models of one's own texts: Home Depot"
  return '\n\n'.join([title, markdown(_HEADERS, rows), note, commands])


def _cells(made: dict[str, Any]) -> list[str]:
  """A run's row, without its name."""
  (phase,), valid = made['training'], made['models'][-1]['valid']
  return [
    f'{made["export"]["parameters"]:,}',
    f'{made["corpus"]["vocabulary"]:,}',
    f'{phase["history"][-1]["step"]:,}',
    digits(phase['seconds'] / 60),
    metric(valid[LOSS]),
    metric(valid['mlm_accuracy']),
    ', '.join(f'{at["step"]:,}: {at["valid"][LOSS]:.2f}' for at in phase['history']),
  ]
