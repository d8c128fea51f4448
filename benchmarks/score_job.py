"""The Beam job `common.pipelines.score` in real processes: pairs a second, and memory.

  python -m benchmarks.score_job --output=benchmarks/results/score_job.json

Pairs of ids against int8 stores, scored by LiteRT in int8, a process a core. Weights and vectors
are random: they do not change the time. Before and after each job the head alone is measured, on as
many cores and on vectors that are in memory, since a machine's speed drifts.
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from benchmarks import committed, random_exports, tables
from common import flags
from common.errors import InputError
from common.evaluation import benchmark
from common.pipelines import shards
from common.scoring import exported
from common.vectors.store import VectorStore
from common.vectors.writer import VectorWriter
from dipair.scorer import Scorer

_RUNTIME = 'litert-int8'
_SIDES = ('left', 'right')
_BATCH = 1024  # pairs of a call of the head alone
_EVERY = 0.5  # seconds between two looks at a job's processes
_GROUP = 250_000  # pairs of a row group, a unit of the job, at the most; four of them at the least
_SHARD = 16_384  # vectors written at a time


@dataclasses.dataclass(frozen=True)
class JobConfig:
  """Sizes of the stores and of the jobs."""

  pairs: tuple[int, ...] = flags.option(
    (1_000_000, 10_000_000), 'pairs of each job', bounds=(1, 10**12)
  )
  lefts: int = flags.option(20_000, 'vectors of the left store', bounds=(1, 10**9))
  rights: int = flags.option(100_000, 'vectors of the right store', bounds=(1, 10**9))
  workers: int = flags.option(0, 'processes; 0: one a core', bounds=(0, 1024))
  folder: str = flags.option('', 'folder for the data; empty: a temporary one')
  output: str = flags.option('', 'JSON file of the figures')

  def __post_init__(self):
    if 2 * max(self.pairs, default=0) > self.lefts * self.rights:
      raise InputError(
        f'--pairs={max(self.pairs)}: more than half of {self.lefts * self.rights:,} that the '
        'stores have'
      )


def main(config: JobConfig) -> None:
  """Measures, prints, writes."""
  workers = config.workers or len(os.sched_getaffinity(0))
  if config.folder:
    os.makedirs(config.folder, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=config.folder or None) as folder:
    description = exported.describe(random_exports.dipair(os.path.join(folder, 'export')))
    sizes = zip(_SIDES, (config.lefts, config.rights), description['vector_shapes'], strict=True)
    for side, count, shape in sizes:
      _write_store(folder, side, count, shape, description['fingerprint'])
    rows = [_speed(config, folder, workers, count) for count in config.pairs]
  made: dict[str, Any] = {'workers': workers, 'runtime': _RUNTIME, 'rows': rows}
  print(tables.score_job(made))
  if config.output:
    committed.write(config.output, 'benchmarks.score_job', config, **made)


def _write_store(folder: str, side: str, count: int, shape: list[int], fingerprint: str) -> None:
  """A store of `count` random vectors."""
  writer = VectorWriter(os.path.join(folder, side), shape, 'int8', fingerprint, side)
  rng, starts = np.random.default_rng(count), range(0, count, _SHARD)
  for number, start in enumerate(tqdm(starts, desc=f'{side} store', unit=' shards')):
    end = min(start + _SHARD, count)
    ids = _ids(side, np.arange(start, end))
    writer.write(number, ids, ids, rng.standard_normal((end - start, *shape), np.float32))
  writer.finish(len(starts))


def _write_pairs(path: str, config: JobConfig, count: int) -> None:
  """A table of `count` random pairs of ids, each once."""
  rng, codes = np.random.default_rng(count), np.zeros([0], np.int64)
  while len(codes) < count:
    codes = np.unique(np.append(codes, rng.integers(0, config.lefts * config.rights, count)))
  lefts, rights = np.divmod(rng.permutation(codes)[:count], config.rights)
  schema = pa.schema([(side, pa.string()) for side in _SIDES])
  group = min(_GROUP, -(-count // 4))
  with pq.ParquetWriter(path, schema) as writer:
    for start in tqdm(range(0, count, group), desc=f'{count:,} pairs', unit=' groups'):
      rows = slice(start, start + group)
      columns = [_ids('left', lefts[rows]), _ids('right', rights[rows])]
      writer.write_table(pa.table(columns, schema=schema), row_group_size=group)


def _ids(side: str, rows: np.ndarray) -> list[str]:
  return [f'{side}-{row:08d}' for row in rows]


def _speed(config: JobConfig, folder: str, workers: int, count: int) -> dict[str, Any]:
  """A job over so many pairs, and the head alone."""
  pairs, output = (os.path.join(folder, f'{name}-{count}') for name in ('pairs', 'scores'))
  pairs += '.parquet'
  _write_pairs(pairs, config, count)
  scorer = Scorer.load(os.path.join(folder, 'export'), _RUNTIME, workers)
  stores = (VectorStore(os.path.join(folder, side)) for side in _SIDES)
  vectors = [store.vectors(slice(_BATCH)) for store in stores]
  contender = benchmark.Contender('head', lambda: scorer.score(*vectors), _BATCH)

  def alone() -> float:
    return benchmark.rates([contender])[0]['pairs_per_second']

  before = alone()
  found = _job(folder, pairs, output, workers)
  head = (before + alone()) / 2
  marks = list(shards.marks(output).values())
  rows, seconds = sum(mark.rows for mark in marks), sum(mark.seconds for mark in marks)
  steady = rows / (seconds / workers)
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


def _job(folder: str, pairs: str, output: str, workers: int) -> dict[str, Any]:
  """Runs a job: its seconds, and the peak memory of its largest process."""
  command = [sys.executable, '-m', 'common.pipelines.score', f'--runtime={_RUNTIME}']
  stores = ','.join(os.path.join(folder, side) for side in _SIDES)
  command += [f'--export_dir={os.path.join(folder, "export")}', f'--stores={stores}']
  command += [f'--input={pairs}', f'--output={output}', '--threads=1']
  command += ['--direct_running_mode=multi_processing', f'--direct_num_workers={workers}']
  environment = {**os.environ, 'PYTHONPATH': committed.ROOT, 'TF_CPP_MIN_LOG_LEVEL': '2'}
  peaks, started = {'rss': 0, 'uss': 0}, time.monotonic()
  with (
    open(f'{output}.log', 'w+b') as log,
    tqdm(desc=os.path.basename(output), unit=' shards') as bar,
    subprocess.Popen(command, stdout=log, stderr=log, env=environment) as process,
  ):
    while process.poll() is None:
      for name, value in _memory(process.pid).items():
        peaks[name] = max(peaks[name], value)
      bar.update(shards.count_marks(output) - bar.n)
      time.sleep(_EVERY)
    if process.returncode:
      log.seek(0)
      raise RuntimeError(f'{" ".join(command)} failed: {log.read().decode()[-5000:]}')
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
