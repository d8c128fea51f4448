"""A page to try one or two exports on: a query is typed, stored texts are ranked live.

The page's own API is JSON: `/demo/info`, `/demo/rank`, `/demo/teacher`, `/demo/pair`.
"""

import dataclasses
import functools
import importlib.resources
import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from common import flags
from common.data import tables
from common.errors import InputError
from common.serving import export
from common.serving.local_server import json_tensors
from common.serving.local_server.errors import invalid
from common.serving.local_server.rest_api import Page
from common.serving.scorer import PairScorer, top
from common.serving.vectors import MANIFEST, VectorStore

_PARTS = 20_000  # texts up to which the head's parts of them are kept: faster, three times as large
_TEXTS = 200_000
_MOST = 500  # characters of a query
_FILES = {
  '/': ('page.html', 'text/html; charset=utf-8'),
  '/demo/page.css': ('page.css', 'text/css; charset=utf-8'),
  '/demo/page.js': ('page.js', 'text/javascript; charset=utf-8'),
}


@dataclasses.dataclass(frozen=True)
class DemoConfig:
  """What the page shows."""

  demo: bool = flags.option(False, 'serve a page to try exports on, at / of the REST port')
  demo_exports: tuple[str, ...] = flags.option((), 'one export, or two side by side')
  demo_texts: str = flags.option('', 'table of the texts to be ranked')
  demo_id_column: str = flags.option('id', 'column of their unique ids')
  demo_text_column: str = flags.option('text', 'column of the texts')
  demo_stores: tuple[str, ...] = flags.option(
    (), "folders of the texts' vectors, one an export; encoded there at the start where missing"
  )
  demo_teacher: str = flags.option(
    '', "the teacher's SavedModel (common.distillation.export_teacher), whose scores stand beside"
  )
  demo_runtime: str = flags.option('litert-int8', "what runs the page's heads")


class Demo:
  """The page's models and texts.

  Args:
    config: Which.

  Raises:
    InputError: If one cannot be read, or a store is another encoder's.
  """

  def __init__(self, config: DemoConfig):
    if not config.demo_texts or not 1 <= len(config.demo_exports) <= 2:
      raise InputError('--demo takes --demo_texts, and one or two --demo_exports')
    if len(config.demo_stores) != len(config.demo_exports):
      raise InputError('--demo_stores: a folder for each of --demo_exports')
    rows = [row for _, row in tables.rows(config.demo_texts)]
    self.texts = {row[config.demo_id_column]: row[config.demo_text_column] for row in rows}
    if not self.texts or len(self.texts) < len(rows) or len(rows) > _TEXTS:
      most = f'1 to {_TEXTS:,} texts, each with an id of its own'
      raise InputError(f'{config.demo_texts}: {len(rows):,} rows; the page takes {most}')
    self.models = [
      _Model(folder, store, config.demo_runtime, self.texts)
      for folder, store in zip(config.demo_exports, config.demo_stores, strict=True)
    ]
    self.teacher = export.load(config.demo_teacher) if config.demo_teacher else None

  def pages(self) -> dict[tuple[str, str], Page]:
    """The page, its files and its API."""
    found: dict[tuple[str, str], Page] = {}
    for path, (name, kind) in _FILES.items():
      content = importlib.resources.files(__name__).joinpath(name).read_bytes()
      found['GET', path] = functools.partial(_file, kind, content)
    found['GET', '/demo/info'] = lambda body: _json(self._info())
    answers = {'rank': self.rank, 'teacher': self.teacher_scores, 'pair': self.pair}
    for name, answer in answers.items():
      found['POST', f'/demo/{name}'] = functools.partial(_answer, answer)
    return found

  def rank(self, asked: dict[str, Any]) -> dict[str, Any]:
    """The best texts for {'query', 'model', 'top_k'}, and milliseconds by stage."""
    ids, scores, ms = self._model(asked).rank(_query(asked), _count(asked))
    results = [
      {'id': key, 'text': self.texts[key], 'score': float(score)}
      for key, score in zip(ids, scores, strict=True)
    ]
    return {'results': results, 'ms': ms}

  def teach(self, query: str, texts: list[str]) -> list[float]:
    """The teacher's scores of a query with texts."""
    assert self.teacher
    names = list(self.teacher.signatures['serving_default'].structured_input_signature[1])
    left, right = sorted(names)
    sides = {left: tf.constant([query] * len(texts)), right: tf.constant(texts)}
    return self.teacher.signatures['serving_default'](**sides)['score'].numpy().tolist()

  def teacher_scores(self, asked: dict[str, Any]) -> dict[str, Any]:
    """The teacher's scores of {'query', 'ids'}."""
    if not self.teacher:
      raise invalid('no teacher is served: --demo_teacher names one')
    ids = asked.get('ids')
    if not isinstance(ids, list) or not all(isinstance(key, str) for key in ids):
      raise invalid('"ids" is a list of texts\' ids')
    return {'scores': self.teach(_query(asked), [self._text(key) for key in ids])}

  def pair(self, asked: dict[str, Any]) -> dict[str, Any]:
    """Kept tokens of both sides of {'query', 'id', 'model'}, and the head's attention, by layer."""
    model = self._model(asked)
    if not model.attends:
      raise invalid(f'{model.name}: its head has no attention to show')
    return model.pair(_query(asked), self._text(str(asked.get('id'))))

  def _info(self) -> dict[str, Any]:
    return {
      'models': [model.name for model in self.models],
      'candidates': len(self.texts),
      'teacher': self.teacher is not None,
      'attention': all(model.attends for model in self.models),
    }

  def _model(self, asked: dict[str, Any]) -> '_Model':
    number = asked.get('model', 0)
    if number not in range(len(self.models)):
      raise invalid(f'"model": {number!r}; 0 to {len(self.models) - 1}')
    return self.models[number]

  def _text(self, key: str) -> str:
    if key not in self.texts:
      raise invalid(f'no text of id {key!r}')
    return self.texts[key]


