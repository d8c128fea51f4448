"""How much of the head's own best is in the first stage's shortlist, and what the shortlist saves.

  python -m benchmarks.shortlist --run_dir=runs/homedepot --output=benchmarks/results/shortlist.json

The right texts of a finished run's test set are stored. For each of some left texts the head ranks
all of them, then only the nearest by pooled vectors (`rank(..., first_stage=index)`), of several
numbers.
Recall is the share of the head's best that the shortlist holds.
"""

import dataclasses
import tempfile
import time
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks import committed, speed_tables
from common import flags
from common.data.records import RecordSet
from common.errors import InputError
from common.evaluation import report
from common.scoring import runtimes
from common.vectors.neighbors import Index
from dipair.finished_run import FinishedRun
from dipair.scorer import Scorer


@dataclasses.dataclass(frozen=True)
class ShortlistConfig:
  """The run, and what is asked of its export."""

  run_dir: str = flags.option('', 'a finished run of dipair.run')
  runtime: str = flags.option('litert-int8', 'runtime of the head', tuple(runtimes.HEADS))
  queries: int = flags.option(200, 'left texts, drawn from the test set', bounds=(1, 10**9))
  top_k: int = flags.option(10, 'results a query', bounds=(1, 10**6))
  shortlists: tuple[int, ...] = flags.option(
    (100, 1000), 'right texts that the first stage leaves', bounds=(1, 10**9)
  )
  output: str = flags.option('', 'JSON file of the figures')

  def __post_init__(self):
    if min(self.shortlists) < self.top_k:
      raise InputError(f'--shortlists: each --top_k={self.top_k} or more')


def main(config: ShortlistConfig) -> None:
  """Measures, prints, writes."""
  run = FinishedRun(config.run_dir)
  lefts, rights = zip(*RecordSet(run.path('data/test')).texts(), strict=True)
  titles, terms = (list(dict.fromkeys(texts)) for texts in (rights, lefts))
  drawn = np.random.default_rng(0).permutation(len(terms))[: config.queries]
  with tempfile.TemporaryDirectory() as folder:
    scorer = Scorer.load(run.export(f'{folder}/export'), config.runtime)
    rows = ((str(i), title) for i, title in enumerate(titles))
    store = scorer.encode_to(f'{folder}/titles', rows, 'right', total=len(titles))
    queries = scorer.encode([terms[i] for i in sorted(drawn)], 'left')
    index = Index.of_store(store)
    exact, seconds = _ranked(scorer, queries, store, config.top_k, '')
    found = [{'name': 'all', 'recall': 1.0, 'seconds': seconds}]
    for count in config.shortlists:
      options = {'first_stage': index, 'shortlist': count}
      near, seconds = _ranked(scorer, queries, store, config.top_k, f' of {count:,}', **options)
      kept = [len(best & whole) / len(whole) for best, whole in zip(near, exact, strict=True)]
      found.append({'name': f'{count:,}', 'recall': float(np.mean(kept)), 'seconds': seconds})
  about = {'stored': len(titles), 'queries': len(queries), 'top_k': config.top_k}
  print(report.grid(speed_tables.shortlist({**about, 'rows': found})))
  if config.output:
    committed.write(config.output, 'shortlist', config, **about, rows=found)


def _ranked(
  scorer: Scorer, queries: np.ndarray, store: Any, top_k: int, what: str, **options: Any
) -> tuple[list[set[int]], float]:
  """The best rows of each query, and the median of seconds a query."""
  best, seconds = [], []
  for query in tqdm(queries, desc=f'rank{what}'):
    started = time.perf_counter()
    ranked = scorer.rank(query, store, top_k, **options)
    seconds.append(time.perf_counter() - started)
    best.append({row for row, _ in ranked})
  return best, float(np.median(seconds))


if __name__ == '__main__':
  flags.command(main, ShortlistConfig)
