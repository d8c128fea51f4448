"""Ranking anew with a scorer: documents' vectors once, then a head call a query.

With a weight for the first stage its scores are summed with the logits (`scoring.first_stage`).

Dimensions: n lines of the first stage's run.
"""

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np
from tqdm import tqdm

from common.data import trec
from common.data.trec import Pairs
from common.errors import InputError
from common.evaluation.ranking import Candidates
from common.rerank import texts
from common.rerank.first_stage import fitted
from common.scoring.first_stage import FirstStageWeight
from common.scoring.scorer import PairScorer
from common.vectors.store import VectorStore

_QUERIES = 1024  # encoded at a time
_READ = 8192  # documents of a query whose vectors are read at a time


@dataclasses.dataclass(frozen=True)
class FirstStage:
  """A run, and the documents of each query that are ranked anew.

  Attributes:
    run: The run.
    depth: Documents of a query that are ranked anew, the best ones.
  """

  run: Pairs
  depth: int

  @functools.cached_property
  def lists(self) -> list[np.ndarray]:
    """Lines of each query, best first, in the order of the queries' first lines.

    Equal scores are ordered as trec_eval does: in float32, the higher id first.
    """
    run = self.run
    order = np.lexsort((-run.ties[run.document], -run.values.astype(np.float32), run.query))
    return np.split(order, np.flatnonzero(np.diff(run.query[order])) + 1)

  @functools.cached_property
  def reranked(self) -> np.ndarray:
    """Numbers of the documents that are ranked anew for some query."""
    return np.unique(self.run.document[np.concatenate([of[: self.depth] for of in self.lists])])


def logits_of(
  scorer: PairScorer, query: np.ndarray, vectors: np.ndarray | VectorStore, rows: np.ndarray
) -> np.ndarray:
  """Logits of a query [1, *vector shape] with rows [n] of vectors, read block by block: [n]."""
  part, found = scorer.parts(query, scorer.slots[0]), []
  for block in np.split(rows, range(_READ, len(rows), _READ)):
    given = vectors.stored(block) if isinstance(vectors, VectorStore) else vectors[block]
    found.append(scorer.one_to_many(query, part, given, None)[0].astype(np.float64))
  return np.concatenate(found)


class Reranker:
  """A scorer and the vectors of a run's documents.

  Args:
    scorer: Scores pairs.
    first: The run.
    vectors: Vectors of the documents, or a store that has them.
    rows: [documents] int, the row of each in `vectors`; -1 where it is not ranked anew.

  Attributes:
    weight: The first stage's, if its scores are summed with the logits.
  """

  def __init__(
    self,
    scorer: PairScorer,
    first: FirstStage,
    vectors: np.ndarray | VectorStore,
    rows: np.ndarray,
  ):
    self.scorer, self.first, self.vectors, self.rows = scorer, first, vectors, rows
    self.weight: FirstStageWeight | None = None

  @classmethod
  def of_texts(cls, scorer: PairScorer, first: FirstStage, documents: list[str]) -> 'Reranker':
    """Encodes the documents that are ranked anew; their vectors are held in memory."""
    needed = first.reranked
    vectors = scorer.encode([documents[n] for n in needed], scorer.slots[-1], progress=True)
    rows = np.full(len(documents), -1)
    rows[needed] = np.arange(len(needed))
    return cls(scorer, first, vectors, rows)

  @classmethod
  def of_store(cls, scorer: PairScorer, first: FirstStage, folder: str) -> 'Reranker':
    """Finds the documents that are ranked anew in a store; one that is not there is refused."""
    store, side = VectorStore(folder), scorer.slots[-1]
    if (store.fingerprint, store.side) != (scorer.fingerprints[side], side):
      raise InputError(
        f'--store={folder}: {store.side} vectors of encoder {store.fingerprint}; the export needs '
        f'{side} ones of {scorer.fingerprints[side]}'
      )
    rows = store.find(first.run.documents)
    if len(missing := first.reranked[rows[first.reranked] < 0]):
      texts.refuse_missing(first.run, 'document', int(missing[0]), folder)
    return cls(scorer, first, store, rows)

  def write(self, path: str, queries: list[str]) -> np.ndarray:
    """Writes the reranked run, whole or not at all, query by query.

    Args:
      path: The file.
      queries: Texts, by their numbers in the run.

    Returns:
      The scores of the run's lines, [n] float64.
    """
    run = self.first.run
    scores = np.zeros(len(run.query))

    def ranked() -> Iterator[tuple[list[str], list[float]]]:
      for lines, query in self._encoded(queries):
        scores[lines] = self._scores(query, lines)
        own = lines[np.argsort(-scores[lines])]
        yield [run.documents[number] for number in run.document[own]], scores[own].tolist()

    with tqdm(ranked(), total=len(self.first.lists), desc='rerank', unit=' queries') as rows:
      trec.write_run(path, run.queries, rows, 'reranked')
    return scores

  def fit(self, queries: list[str], judged: tuple[np.ndarray, Candidates]) -> FirstStageWeight:
    """The first stage's weight by judged lines, as `effect.judgements` gives them."""
    lines, candidates = judged
    run, logits = self.first.run, np.full(len(self.first.run.query), -np.inf)
    every = tqdm(self._encoded(queries), total=len(self.first.lists), desc='fit', unit=' queries')
    for own, query in every:
      anew = own[: self.first.depth]
      logits[anew] = self._logits(query, anew)
    return fitted(run.name, candidates, logits[lines], run.values[lines])

  def _encoded(self, queries: list[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each query's lines, best first, and its vectors."""
    lists = self.first.lists
    for start in range(0, len(lists), _QUERIES):
      block = lists[start : start + _QUERIES]
      texts_of = [queries[self.first.run.query[of[0]]] for of in block]
      yield from zip(block, self.scorer.encode(texts_of, self.scorer.slots[0]), strict=True)

  def _logits(self, query: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Logits of a query's lines [n], before calibration."""
    documents = self.first.run.document[lines]
    found = logits_of(self.scorer, query[None], self.vectors, self.rows[documents])
    if (wrong := np.isnan(found)).any():
      name = self.first.run.documents[documents[wrong][0]]
      raise InputError(f'document {name!r}: its score is NaN')
    return found

  def _scores(self, query: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """New scores of a query's lines, no two alike; those beyond the depth fall from -1.

    Logits order documents that float32 gives one score, and a reader sees scores alone: each is at
    least one float32 below the one before. Of equal logits the first stage's order stays.
    """
    anew = lines[: self.first.depth]
    found = len(anew) - np.arange(1.0, 1 + len(lines))
    logits = self._logits(query, anew)
    if self.weight:
      logits = logits + self.weight.terms(self.first.run.values[anew])
    scores = self.scorer.calibrated(logits)
    above = np.float32(np.inf)
    for place in np.argsort(-logits, kind='stable'):
      above = min(np.float32(scores[place]), np.nextafter(above, np.float32(-np.inf)))
      found[place] = above
    return found
