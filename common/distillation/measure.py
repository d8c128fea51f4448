"""Speed and quality of an export, by runtime and vector dtype."""

import os
from typing import Any

import numpy as np

from common.data.records import RecordSet
from common.evaluation import benchmark, metrics
from common.scoring import runtimes
from common.scoring.scorer import PairScorer
from common.vectors.store import DTYPES, narrowed, widened


def of_export(scorer: type[PairScorer], title: str, run_dir: str, task: str) -> dict[str, Any]:
  """Speed and quality of an export, by runtime, and quality by vector dtype.

  Args:
    scorer: Class that loads the export.
    title: The student's name, as people write it.
    run_dir: Holds `export` and `data`.
    task: What a label is: 'regression', 'binary' or 'multiclass'.

  Returns:
    {'rates', 'stored'}: rows of `benchmark.rates` with those of `compare`, and of `compare`.
  """
  base = benchmark.cross_encoder('BERT-base', benchmark.BERT_BASE)
  export = os.path.join(run_dir, 'export')
  scorers = scorer.load_each(export, runtimes.RUNTIMES)
  heads = [_head(f'{title} head, {name}', loaded) for name, loaded in scorers.items()]
  base_rate, *rates = benchmark.rates([base, *heads], rounds=3, seconds=0.5)
  worth, stored = compare(scorers, task, os.path.join(run_dir, 'data'))
  rows = [{**rate, **of} for rate, of in zip(rates, worth, strict=True)]
  return {'rates': [base_rate, *rows], 'stored': stored}


def compare(
  scorers: dict[str, PairScorer], task: str, data: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
  """Quality of one export, by runtime and by vector dtype.

  Args:
    scorers: Scorers by runtime; the first is what the others are compared with.
    task: What a label is: 'regression', 'binary' or 'multiclass'.
    data: Folder of the record sets `valid` and `test`.

  Returns:
    A row a runtime, and a row a dtype of the store: the primary metric on 'valid' and 'test', and
    'max_difference' of scores from the exact ones; of a dtype also 'bytes' of a text, by slot.
  """
  first = next(iter(scorers.values()))
  running: list[dict[str, Any]] = [{'max_difference': 0.0} for _ in scorers]
  stored: list[dict[str, Any]] = [{'dtype': dtype, 'max_difference': 0.0} for dtype in DTYPES]
  for set_name in ('valid', 'test'):
    records = RecordSet(os.path.join(data, set_name))
    labels = records.tuples().labels
    vectors = [_vectors(first, slot, records, i) for i, slot in enumerate(first.slots)]
    found = [scorer.score(*vectors) for scorer in scorers.values()]
    for row in stored:
      narrow = [narrowed(v, row['dtype']) for v in vectors]
      sizes = (sum(a[0].nbytes for a in of_slot if a is not None) for of_slot in narrow)
      row['bytes'] = dict(zip(first.slots, sizes, strict=True))
      found.append(first.score(*(widened(*of_slot) for of_slot in narrow)))
    for row, scores in zip([*running, *stored], found, strict=True):
      row[set_name] = _primary(task, labels, scores)
      row['max_difference'] = max(row['max_difference'], float(np.abs(scores - found[0]).max()))
  return running, stored


def _vectors(scorer: PairScorer, name: str, records: RecordSet, slot: int) -> np.ndarray:
  """Vectors of the tuples' items of a slot, each distinct item encoded once."""
  items, rows = np.unique(records.tuples().items[:, slot], return_inverse=True)
  texts = list(records.items(slot).texts(items))
  return scorer.encode(texts, name, progress=True)[rows.reshape(-1)]


def _primary(task: str, labels: np.ndarray, scores: np.ndarray) -> float:
  """The primary metric of probabilities [n], or [n, C]."""
  within = np.clip(scores.astype(np.float64), 1e-12, 1 - 1e-12)
  logits = np.log(within / (1 - within))[:, None] if scores.ndim == 1 else np.log(within)
  return metrics.evaluate(task, labels, logits)[metrics.primary_metric(task)]


def _head(name: str, scorer: PairScorer, batch: int = 1024) -> benchmark.Contender:
  """An exported head on vectors in memory."""
  shapes = list(scorer.vector_shapes.values())
  rng = np.random.default_rng(0)
  vectors = [rng.normal(size=(batch, *shape)).astype(np.float32) for shape in shapes]
  return benchmark.Contender(name, lambda: scorer.score(*vectors), batch)