class _Model:
  """An export, and the texts' vectors in memory."""

  def __init__(self, folder: str, store: str, runtime: str, texts: dict[str, str]):
    self.name = os.path.basename(os.path.dirname(os.path.abspath(folder)))
    self._scorer = PairScorer.load(folder, runtime)
    if len(self._scorer.slots) != 2 or self._scorer.outputs != 1:
      raise InputError(f'{folder}: --demo takes models of two texts and one score')
    side = self._scorer.slots[1]
    if not os.path.exists(os.path.join(store, MANIFEST)):
      self._scorer.encode_to(store, iter(texts.items()), side, dtype='int8', total=len(texts))
    opened = VectorStore(store)
    if opened.fingerprint != self._scorer.fingerprint:
      raise InputError(f'{store}: vectors of another encoder than {folder}; name a new folder')
    self._keys = list(texts)
    self._vectors = opened.vectors(opened.rows(self._keys))
    few = len(texts) <= _PARTS
    self._parts = self._scorer.parts(self._vectors, side) if few else None
    self._lock = threading.Lock()
    self.attends = self._scorer.attends
    self.rank('warm', 1)

  def rank(self, query: str, count: int) -> tuple[list[str], np.ndarray, dict[str, float]]:
    """(ids, scores, milliseconds of 'encode', 'head', 'sort')."""
    left = self._scorer.slots[0]
    with self._lock:
      started = time.perf_counter()
      vectors = self._scorer.encode([query], left)
      encoded = time.perf_counter()
      part = self._scorer.parts(vectors, left)
      scores = self._scorer.one_to_many(vectors, part, self._vectors, self._parts)
      scored = time.perf_counter()
    order = top(scores, count)
    ids = [self._keys[row] for row in order]
    ends = (encoded - started, scored - encoded, time.perf_counter() - scored)
    ms = {name: 1e3 * t for name, t in zip(('encode', 'head', 'sort'), ends, strict=True)}
    return ids, scores[order], ms

  def pair(self, query: str, text: str) -> dict[str, Any]:
    """As `Demo.pair`."""
    with self._lock:
      (left, right), attention = self._scorer.attention(query, text)
    tokens = [piece or '·' for piece in (*left, *right)]
    return {
      'left': tokens[: len(left)],
      'right': tokens[len(left) :],
      'attention': attention.round(4).tolist(),
    }


def _file(kind: str, content: bytes, body: bytes) -> tuple[str, bytes]:
  del body
  return kind, content


def _answer(answer: Callable[[dict[str, Any]], Any], body: bytes) -> tuple[str, bytes]:
  return _json(answer(json_tensors.parsed(body, '"query"')))


def _json(value: Any) -> tuple[str, bytes]:
  return 'application/json', json.dumps(value).encode()


def _query(asked: dict[str, Any]) -> str:
  query = asked.get('query')
  if not isinstance(query, str) or not query.strip() or len(query) > _MOST:
    raise invalid(f'"query" is a text of 1 to {_MOST} characters')
  return query


def _count(asked: dict[str, Any]) -> int:
  count = asked.get('top_k', 10)
  if not isinstance(count, int) or not 1 <= count <= 100:
    raise invalid('"top_k" is a number from 1 to 100')
  return count
