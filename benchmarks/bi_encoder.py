"""Students beside bi-encoders that were fine-tuned on the same labels, on each run's test set.

  python -m benchmarks.bi_encoder --run_dirs=runs/a,runs/b --python=PEERS/bin/python \\
    --output=benchmarks/results/bi_encoder.json

A bi-encoder is MiniLM by sentence-transformers: CosineSimilarityLoss on the training set, its best
epoch on valid. Its weights are those that the student starts from.
"""

import dataclasses
import os
import subprocess
import tempfile
from typing import Any

import numpy as np

from benchmarks import committed, tables
from benchmarks.peers.process import check, environment
from common import digests, flags
from common.data.records import RecordSet
from common.errors import InputError
from common.evaluation import significance
from common.files import read_json, write_json
from common.modeling import checkpoints
from experiments.finished_run import FinishedRun

_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'peers', 'bi_encoder.py')
_MOST = 60_000  # pairs that it sees, in whole epochs


@dataclasses.dataclass(frozen=True)
class BiEncoderConfig:
  """The runs, and the peers' environment."""

  run_dirs: tuple[str, ...] = flags.option((), 'finished runs of dipair.run, of one output')
  python: str = flags.option('', "the python of the peers' environment")
  epochs: int = flags.option(4, 'epochs of fine-tuning, at the most', bounds=(1, 100))
  seed: int = flags.option(0, 'seed of the fine-tuning', bounds=(0, 2**31 - 1))
  output: str = flags.option('', 'JSON file of the figures')


def main(config: BiEncoderConfig) -> None:
  """Fine-tunes a bi-encoder a run, prints, writes."""
  check(config.python)
  rows = [_row(FinishedRun(path), config) for path in config.run_dirs]
  if config.output and os.path.exists(config.output):  # other runs' rows stay
    titles = {row['title'] for row in rows}
    rows += [row for row in read_json(config.output)['rows'] if row['title'] not in titles]
  print(tables.bi_encoder({'rows': rows}))
  if config.output:
    committed.write(config.output, 'benchmarks.bi_encoder', config, rows=rows)


def _row(run: FinishedRun, config: BiEncoderConfig) -> dict[str, Any]:
  """A run's teacher, student and bi-encoder on test, and the student against the bi-encoder."""
  if run.task.outputs > 1:
    raise InputError(f'--run_dirs={run.folder}: classes; a cosine is one number')
  given: dict[str, Any] = {}
  for name in ('train', 'valid', 'test'):
    records = RecordSet(run.path(f'data/{name}'))
    labels = records.tuples().labels.tolist()
    given[name] = {'pairs': [list(texts) for texts in records.texts()], 'labels': labels}
  count = len(given['train']['labels'])
  epochs = max(1, min(config.epochs, _MOST // count))
  print(f'{run.folder}: a bi-encoder of {count:,} pairs, {epochs} epochs')
  with tempfile.TemporaryDirectory() as folder:
    path, output = (os.path.join(folder, name) for name in ('given.json', 'cosines.json'))
    given |= {
      'weights': checkpoints.read(checkpoints.MINILM).path,
      'max_length': max(run.flags['max_lengths']),
      'seed': config.seed,
      'epochs': epochs,
      'output': output,
    }
    write_json(path, given)
    if status := subprocess.run([config.python, _SCRIPT, path], env=environment(folder)).returncode:
      raise InputError(f'--python={config.python}: ended with status {status}, as said above')
    cosines = np.array(read_json(output))
  scores = digests.read_arrays(run.path('evaluation/scores.npz'), 'run again')
  scores = {
    'teacher': scores['teacher'],
    'student': scores['student'],
    'bi-encoder': cosines / 2 + 0.5,
  }
  judge = run.judged('test')
  resampled = judge.resampled([_logits(of) for of in scores.values()])
  columns = dict(zip(scores, resampled, strict=True))
  against = significance.difference(columns['bi-encoder'], columns['student'])
  return {
    'title': run.flags['title'],
    'run': {'command': run.results['command'], 'commit': run.results['commit']},
    'metric': judge.primary,
    'labels': count,
    'pairs': len(judge.labels),
    'epochs': epochs,
    'models': significance.compared(columns),
    'against_bi_encoder': against._asdict(),
  }


def _logits(scores: np.ndarray) -> np.ndarray:
  """Logits [n, 1] of scores [n] in [0, 1]."""
  inside = np.clip(np.asarray(scores, np.float64), 1e-9, 1 - 1e-9)
  return np.log(inside / (1 - inside))[:, None]


if __name__ == '__main__':
  flags.command(main, BiEncoderConfig)
