"""The Beam job `common.pipelines.score` in real processes: pairs a second, and memory.

  python -m benchmarks.score_job --folder=/tmp/score_job \\
    --output=benchmarks/results/score_job.json

Pairs of ids against int8 stores, scored by LiteRT in int8, a process a core. Weights and vectors
are random: they do not change the time. Before and after each job the head alone is measured, on as
many cores and on vectors that are in memory, since a machine's speed drifts.
"""

import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

import psutil
from tqdm import tqdm

from benchmarks import committed, tables
from benchmarks.score_job_inputs import Inputs
from common import flags
from common.evaluation import benchmark, report
from common.pipelines import shards
from common.vectors.store import VectorStore
from dipair.scorer import Scorer

_RUNTIME = 'litert-int8'
_BATCH = 1024  # pairs of a call of the head alone
_EVERY = 0.5  # seconds between two looks at a job's processes


@dataclasses.dataclass(frozen=True)
class JobConfig:
  """Sizes of the stores and of the jobs."""

  pairs: tuple[int, ...] = flags.option(
    (1_000_000, 10_000_000), 'pairs of each job', bounds=(1, 10**12)
  )
  lefts: int = flags.option(20_000, 'vectors of the left store', bounds=(1, 10**9))
  rights: int = flags.option(100_000, 'vectors of the right store', bounds=(1, 10**9))
  workers: int = flags.option(0, 'processes; 0: one a core', bounds=(0, 1024))
  folder: str = flags.option('', 'folder that keeps the inputs between runs; empty: none')
  output: str = flags.option('', 'JSON file of the figures')


def main(config: JobConfig) -> None:
  """Measures, prints, writes."""
  with tempfile.TemporaryDirectory() as folder:
    bench = Bench(config, config.folder or folder)
    rows = [bench.speed(count) for count in config.pairs]
  made: dict[str, Any] = {'workers': bench.workers, 'runtime': _RUNTIME, 'rows': rows}
  print(report.grid(tables.score_job(made)))
  if config.output:
    committed.write(config.output, 'benchmarks.score_job', config, **made)


class Bench:
  """The jobs, and the head alone beside them."""

  def __init__(self, config: JobConfig, folder: str):
    self.folder, self.workers = folder, config.workers or len(os.sched_getaffinity(0))
    self.inputs = Inputs(os.path.join(folder, 'inputs'), config.lefts, config.rights)
    self.inputs.make()
    self.scorer = Scorer.load(self.inputs.path('export'), _RUNTIME, self.workers)
    stores = (VectorStore(self.inputs.path(side)) for side in ('left', 'right'))
    self.vectors = [store.vectors(slice(_BATCH)) for store in stores]

  def speed(self, count: int) -> dict[str, Any]:
    """A job over so many pairs, and the head alone."""
    output = os.path.join(self.folder, f'scores-{count}')
    shutil.rmtree(output, ignore_errors=True)
    before = self._head()
    found = self._job(self.inputs.pairs(count), output)
    head = (before + self._head()) / 2
    marks = list(shards.marks(output).values())
    rows, seconds = sum(mark.rows for mark in marks), sum(mark.seconds for mark in marks)
    steady = rows / (seconds / self.workers)
    return {
      'pairs': rows,
      'seconds': found['seconds'],
      'pairs_per_second': rows / found['seconds'],
      'steady_pairs_per_second': steady,
      'head_pairs_per_second': head,
      'ratio': steady / head,
      'wall_ratio': rows / found['seconds'] / head,
      'rss': found['rss'],
      'uss': found['uss'],
      'written_bytes_per_pair': sum(file.bytes for mark in marks for file in mark.shards) / rows,
    }

  def _head(self) -> float:
    """Pairs a second of the head alone."""
    contender = benchmark.Contender('head', lambda: self.scorer.score(*self.vectors), _BATCH)
    return benchmark.rates([contender])[0]['pairs_per_second']

  def _job(self, pairs: str, output: str) -> dict[str, Any]:
    """Runs a job: its seconds, and the peak memory of its largest process."""
    command = [sys.executable, '-m', 'common.pipelines.score', f'--runtime={_RUNTIME}']
    stores = ','.join(self.inputs.path(side) for side in ('left', 'right'))
    command += [f'--export_dir={self.inputs.path("export")}', f'--stores={stores}']
    command += [f'--input={pairs}', f'--output={output}', '--threads=1']
    command += ['--direct_running_mode=multi_processing', f'--direct_num_workers={self.workers}']
    environment = {**os.environ, 'PYTHONPATH': committed.ROOT, 'TF_CPP_MIN_LOG_LEVEL': '2'}
    peaks, started = {'rss': 0, 'uss': 0}, time.monotonic()
    with (
      open(f'{output}.log', 'wb') as log,
      tqdm(desc=os.path.basename(output), unit=' shards') as bar,
      subprocess.Popen(command, stdout=log, stderr=log, env=environment) as process,
    ):
      while process.poll() is None:
        for name, value in _memory(process.pid).items():
          peaks[name] = max(peaks[name], value)
        bar.update(shards.count_marks(output) - bar.n)
        time.sleep(_EVERY)
    if process.returncode:
      raise RuntimeError(f'{" ".join(command)} failed: see {output}.log')
    return {'seconds': time.monotonic() - started, **peaks}


def _memory(pid: int) -> dict[str, int]:
  """Memory of the largest process under one: 'rss' with mapped pages of files, 'uss' its own."""
  largest = {'rss': 0, 'uss': 0}
  try:
    children = psutil.Process(pid).children(recursive=True)
  except psutil.NoSuchProcess:
    return largest
  for child in children:
    try:
      memory = child.memory_full_info()
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
      continue  # it has ended
    largest = {name: max(value, getattr(memory, name)) for name, value in largest.items()}
  return largest


if __name__ == '__main__':
  flags.command(main, JobConfig)
