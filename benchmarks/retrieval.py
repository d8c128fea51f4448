"""A mined task as retrieval: nearest passages, reranked by the student and by its teacher.

  python -m benchmarks.retrieval --run_dir=runs/q2p --output=benchmarks/results/retrieval.json

The first stage takes the inner products of the embedder that mined the task, over all passages. The
student has the passages stored in int8 and encodes the query; the teacher, in int8, reads each
pair. Sums with the first stage have a weight that was fitted on the queries of valid. A passage is
relevant if it is known to match, whether the first stage found it or not.

Beside it, how much the student's own first vectors find among all passages.
"""

import dataclasses
import functools
import tempfile
import time
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from benchmarks import committed, tables
from common import flags
from common.data.matching import SPLITS
from common.data.records import RecordSet
from common.data.tokens import TokenizedTuples
from common.distillation import teacher
from common.distillation.converted_teacher import ConvertedTeacher
from common.distillation.mining import MinedTask
from common.errors import InputError
from common.evaluation import ranking, significance
from common.evaluation.ranking import Candidates, Judged
from common.rerank.first_stage import fitted
from common.scoring import runtimes
from common.vectors.neighbors import Index
from common.vectors.store import VectorStore
from dipair.scorer import Scorer
from experiments.finished_run import FinishedRun

METRICS = ('mrr@10', 'ndcg@10', 'recall@10')
_OWN = (10, 100, 1000)  # passages that the student's own vectors find


@dataclasses.dataclass(frozen=True)
class RetrievalConfig:
  """The run, and how much is ranked."""

  run_dir: str = flags.option('', 'a finished run of dipair.run --mine_from')
  student: str = flags.option('', "an export or archive of the same task; empty: the run's own")
  queries: int = flags.option(0, 'queries, drawn from a split; 0: all', bounds=(0, 10**9))
  depth: int = flags.option(100, 'nearest passages that are ranked anew', bounds=(1, 10**6))
  runtime: str = flags.option('litert-int8', "runtime of the student's head", tuple(runtimes.HEADS))
  output: str = flags.option('', 'JSON file of the figures')


def main(config: RetrievalConfig) -> None:
  """Ranks by each, prints, writes."""
  run = FinishedRun(config.run_dir)
  if not run.flags['mine_from']:
    raise InputError(f'--run_dir={config.run_dir}: a run of --mine_from is needed')
  task, records = MinedTask.open(run.path('data')), RecordSet(run.path('data/test'))
  passages = list(records.items(1).texts())
  valid, test = (_first_stage(task, records, split, config) for split in ('valid', 'test'))
  scores, seconds = {'first stage': test.scores}, {'first stage': test.seconds}
  with tempfile.TemporaryDirectory() as folder:
    scorer = Scorer.load(
      config.student or run.path('export'), config.runtime, encoder_runtime='litert-int8'
    )
    rows = ((str(number), passage) for number, passage in enumerate(passages))
    store = scorer.encode_to(folder, rows, 'right', dtype='int8', total=len(passages))
    by_student = functools.partial(_by_student, scorer, store)
    of_valid, _ = _timed('student, valid', valid, by_student)
    scores['student'], seconds['student'] = _timed('student', test, by_student)
    own = _own(scorer, store, task, test)
  weight = fitted(
    'embedder', valid.candidates, np.concatenate(of_valid), np.concatenate(valid.scores)
  )
  both = zip(scores['student'], test.scores, strict=True)
  scores['student + first stage'] = [weight.summed(*of) for of in both]
  seconds['student + first stage'] = seconds['student']
  if teachers := [ConvertedTeacher(one, 'litert-int8') for one in run.teachers()]:

    def by_teacher(text: str, rows: np.ndarray) -> np.ndarray:
      pairs = [(text, passages[row]) for row in rows]
      tuples = [TokenizedTuples.of_texts(pairs, one.tokenizer) for one in teachers]
      return teacher.mean_logits(teachers, tuples, strategy=tf.distribute.get_strategy())[:, 0]

    scores['teacher'], seconds['teacher'] = _timed('teacher', test, by_teacher)
  candidates = test.candidates
  made = {
    'queries': len(test.texts),
    'passages': len(passages),
    'depth': config.depth,
    'weight': weight.weight,
    'own': own,
    'found': float(candidates.relevant.sum() / candidates.judged.relevants.sum()),
    'rows': _rows(candidates, scores, seconds),
  }
  print(tables.retrieval(made))
  if config.output:
    committed.write(config.output, 'benchmarks.retrieval', config, **made)


class _First(NamedTuple):
  """The first stage of a split's queries.

  Attributes:
    queries: Their numbers.
    texts: The queries.
    near: Rows of each query's nearest passages.
    scores: Their inner products.
    seconds: Of each query.
    candidates: What is known of them.
  """

  queries: np.ndarray
  texts: list[str]
  near: list[np.ndarray]
  scores: list[np.ndarray]
  seconds: list[float]
  candidates: Candidates


def _first_stage(
  task: MinedTask, records: RecordSet, split: str, config: RetrievalConfig
) -> _First:
  """Searches all passages."""
  chosen = np.intersect1d(np.flatnonzero(task.splits == SPLITS.index(split)), task.positives[:, 0])
  if config.queries:
    chosen = np.sort(np.random.default_rng(0).permutation(chosen)[: config.queries])
  vectors = task.passages.vectors(slice(None))
  near, scores, seconds = [], [], []
  for query in tqdm(task.queries.vectors(chosen), desc=f'first stage, {split}'):
    started = time.perf_counter()
    found = vectors @ query
    best = np.argpartition(-found, config.depth)[: config.depth]
    seconds.append(time.perf_counter() - started)
    near.append(best)
    scores.append(found[best])
  texts = list(records.items(0).texts(chosen))
  return _First(chosen, texts, near, scores, seconds, _candidates(task, chosen, near))


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


def _by_student(scorer: Scorer, store: VectorStore, text: str, rows: np.ndarray) -> np.ndarray:
  query = scorer.encode([text], 'left')
  part = scorer.parts(query, 'left')
  return scorer.one_to_many_scored(query, part, store.stored(rows), None)[0]


def _own(scorer: Scorer, store: VectorStore, task: MinedTask, first: _First) -> dict[str, float]:
  """Share of the relevant passages among the nearest by the student's vectors, by their number."""
  near = Index.of_store(store).nearest(scorer.encode(first.texts, 'left'), max(_OWN))
  place = np.full(len(task.splits), -1)
  place[first.queries] = np.arange(len(first.queries))
  known = task.positives[place[task.positives[:, 0]] >= 0]
  at = near[place[known[:, 0]]] == known[:, 1, None]
  return {str(count): float(at[:, :count].any(1).mean()) for count in _OWN}


def _timed(name: str, first: _First, score: Any) -> tuple[list[np.ndarray], list[float]]:
  """Scores of each query's candidates, and its seconds, after a first call that compiles."""
  score(first.texts[0], first.near[0])
  found, seconds = [], []
  for text, rows in zip(tqdm(first.texts, desc=name), first.near, strict=True):
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
