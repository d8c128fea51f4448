"""The page: its files, and the JSON API that it calls."""

import dataclasses
import importlib.resources
from collections.abc import Callable
from typing import Any

from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Request, Response

from common import flags
from common.data import tables
from common.errors import InputError
from common.page.ranker import Ranker
from common.scoring import exported, runtimes
from common.serving.web import json_object, json_response

_TEXTS = 200_000
_MOST = 500  # characters of a query
_MOST_SHOWN = 100  # texts of an answer
_FILES = {
  '/': ('page.html', 'text/html; charset=utf-8'),
  '/demo/page.css': ('page.css', 'text/css; charset=utf-8'),
  '/demo/page.js': ('page.js', 'text/javascript; charset=utf-8'),
}


@dataclasses.dataclass(frozen=True)
class PageConfig:
  """Exports and texts that the page shows, and its address."""

  export_dir: tuple[str, ...] = flags.option((), "a run's export, or two side by side")
  input: str = flags.option('', 'table of the texts to be ranked')
  id_column: str = flags.option('id', 'column of their unique ids')
  text_column: str = flags.option('text', 'column of the texts')
  store: tuple[str, ...] = flags.option(
    (), "folder of the texts' vectors, one an export; encoded there at the start where missing"
  )
  teacher: str = flags.option(
    '', "the teacher's SavedModel (common.distillation.export_teacher), whose scores stand beside"
  )
  runtime: str = flags.option('litert-int8', 'runtime of the heads', tuple(runtimes.HEADS))
  encoder_runtime: str = flags.option(
    'litert-int8', 'runtime of the encoders', tuple(runtimes.ENCODERS)
  )
  host: str = flags.option('127.0.0.1', 'address that is listened to; 0.0.0.0: all')
  port: int = flags.option(8501, 'port of the page; 0: any that is free', bounds=(0, 65_535))

  def __post_init__(self):
    if len(self.export_dir) > 2 or len(self.store) != len(self.export_dir):
      raise InputError('--export_dir: one export or two, and --store: a folder for each of them')


class RankingPage:
  """The page's models and texts.

  Args:
    config: Which.

  Raises:
    InputError: If one is not named or cannot be read, or a store is another encoder's.
  """

  def __init__(self, config: PageConfig):
    if not config.export_dir or not config.input:
      raise InputError('--export_dir, --store and --input are needed')
    self._texts = _texts(config)
    self._rankers = [
      Ranker(folder, store, config.runtime, config.encoder_runtime, self._texts)
      for folder, store in zip(config.export_dir, config.store, strict=True)
    ]
    self._teacher = exported.load(config.teacher) if config.teacher else None
    self._posts: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
      '/demo/rank': self._rank,
      '/demo/teacher': self._teacher_scores,
      '/demo/pair': self._pair,
    }

  def answer(self, request: Request) -> Response:
    """The page, one of its files, or its API's answer; raises InputError and NotFound."""
    method, path = request.method, request.path
    if (method, path) == ('GET', '/demo/info'):
      return json_response(self._info())
    if method == 'GET' and path in _FILES:
      name, content_type = _FILES[path]
      content = (importlib.resources.files(__package__) / name).read_bytes()
      return Response(content, content_type=content_type)
    if method == 'POST' and path in self._posts:
      return json_response(self._posts[path](json_object(request)))
    raise NotFound(f'{method} {path}: no such path; the page is at /')

  def _info(self) -> dict[str, Any]:
    return {
      'models': [ranker.name for ranker in self._rankers],
      'candidates': len(self._texts),
      'teacher': self._teacher is not None,
      'attention': all(ranker.attends for ranker in self._rankers),
    }

  def _rank(self, asked: dict[str, Any]) -> dict[str, Any]:
    """The best texts for {'query', 'model', 'top_k'}, and milliseconds by stage."""
    best, ms = self._ranker(asked).rank(_query(asked), _count(asked))
    results = [{'id': key, 'text': self._texts[key], 'score': score} for key, score in best]
    return {'results': results, 'ms': ms}

  def _teacher_scores(self, asked: dict[str, Any]) -> dict[str, Any]:
    """The teacher's scores of {'query', 'ids'}."""
    if not self._teacher:
      raise InputError('no teacher is served: --teacher names one')
    ids = asked.get('ids')
    if not isinstance(ids, list) or not 1 <= len(ids) <= _MOST_SHOWN:
      raise InputError(f'"ids" is a list of 1 to {_MOST_SHOWN} texts\' ids')
    import tensorflow as tf  # the teacher alone needs it

    query, texts = _query(asked), [self._text(str(key)) for key in ids]
    score = self._teacher.signatures['serving_default']
    left, right = sorted(score.structured_input_signature[1])
    sides = {left: tf.constant([query] * len(texts)), right: tf.constant(texts, tf.string)}
    return {'scores': score(**sides)['score'].numpy().tolist()}

  def _pair(self, asked: dict[str, Any]) -> dict[str, Any]:
    """Kept tokens of both sides of {'query', 'id', 'model'}, and the head's attention, by layer."""
    return self._ranker(asked).pair(_query(asked), self._text(str(asked.get('id'))))

  def _ranker(self, asked: dict[str, Any]) -> Ranker:
    number = asked.get('model', 0)
    if not isinstance(number, int) or not 0 <= number < len(self._rankers):
      raise InputError(f'"model": {number!r}; 0 to {len(self._rankers) - 1}')
    return self._rankers[number]

  def _text(self, key: str) -> str:
    if key not in self._texts:
      raise InputError(f'no text of id {key!r}')
    return self._texts[key]


def _texts(config: PageConfig) -> dict[str, str]:
  """Texts by id; a table of too many is refused at the row that is one too many."""
  texts: dict[str, str] = {}
  columns = config.id_column, config.text_column
  for number, row in tables.rows(config.input, columns=columns):
    if len(texts) == _TEXTS:
      raise InputError(f'{config.input}:{number}: the page takes {_TEXTS:,} texts at the most')
    if (key := row[config.id_column]) in texts:
      raise InputError(f'{config.input}:{number}: id {key!r} stands twice; each text has its own')
    texts[key] = row[config.text_column]
  if not texts:
    raise InputError(f'{config.input}: no rows; the page takes 1 to {_TEXTS:,} texts')
  return texts


def _query(asked: dict[str, Any]) -> str:
  query = asked.get('query')
  if not isinstance(query, str) or not query.strip() or len(query) > _MOST:
    raise InputError(f'"query" is a text of 1 to {_MOST} characters')
  if query != query.encode(errors='ignore').decode():
    raise InputError('"query" holds half of a surrogate pair, which is no character')
  return query


def _count(asked: dict[str, Any]) -> int:
  count = asked.get('top_k', 10)
  if not isinstance(count, int) or not 1 <= count <= _MOST_SHOWN:
    raise InputError(f'"top_k" is a number from 1 to {_MOST_SHOWN}')
  return count
