"""Ranking anew with a scorer: documents' vectors once, then a head call a query."""

from collections.abc import Iterator

import numpy as np
from tqdm import tqdm

from common.data import trec
from common.data.trec import Pairs
from common.errors import InputError
from common.rerank import texts
from common.scoring.scorer import PairScorer
from common.vectors.store import VectorStore

_QUERIES = 1024  # encoded at a time


class Reranker:
  """A scorer and the vectors of a run's documents.

  Args:
    scorer: What scores pairs.
    vectors: Vectors of the documents, or a store that has them.
    rows: [documents] int, their rows in it; -1 of those that are not asked for.
  """

  def __init__(self, scorer: PairScorer, vectors: np.ndarray | VectorStore, rows: np.ndarray):
    self.scorer, self.vectors, self.rows = scorer, vectors, rows

  @classmethod
  def of_texts(cls, scorer: PairScorer, documents: list[str], run: Pairs, depth: int) -> 'Reranker':
    """Encodes a run's documents, those among a query's first `depth`; their vectors are held in memory."""
    needed = reranked(run, depth)
    vectors = scorer.encode([documents[n] for n in needed], scorer.slots[-1], progress=True)
    rows = np.full(len(documents), -1)
    rows[needed] = np.arange(len(needed))
    return cls(scorer, vectors, rows)

  @classmethod
  def of_store(cls, scorer: PairScorer, folder: str, run: Pairs, depth: int) -> 'Reranker':
    """Finds the documents in a store; one among a query's first `depth` that is not there is refused."""
    store, side = VectorStore(folder), scorer.slots[-1]
    if (store.fingerprint, store.side) != (scorer.fingerprints[side], side):
      raise InputError(
        f'--store={folder}: {store.side} vectors of encoder {store.fingerprint}; the export needs '
        f'{side} ones of {scorer.fingerprints[side]}'
      )
    rows = store.find(run.documents)
    needed = reranked(run, depth)
    if len(missing := needed[rows[needed] < 0]):
      texts.refuse_missing(run, 'document', int(missing[0]), folder)
    return cls(scorer, store, rows)

  def write(self, path: str, run: Pairs, queries: list[str], depth: int) -> np.ndarray:
    """Writes the reranked run, whole or not at all, query by query.

    Args:
      path: The file.
      run: The first stage's.
      queries: Texts, by their numbers in the run.
      depth: Documents of a query that are ranked anew.

    Returns:
      The scores of the run's lines, [n] float64.
    """
    lists = _lists(run)
    scores = np.zeros(len(run.query))
    bar = tqdm(total=len(lists), desc='rerank', unit=' queries')

    def ranked() -> Iterator[tuple[list[str], list[float]]]:
      for start in range(0, len(lists), _QUERIES):
        block = lists[start : start + _QUERIES]
        asked = [queries[run.query[lines[0]]] for lines in block]
        for lines, query in zip(
          block, self.scorer.encode(asked, self.scorer.slots[0]), strict=True
        ):
          scores[lines] = self._scores(query, run.document[lines[:depth]], len(lines))
          own = lines[np.argsort(-scores[lines])]
          yield [run.documents[number] for number in run.document[own]], scores[own].tolist()
          bar.update()

    with bar:
      # Numbers rise with the queries' first lines, so lists are in the run's order.
      trec.write_run(path, run.queries, ranked(), 'reranked')
    return scores

  def _scores(self, query: np.ndarray, documents: np.ndarray, count: int) -> np.ndarray:
    """New scores of a query's first documents; those of the rest fall from -1: [count], no two alike.

    Logits order documents that float32 gives one score, and a reader sees scores alone: each is at
    least one float32 below the one before. Of equal logits the first stage's order stays.
    """
    found = -np.arange(1.0, 1 + count) + len(documents)
    rows = self.rows[documents]
    places = {int(row): place for place, row in enumerate(rows)}
    above = np.float32(np.inf)
    for row, score in self.scorer.rank(query, self.vectors, len(rows), rows=rows):
      above = min(np.float32(score), np.nextafter(above, np.float32(-np.inf)))
      found[places[row]] = above
    return found


def reranked(run: Pairs, depth: int) -> np.ndarray:
  """Numbers of the documents that are among a query's first `depth`."""
  return np.unique(np.concatenate([run.document[lines[:depth]] for lines in _lists(run)]))


def _lists(run: Pairs) -> list[np.ndarray]:
  """A query's lines, best first; equal scores as trec_eval has them, in float32, the higher id first."""
  order = np.lexsort((-run.ties()[run.document], -run.values.astype(np.float32), run.query))
  return np.split(order, np.flatnonzero(np.diff(run.query[order])) + 1)
