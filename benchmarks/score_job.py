"""The Beam job `common.pipelines.score` in real processes: how fast, how large, how safe it is.

  python -m benchmarks.score_job --folder=/tmp/score_job \\
    --output=benchmarks/results/score_job.json

Pairs of ids against int8 stores, scored by LiteRT in int8, a process a core. Weights and vectors are
random: they do not change the time. Before and after each job the head alone is measured, on as many
cores and on vectors that are in memory, since a machine's speed drifts. Then the job is killed half
way and started again; then it gets rows that are none.
"""

import collections
import dataclasses
import glob
import json
import os
import re
import shutil
import sys
import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from benchmarks import committed, speed_tables, watched
from benchmarks.score_job_inputs import Inputs
from common import flags
from common.errors import InputError
from common.evaluation import benchmark, report
from common.pipelines import shards
from common.vectors.store import VectorStore
from dipair.scorer import Scorer

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_RUNTIME = 'litert-int8'
_BATCH = 1024  # pairs of a call of the head alone


@dataclasses.dataclass(frozen=True)
class JobConfig:
  """Sizes of the stores and of the jobs."""

  pairs: tuple[int, ...] = flags.option(
    (1_000_000, 10_000_000),
    'pairs of each job; the first is killed and gets bad rows too',
    bounds=(1, 10**12),
  )
  lefts: int = flags.option(20_000, 'vectors of the left store', bounds=(1, 10**9))
  rights: int = flags.option(100_000, 'vectors of the right store', bounds=(1, 10**9))
  bad_rows: int = flags.option(1000, 'rows that are none', bounds=(0, 10**9))
  workers: int = flags.option(0, 'processes; 0: one a core', bounds=(0, 1024))
  folder: str = flags.option('', 'folder that keeps the inputs between runs; empty: none')
  output: str = flags.option('', 'JSON file of the figures')


def main(config: JobConfig) -> None:
  """Measures, prints, writes."""
  with tempfile.TemporaryDirectory() as folder:
    bench = Bench(config, config.folder or folder)
    rows = [bench.speed(count) for count in config.pairs]
    killed, bad = bench.kill(config.pairs[0]), bench.bad_rows(config.pairs[0], config.bad_rows)
  made: dict[str, Any] = {'workers': bench.workers, 'runtime': _RUNTIME, 'rows': rows}
  print(report.grid(speed_tables.score_job(made)))
  print(f'Killed: {json.dumps(killed)}\nBad rows: {json.dumps(bad, indent=1)}')
  if config.output:
    committed.write(config.output, 'score_job', config, **made, killed=killed, bad_rows=bad)


class Bench:
  """The jobs and what is compared with them."""

  def __init__(self, config: JobConfig, folder: str):
    self.folder, self.workers = folder, config.workers or len(os.sched_getaffinity(0))
    self.inputs = Inputs(os.path.join(folder, 'inputs'), config.lefts, config.rights)
    self.inputs.make()
    self.scorer = Scorer.load(self.inputs.path('export'), _RUNTIME, self.workers)
    stores = (VectorStore(self.inputs.path(side)) for side in ('left', 'right'))
    self.vectors = [store.vectors(slice(_BATCH)) for store in stores]

  def speed(self, count: int) -> dict[str, Any]:
    """A job over so many pairs, and the head alone."""
    before = self._head()
    found = self._job(self.inputs.pairs(count), self._fresh(f'scores-{count}'))
    head = (before + self._head()) / 2
    marks = list(shards.marks(self._output(f'scores-{count}')).values())
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

  def kill(self, count: int) -> dict[str, Any]:
    """The job killed half way and started again, against the one that was left alone."""
    pairs, output = self.inputs.pairs(count), self._fresh('killed')
    every = pq.ParquetFile(pairs).num_row_groups
    found = self._job(pairs, output, kill_at=max(1, every // 2))
    if not found['killed']:
      raise InputError(f'--pairs={count}: done before it could be killed; more are needed')
    done = shards.count_marks(output)
    self._job(pairs, output)
    table, whole = _scores(output), _scores(self._output(f'scores-{count}'))
    return {
      'shards': every,
      'done_when_killed': done,
      'rows': len(table),
      'rows_twice': len(table) - len(_codes(table).unique()),
      'same_rows_and_scores': table.equals(whole),
    }

  def bad_rows(self, count: int, bad: int) -> dict[str, Any]:
    """The job over a TSV of which some rows are none."""
    path, made = self.inputs.spoilt(count, bad)
    output = self._fresh('bad-rows')
    pieces = f'--unit_bytes={os.path.getsize(path) // (2 * self.workers) + 1}'
    self._job(path, output, pieces, f'--max_bad_rows={bad}')
    reasons: collections.Counter[str] = collections.Counter()
    for name in glob.glob(os.path.join(output, 'bad', '*.jsonl')):
      with open(name, encoding='utf-8') as file:
        reasons.update(_reason(json.loads(line)['why']) for line in file)
    table = _scores(output)
    return {
      'rows': count,
      'made': made,
      'reasons': dict(reasons.most_common()),
      'refused': reasons.total(),
      'scored': len(table),
      'scored_twice': len(table) - len(_codes(table).unique()),
    }

  def _head(self) -> float:
    """Pairs a second of the head alone."""
    contender = benchmark.Contender('head', lambda: self.scorer.score(*self.vectors), _BATCH)
    return benchmark.rates([contender])[0]['pairs_per_second']

  def _job(self, pairs: str, output: str, *more: str, kill_at: int = 0) -> dict[str, Any]:
    """Runs it; kills it once so many shards are there."""
    command = [sys.executable, '-m', 'common.pipelines.score', f'--runtime={_RUNTIME}']
    stores = ','.join(self.inputs.path(side) for side in ('left', 'right'))
    command += [f'--export_dir={self.inputs.path("export")}', f'--stores={stores}']
    command += [f'--input={pairs}', f'--output={output}', '--threads=1', *more]
    command += ['--direct_running_mode=multi_processing', f'--direct_num_workers={self.workers}']
    with tqdm(desc=os.path.basename(output), unit=' shards') as bar:

      def look() -> bool:
        bar.update(shards.count_marks(output) - bar.n)
        return bool(kill_at) and bar.n >= kill_at

      environment = {'PYTHONPATH': _ROOT, 'TF_CPP_MIN_LOG_LEVEL': '2'}
      return watched.run(command, f'{output}.log', look, environment)

  def _output(self, name: str) -> str:
    return os.path.join(self.folder, name)

  def _fresh(self, name: str) -> str:
    shutil.rmtree(self._output(name), ignore_errors=True)
    return self._output(name)


def _scores(output: str) -> pa.Table:
  names = sorted(glob.glob(os.path.join(output, 'scores-*.parquet')))
  return pa.concat_tables([pq.read_table(name) for name in names])


def _codes(table: pa.Table) -> pa.Array:
  """A number a pair."""
  left, right = (
    np.array([int(key.rsplit('-', 1)[1]) for key in table.column(side).to_pylist()])
    for side in ('left', 'right')
  )
  return pa.array(left * 10**9 + right)


def _reason(why: str) -> str:
  """Without what differs from row to row."""
  return re.sub(r"(id )'.*'|(position )[\d-]+", r'\1\2…', why)


if __name__ == '__main__':
  flags.command(main, JobConfig)
