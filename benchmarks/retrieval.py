"""A mined task as retrieval: nearest passages, reranked by the student and by its teacher.

  python -m benchmarks.retrieval --run_dir=runs/q2p --output=benchmarks/results/retrieval.json

The first stage takes the inner products of the embedder that mined the task, over all passages. The
student has the passages stored in int8 and encodes the query; the teacher, in int8, reads each
pair. Sums with the first stage have a weight that was fitted on the queries of valid. A passage is
relevant if it is known to match, whether the first stage found it or not.

Beside it, how much the student's own first vectors find among all passages.
"""

import dataclasses
import tempfile
import time
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from benchmarks import committed, tables
from common import flags
from common.data.matching import SPLITS
from common.data.records import RecordSet
from common.distillation import teacher
from common.distillation.converted_teacher import ConvertedTeacher
from common.distillation.mining import MinedTask
from common.errors import InputError
from common.evaluation import ranking, significance
from common.evaluation.ranking import Candidates, Judged
from common.rerank.first_stage import fitted
from common.rerank.reranker import logits_of
from common.scoring import runtimes
from common.vectors.neighbors import Index
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
  runtime: str = flags.option(
    'litert-int8', "runtime of the student's head", tuple(runtimes.RUNTIMES)
  )
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

    def by_student(text: str, rows: np.ndarray) -> np.ndarray:
      return logits_of(scorer, scorer.encode([text], 'left'), store, rows)

    of_valid, _ = _timed('student, valid', valid, by_student)
    scores['student'], seconds['student'] = _timed('student', test, by_student)
    nearest = Index.of_store(store).nearest(scorer.encode(test.texts, 'left'), max(_OWN))
    own = _hits(nearest, test.known)
  scores['student + first stage'], weight = _summed(valid, of_valid, test, scores['student'])
  seconds['student + first stage'] = seconds['student']
  if teachers := [ConvertedTeacher(one) for one in run.teachers()]:

    def by_teacher(text: str, rows: np.ndarray) -> np.ndarray:
      pairs = [(text, passages[row]) for row in rows]
      return teacher.of_texts(teachers, pairs)[:, 0]

    of_valid, _ = _timed('teacher, valid', valid, by_teacher)
    scores['teacher'], seconds['teacher'] = _timed('teacher', test, by_teacher)
    scores['teacher + first stage'], _ = _summed(valid, of_valid, test, scores['teacher'])
    seconds['teacher + first stage'] = seconds['teacher']
  candidates = test.candidates
  made = {
    'queries': len(test.texts),
    'passages': len(passages),
    'depth': config.depth,
    'weight': weight,
    'own': {str(count): float(own[:, :count].any(1).mean()) for count in _OWN},
    'found': float(candidates.relevant.sum() / candidates.judged.relevants.sum()),
    'rows': _rows(candidates, scores, seconds),
  }
  print(tables.retrieval(made))
  if config.output:
    committed.write(config.output, 'benchmarks.retrieval', config, **made)


class _First(NamedTuple):
  """The first stage of a split's queries.

  Attributes:
    texts: The queries.
    known: [m, 2], a query's place and a row of the passages that match.
    near: [queries, depth], rows of the nearest passages.
    scores: Their inner products, a query's at a time.
    seconds: Of each query.
    candidates: What is known of them.
  """

  texts: list[str]
  known: np.ndarray
  near: np.ndarray
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
  known = task.positives[np.isin(task.positives[:, 0], chosen)]
  known = np.stack([np.searchsorted(chosen, known[:, 0]), known[:, 1]], 1)
  rows, texts = np.stack(near), list(records.items(0).texts(chosen))
  return _First(texts, known, rows, scores, seconds, _candidates(known, rows))


def _hits(near: np.ndarray, known: np.ndarray) -> np.ndarray:
  """Where each known pair's passage stands among its query's nearest: [m, nearest] bool."""
  return near[known[:, 0]] == known[:, 1, None]


def _candidates(known: np.ndarray, near: np.ndarray) -> Candidates:
  """Nearest passages of each query, and which of them are relevant."""
  ones, relevant = np.ones(len(known)), np.zeros(near.shape, bool)
  pairs, places = _hits(near, known).nonzero()
  relevant[known[pairs, 0], places] = True
  queries, relevant = np.indices(near.shape)[0].ravel(), relevant.ravel()
  judged = Judged(known[:, 0], ones, ones > 0, len(near))
  return Candidates(queries, near.ravel(), relevant.astype(float), relevant, judged)


def _timed(name: str, first: _First, score: Any) -> tuple[list[np.ndarray], list[float]]:
  """Scores of each query's candidates, and its seconds, after a first call that compiles."""
  score(first.texts[0], first.near[0])
  found, seconds = [], []
  for text, rows in zip(tqdm(first.texts, desc=name), first.near, strict=True):
    started = time.perf_counter()
    found.append(score(text, rows))
    seconds.append(time.perf_counter() - started)
  return found, seconds


def _summed(
  valid: _First, of_valid: list[np.ndarray], test: _First, of_test: list[np.ndarray]
) -> tuple[list[np.ndarray], float]:
  """Logits of test's candidates with the first stage's scores; the weight, fitted on valid."""
  first = fitted(
    'embedder', valid.candidates, np.concatenate(of_valid), np.concatenate(valid.scores)
  )
  both = zip(of_test, test.scores, strict=True)
  return [logits + first.terms(of) for logits, of in both], first.weight


def _rows(
  candidates: Candidates, scores: dict[str, list[np.ndarray]], seconds: dict[str, list[float]]
) -> list[dict[str, Any]]:
  """Each model's metrics with 95% intervals, its differences to the first stage and the teacher."""
  values = {name: candidates.evaluate(np.concatenate(of), METRICS) for name, of in scores.items()}
  rows: list[dict[str, Any]] = [
    {'name': name, 'milliseconds': 1e3 * float(np.median(seconds[name])), 'metrics': {}}
    for name in scores
  ]
  for metric in METRICS:
    resampled = ranking.resampled([of[metric] for of in values.values()])
    columns = dict(zip(scores, resampled, strict=True))
    for row in rows:
      column = columns[row['name']]
      low, high = significance.interval(column[1:])
      found: dict[str, Any] = {'value': float(column[0]), 'low': low, 'high': high}
      if row is not rows[0]:
        change = significance.difference(resampled[0], column)
        found |= {'p_value': change.p_value, 'delta': change.delta}
      for key, other in (('against_teacher', 'teacher'), ('against_sum', 'teacher + first stage')):
        if other in columns and row['name'] != other:
          found[key] = significance.difference(columns[other], column)._asdict()
      row['metrics'][metric] = found
  return rows


if __name__ == '__main__':
  flags.command(main, RetrievalConfig)
