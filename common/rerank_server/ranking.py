"""The work of a rerank server: documents' vectors from the cache or the encoder, then the head.

A request's work is a generator, which gives way after each step, so that requests take turns.
Answers are plain values of the shape that `schema` describes: a thousand objects would take longer
than the head does.
"""

import time
import uuid
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from common.data.texts import blake2b
from common.errors import InputError
from common.rerank_server import meaning
from common.rerank_server.cache import VectorCache, stored
from common.rerank_server.schema import Model, RerankRequest, SearchRequest
from common.scoring.exported import Export
from common.scoring.runtime import Vectors
from common.scoring.scorer import PairScorer
from common.vectors.store import VectorStore

if TYPE_CHECKING:
  from common.vectors.neighbors import Index

Work = Generator[None, None, dict[str, Any]]  # the steps to an answer
_KEY_BYTES = 16  # of a digest for which nobody can make a second text
_STEP = 256  # texts that are encoded in a turn


class Ranking:
  """Ranks documents for queries.

  Args:
    name: The model's name in answers.
    export: The scorer's.
    scorer: A model of two texts and one score.
    cache: Vectors of documents that were seen.
    store: Vectors by id, of this model's right side.
    index: The store's first stage.
    texts: The store's texts by id, where they are known.
  """

  def __init__(
    self,
    name: str,
    export: Export,
    scorer: PairScorer,
    cache: VectorCache,
    store: VectorStore | None = None,
    index: 'Index | None' = None,
    texts: Mapping[str, str] | None = None,
  ):
    self.name, self.scorer, self.cache = name, scorer, cache
    self._description, self._meaning = export.description, meaning.of_score(export)
    self._store, self._index, self._texts = store, index, texts or {}

  def model(self) -> Model:
    """The served model, as `/v1/models` describes it."""
    weight = self.scorer.first_stage_weight
    return Model(
      id=self.name,
      kind=self._description['kind'],
      task=self._description['task'],
      vector_shape=list(self.scorer.vector_shapes[self.scorer.slots[1]]),
      stored=len(self._store or ()),
      search=self._index is not None,
      texts=bool(self._texts),
      first_stage=weight.name if weight else '',
      meaning=self._meaning,
    )

  def rerank(self, asked: RerankRequest) -> Work:
    """Ranks the documents of a request: the steps to a `RerankAnswer`."""
    summed: dict[str, Any] = {}
    if first := asked.first_stage:
      self.scorer.weight_of(first.name)  # refused before documents are encoded
      summed = {'first_stage_scores': first.scores, 'first_stage_name': first.name}
    if asked.documents is not None:
      texts = [given if isinstance(given, str) else given.text for given in asked.documents]
      vectors, encoded = yield from self._vectors(texts)
    else:
      ids, store = asked.document_ids or [], self._stored()
      vectors, encoded = store.stored(store.rows(ids)), 0
    ranked = self.scorer.rank(asked.query, vectors, asked.top_n or len(vectors), **summed)
    results: list[dict[str, Any]] = [
      {'index': row, 'relevance_score': score} for row, score in ranked
    ]
    if asked.return_documents:
      for result in results:
        row = result['index']
        result['document'] = (
          self._document(ids[row]) if asked.document_ids else {'text': texts[row]}
        )
    return self._answer(results, len(vectors), encoded)

  def search(self, asked: SearchRequest) -> Work:
    """Ranks the nearest documents of the store: one step to a `SearchAnswer`."""
    yield from ()
    store = self._stored()
    if self._index is None:
      raise InputError('no search: the server was started without --index')
    started = time.perf_counter()
    query = self.scorer.encode([asked.query], self.scorer.slots[0])
    encoded = time.perf_counter()
    near = self._index.nearest(query, max(asked.shortlist, asked.top_n))[0]
    near = near[near >= 0]
    found = time.perf_counter()
    ranked = self.scorer.rank(query[0], store, max(1, len(near)), rows=np.sort(near))
    ended = time.perf_counter()
    scores, places = dict(ranked), {row: place for place, row in enumerate(near.tolist(), 1)}

    def shown(rows: list[int]) -> list[dict[str, Any]]:
      results: list[dict[str, Any]] = [
        {'id': key, 'relevance_score': scores[row], 'first_stage_rank': places[row]}
        for row, key in zip(rows, store.ids(rows), strict=True)
      ]
      if asked.return_documents:
        for result in results:
          result['document'] = self._document(result['id'])
      return results

    answer = self._answer(shown([row for row, _ in ranked[: asked.top_n]]), len(near), 0)
    return {
      **answer,
      'first_stage': shown(near[: asked.top_n].tolist()),
      'ms': {
        'encode': 1e3 * (encoded - started),
        'first_stage': 1e3 * (found - encoded),
        'head': 1e3 * (ended - found),
      },
    }

  def _vectors(self, texts: list[str]) -> Generator[None, None, tuple[Vectors, int]]:
    """Vectors of texts, each distinct one encoded once; and how many were encoded."""
    try:
      every = [blake2b(text, _KEY_BYTES) for text in texts]
    except UnicodeEncodeError as error:  # half of a surrogate pair is no character
      raise InputError(f'documents: not a text: {error}') from error
    once = dict(zip(every, texts, strict=True))
    keys, numbers = list(once), {key: number for number, key in enumerate(once)}
    rows = np.empty(len(keys), self.cache.row)
    missing = self.cache.fill(keys, rows)
    missing.sort(key=lambda number: len(once[keys[number]]))  # alike lengths together pad least
    for start in range(0, len(missing), _STEP):
      if start:
        yield
      step = missing[start : start + _STEP]
      new = [keys[number] for number in step]
      vectors = self.scorer.encode([once[key] for key in new], self.scorer.slots[1])
      rows[step] = self.cache.add(new, vectors)
    rows = rows if len(keys) == len(every) else rows[[numbers[key] for key in every]]
    return stored(rows), len(missing)

  def _answer(self, results: list[dict[str, Any]], documents: int, encoded: int) -> dict[str, Any]:
    usage = {'documents': documents, 'encoded_documents': encoded}
    return {'id': uuid.uuid4().hex, 'model': self.name, 'results': results, 'usage': usage}

  def _stored(self) -> VectorStore:
    if self._store is None:
      raise InputError('no stored documents: the server was started without --store')
    return self._store

  def _document(self, key: str) -> dict[str, str]:
    return {'id': key, 'text': self._texts[key]} if key in self._texts else {'id': key}
