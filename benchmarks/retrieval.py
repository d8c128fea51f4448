"""A mined task as retrieval: nearest passages, reranked by the student and by its teacher.

  python -m benchmarks.retrieval --run_dir=runs/q2p --student=pretrained/medquad.tar.gz \
    --output=benchmarks/results/retrieval.json

The first stage takes the inner products of the embedder that mined the task, over all passages.
The student has the passages stored in int8 and encodes the query; the teacher reads each pair. A
passage is relevant if it is known to match, whether the first stage found it or not.
"""

import dataclasses
import tempfile
import time
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from benchmarks import committed, tables
from common import flags
from common.data.matching import SPLITS
from common.data.records import RecordSet
from common.data.tokens import TokenizedTuples
from common.distillation import teacher
from common.distillation.mining import MinedTask
from common.errors import InputError
from common.evaluation import ranking, significance
from common.evaluation.ranking import Candidates, Judged
from common.scoring import runtimes
from dipair.scorer import Scorer
from experiments.finished_run import FinishedRun

METRICS = ('mrr@10', 'ndcg@10', 'recall@10')


@dataclasses.dataclass(frozen=True)
class RetrievalConfig:
  """The run, and how much is ranked."""

  run_dir: str = flags.option('', 'a finished run of dipair.run --mine_from')
  student: str = flags.option('', "an export or archive of the same task; empty: the run's own")
  queries: int = flags.option(200, 'queries, drawn from the test split', bounds=(1, 10**9))
  depth: int = flags.option(100, 'nearest passages that are ranked anew', bounds=(1, 10**6))
  runtime: str = flags.option('litert-int8', "runtime of the student's head", tuple(runtimes.HEADS))
  output: str = flags.option('', 'JSON file of the figures')


def main(config: RetrievalConfig) -> None:
  """Ranks by each, prints, writes."""
  run = FinishedRun(config.run_dir)
  if not run.flags['mine_from']:
    raise InputError(f'--run_dir={config.run_dir}: a run of --mine_from is needed')
  task, records = MinedTask.open(run.path('data')), RecordSet(run.path('data/test'))
  of_test = np.flatnonzero(task.splits == SPLITS.index('test'))
  chosen = np.sort(np.random.default_rng(0).permutation(of_test)[: config.queries])
  texts, passages = list(records.items(0).texts(chosen)), list(records.items(1).texts())
  vectors = task.passages.vectors(slice(None))
  near, scores, seconds = [], {}, {}
  timed = []
  for query in tqdm(task.queries.vectors(chosen), desc='first stage'):
    started = time.perf_counter()
    found = vectors @ query
    best = np.argpartition(-found, config.depth)[: config.depth]
    timed.append(time.perf_counter() - started)
    near.append(best)
    scores.setdefault('nearest', []).append(found[best])
  seconds['nearest'] = timed
  candidates = _candidates(task, chosen, near)
  with tempfile.TemporaryDirectory() as folder:
    scorer = Scorer.load(
      config.student or run.path('export'), config.runtime, encoder_runtime='litert-int8'
    )
    rows = ((str(number), passage) for number, passage in enumerate(passages))
    store = scorer.encode_to(folder, rows, 'right', dtype='int8', total=len(passages))
    scores['student'], seconds['student'] = _timed(
      'student', texts, near, lambda text, rows: _by_student(scorer, store, text, rows)
    )
  if teachers := run.teachers():

    def by_teacher(text: str, rows: np.ndarray) -> np.ndarray:
      pairs = [(text, passages[row]) for row in rows]
      tuples = [TokenizedTuples.of_texts(pairs, one.tokenizer) for one in teachers]
      return teacher.mean_logits(teachers, tuples, strategy=tf.distribute.get_strategy())[:, 0]

    scores['teacher'], seconds['teacher'] = _timed('teacher', texts, near, by_teacher)
  made = {
    'queries': len(chosen),
    'passages': len(passages),
    'depth': config.depth,
    'found': float(candidates.relevant.sum() / candidates.judged.relevants.sum()),
    'rows': _rows(candidates, scores, seconds),
  }
  print(tables.retrieval(made))
  if config.output:
    committed.write(config.output, 'benchmarks.retrieval', config, **made)


def _candidates(task: MinedTask, chosen: np.ndarray, near: list[np.ndarray]) -> Candidates:
  """Nearest passages of each query, and which of them are relevant."""
  place = np.full(len(task.splits), -1)
  place[chosen] = np.arange(len(chosen))
  known = task.positives[place[task.positives[:, 0]] >= 0]
  ones = np.ones(len(known))
  judged = Judged(place[known[:, 0]], ones, ones > 0, len(chosen))
  matches = {tuple(pair) for pair in known.tolist()}
  relevant = np.array(
    [
      (int(query), int(row)) in matches
      for query, of in zip(chosen, near, strict=True)
      for row in of
    ]
  )
  queries = np.repeat(np.arange(len(chosen)), [len(of) for of in near])
  return Candidates(queries, np.concatenate(near), relevant.astype(float), relevant, judged)


def _by_student(scorer: Scorer, store: Any, text: str, rows: np.ndarray) -> np.ndarray:
  found = dict(scorer.rank(text, store, len(rows), rows=rows))
  return np.array([found[row] for row in rows.tolist()])


def _timed(
  name: str, texts: list[str], near: list[np.ndarray], score: Any
) -> tuple[list[np.ndarray], list[float]]:
  """Scores of each query's candidates, and its seconds, after a first call that compiles."""
  score(texts[0], near[0])
  found, seconds = [], []
  for text, rows in zip(tqdm(texts, desc=name), near, strict=True):
    started = time.perf_counter()
    found.append(score(text, rows))
    seconds.append(time.perf_counter() - started)
  return found, seconds


def _rows(
  candidates: Candidates, scores: dict[str, list[np.ndarray]], seconds: dict[str, list[float]]
) -> list[dict[str, Any]]:
  """Each model's metrics with 95% intervals, and each later one's difference to the first stage."""
  values = {name: candidates.evaluate(np.concatenate(of), METRICS) for name, of in scores.items()}
  rows: list[dict[str, Any]] = [
    {'name': name, 'milliseconds': 1e3 * float(np.median(seconds[name])), 'metrics': {}}
    for name in scores
  ]
  for metric in METRICS:
    columns = ranking.resampled([of[metric] for of in values.values()])
    for row, column in zip(rows, columns, strict=True):
      low, high = significance.interval(column[1:])
      row['metrics'][metric] = {'value': float(column[0]), 'low': low, 'high': high}
      if row is not rows[0]:
        change = significance.difference(columns[0], column)
        row['metrics'][metric] |= {'p_value': change.p_value, 'delta': change.delta}
  return rows


if __name__ == '__main__':
  flags.command(main, RetrievalConfig)
