"""Teachers of several checkpoints, fine-tuned on a finished run's labelled pairs and compared on its test set.

  python -m benchmarks.teachers --run_dir=runs/homedepot --layers=3 --precision=auto \
    --pretrained=minilm,runs/untaught_homedepot/checkpoint,runs/distilbert_homedepot/checkpoint \
    --output=benchmarks/results/teachers_3_layers.json

Each is kept in the run's `benchmark/teachers`, so that the command goes on where it was stopped.
"""

import dataclasses
import os

import numpy as np
import tf_keras

from benchmarks import committed
from common import flags
from common.data.records import RecordSet
from common.distillation import evaluation, results, teacher
from common.distillation.teacher import Teacher
from common.files import whole
from common.modeling import checkpoints
from common.training import strategies
from common.training.optimization import PhaseConfig
from common.training.strategies import DeviceConfig
from dipair.finished_run import FinishedRun


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig:
  """The run, the checkpoints, and the steps."""

  run_dir: str = flags.option('runs/homedepot', 'a finished run of dipair.run')
  output: str = flags.option('', 'JSON file of the metrics')
  pretrained: tuple[str, ...] = flags.option(
    ('minilm',), 'checkpoints to start from; each is compared with the first and the one before'
  )
  layers: int = flags.option(0, 'first layers that are taken; 0: all', bounds=(0, 256))
  steps: int = flags.option(
    1600, "steps of each, at the run's own batch size and rate", bounds=(1, 10**9)
  )
  seeds: tuple[int, ...] = flags.option(
    (7, 8, 9), 'seeds of the new weights, dropout and batches', bounds=(0, 2**31 - 1)
  )
  precision: str = flags.option(
    'auto', 'arithmetic of training', ('float32', 'mixed_bfloat16', 'auto')
  )


def main(config: BenchmarkConfig) -> None:
  """Trains what is not trained yet, prints each one's metric, writes the file."""
  run = FinishedRun(config.run_dir)
  judge, rows = run.judged('test'), []
  columns: dict[str, np.ndarray] = {}
  for path in config.pretrained:
    of_seeds = [_judged(run, path, seed, config) for seed in config.seeds]
    valid, logits, accelerators = zip(*of_seeds, strict=True)
    test = judge.resampled(list(logits))
    first, before = next(iter(columns), path), next(reversed(columns), path)
    columns[path] = test.mean(0)
    rows.append(
      {
        'pretrained': path,
        'valid': list(valid),
        'test': test[:, 0].tolist(),
        'accelerators': sorted({*accelerators}),
        **evaluation.changes({'test': columns}, path, first),
        'before': evaluation.changes({'test': columns}, path, before),
      }
    )
    print(f'{path}: {judge.primary} {test[:, 0].mean():.4f} on test')
  if config.output:
    committed.write(config.output, 'teachers', config, metric=judge.primary, rows=rows)


def _judged(
  run: FinishedRun, path: str, seed: int, config: BenchmarkConfig
) -> tuple[float, np.ndarray, str]:
  """A teacher's best metric on valid, its logits on test, and the accelerators that trained it."""
  name = f'{path}-{config.layers or "all"}-{config.steps}-{seed}'.replace('/', '_')
  folder = run.path(os.path.join('benchmark', 'teachers', name))
  kept = os.path.join(folder, 'judged.npz')
  if not os.path.exists(kept):
    valid, logits = _trained(run, path, seed, config, folder)
    of = {'valid': valid, 'logits': logits, 'accelerators': results.environment()['accelerators']}
    with whole(kept) as temporary, open(temporary, 'wb') as file:
      np.savez(file, **of)
  judged = np.load(kept)
  return float(judged['valid']), judged['logits'], str(judged['accelerators'])


def _trained(
  run: FinishedRun, path: str, seed: int, config: BenchmarkConfig, folder: str
) -> tuple[float, np.ndarray]:
  """Trains a teacher into a folder: its best metric on valid, and its logits on test."""
  chosen = run.flags
  phase = PhaseConfig(
    learning_rate=chosen['teacher_learning_rate'],
    batch_size=chosen['teacher_batch_size'],
    warmup_steps=config.steps // 10,
    steps=config.steps,
    eval_every=config.steps // 2,
    patience=0,
  )
  devices = DeviceConfig(precision=config.precision)
  strategy = strategies.create(devices)
  training = run.training(strategy, seed, devices)
  training = dataclasses.replace(training, distill=run.path('data/train'))
  pretrained = checkpoints.read(path)
  layers = config.layers or pretrained.config.num_layers
  shape = dataclasses.replace(pretrained.config, num_layers=layers)
  tf_keras.utils.set_random_seed(seed)
  cut, length = dataclasses.replace(pretrained, config=shape), chosen['teacher_max_length']
  history = teacher.fine_tune(cut, length, phase, training, folder, name=f'teacher, seed {seed}')
  with strategies.precision():
    score = teacher.scorer_of([Teacher.load(folder)], strategy)
    logits = score(RecordSet(run.path('data/test')))
  best = {entry['step']: entry['valid'] for entry in history['history']}[history['best_step']]
  return best[run.judged('valid').primary], logits


if __name__ == '__main__':
  flags.command(main, BenchmarkConfig)
