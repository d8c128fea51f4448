"""The HTTP of a rerank server: its paths, and requests that take turns."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from prometheus_client import (
  CONTENT_TYPE_LATEST,
  CollectorRegistry,
  Counter,
  Gauge,
  Histogram,
  generate_latest,
)
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from common import __version__
from common.errors import InputError
from common.rerank_server import page
from common.rerank_server.bounds import Bounded
from common.rerank_server.ranking import Ranking, Work
from common.rerank_server.schema import (
  Models,
  RerankAnswer,
  RerankRequest,
  SearchAnswer,
  SearchRequest,
)

_LONGEST = 1000  # characters of an error: names in it are the sender's
_ABOUT = """Ranks documents for a query. A document that was seen before is not encoded again:
`usage.encoded_documents` says how many were new."""
_GONE = 499  # the status of a request whose client did not wait


def application(ranking: Ranking, keys: Sequence[str] = ()) -> Bounded:
  """The server as an ASGI application.

  Args:
    ranking: The model, and what it ranks.
    keys: Keys, one of which a request must carry; none: all may ask.
  """
  of_keys = [Depends(HTTPBearer(auto_error=False))] if keys else []  # for the page of the API
  app = FastAPI(title='DiPair rerank server', version=__version__, description=_ABOUT)
  thread = ThreadPoolExecutor(1, 'ranking')
  metrics = _Metrics(ranking)

  async def answered(work: Work, request: Request) -> Response:
    """Runs a request's steps, each in its turn with those of the other requests."""
    started, loop = time.perf_counter(), asyncio.get_running_loop()
    done = False
    with metrics.waiting.track_inprogress():
      while not done:
        done, answer = await loop.run_in_executor(thread, _step, work)
        if not done and await request.is_disconnected():
          return Response(status_code=_GONE)
    metrics.count(request.url.path, time.perf_counter() - started, answer)
    return Response(to_json(answer), media_type='application/json')

  @app.post('/v1/rerank', response_model=RerankAnswer, dependencies=of_keys)
  @app.post('/v2/rerank', response_model=RerankAnswer, dependencies=of_keys)
  async def rerank(asked: RerankRequest, request: Request) -> Response:
    """Ranks documents for a query, best first."""
    return await answered(ranking.rerank(asked), request)

  @app.post('/v1/search', response_model=SearchAnswer, dependencies=of_keys)
  async def search(asked: SearchRequest, request: Request) -> Response:
    """Ranks the stored documents that a first stage finds nearest."""
    return await answered(ranking.search(asked), request)

  @app.get('/v1/models', dependencies=of_keys)
  async def models() -> Models:
    """The served model."""
    return Models(data=[ranking.model()])

  @app.get('/healthz')
  async def healthz() -> dict[str, str]:
    """Answers while the server does."""
    return {'status': 'ok'}

  @app.get('/metrics', dependencies=of_keys)
  async def shown() -> Response:
    """Prometheus' metrics."""
    return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

  @app.exception_handler(InputError)
  async def refused(_: Request, error: InputError) -> JSONResponse:
    return JSONResponse({'message': str(error)[:_LONGEST]}, 400)

  @app.exception_handler(RequestValidationError)
  async def wrong(_: Request, error: RequestValidationError) -> JSONResponse:
    first = error.errors()[0]
    where = '.'.join(str(part) for part in first['loc'][1:])
    message = f'{where}: {first["msg"]}' if where else first['msg']
    return JSONResponse({'message': message[:_LONGEST]}, 422)

  @app.exception_handler(HTTPException)
  async def failed(request: Request, error: HTTPException) -> JSONResponse:
    message = f'{request.method} {request.url.path}: {error.detail}'
    return JSONResponse({'message': message[:_LONGEST]}, error.status_code)

  @app.exception_handler(Exception)
  async def broken(_: Request, __: Exception) -> JSONResponse:  # it is in the log too
    return JSONResponse({'message': 'a fault of the server; see its log'}, 500)

  app.router.routes.extend(page.routes())
  return Bounded(app, keys)


class _Metrics:
  """Counts for `/metrics`."""

  def __init__(self, ranking: Ranking):
    self.registry = CollectorRegistry()
    of: dict[str, Any] = {'registry': self.registry}
    self.waiting = Gauge('dipair_requests_in_work', 'requests that are in work or wait', **of)
    self._seconds = Histogram('dipair_seconds', 'time of an answer', ['path'], **of)
    self._documents = Counter('dipair_documents', 'documents ranked', ['path'], **of)
    self._encoded = Counter('dipair_documents_encoded', 'documents encoded', ['path'], **of)
    kept = Gauge('dipair_documents_in_memory', 'documents whose vectors are in memory', **of)
    kept.set_function(lambda: len(ranking.cache))

  def count(self, path: str, seconds: float, answer: dict[str, Any]) -> None:
    """Counts an answer."""
    self._seconds.labels(path).observe(seconds)
    self._documents.labels(path).inc(answer['usage']['documents'])
    self._encoded.labels(path).inc(answer['usage']['encoded_documents'])


def _step(work: Work) -> tuple[bool, dict[str, Any]]:
  """Whether work is done after its next step, and its answer."""
  try:
    next(work)
  except StopIteration as stopped:
    return True, stopped.value
  return False, {}
