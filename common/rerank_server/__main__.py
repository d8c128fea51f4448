"""Serves reranking over HTTP, as clients of Cohere, Jina and vLLM ask for it.

  python -m common.rerank_server --export=runs/mine/export --cache_dir=cache
  curl localhost:8000/v1/rerank -H 'Content-Type: application/json' -d \\
    '{"query": "nike shoes", "documents": ["Nike Air, white", "a red throw"]}'

A document that was seen is not encoded again. http://localhost:8000/docs shows all requests.
"""

import dataclasses
import os
import socket

from common import extras

with extras.needed('serve'):
  import fastapi  # noqa: F401
  import prometheus_client  # noqa: F401
  import uvicorn

from common import flags
from common.data import tables
from common.errors import InputError
from common.rerank_server.app import application
from common.rerank_server.bounds import keys_of
from common.rerank_server.cache import VectorCache
from common.rerank_server.ranking import Ranking
from common.scoring import exported, hub, runtimes
from common.scoring.scorer import PairScorer
from common.vectors import manifest
from common.vectors.store import VectorStore


@dataclasses.dataclass(frozen=True)
class ServeConfig:
  """The export, what it ranks, and the address."""

  export: str = flags.option('', "a run's export, an archive, hf://org/name, or medquad")
  cache_dir: str = flags.option(
    '', "folder in which documents' vectors stay, shared by servers; empty: memory alone"
  )
  cache_mb: int = flags.option(64, "memory for documents' vectors, in MB", bounds=(1, 1 << 20))
  store: str = flags.option('', 'vector store, whose documents requests may name by id')
  input: str = flags.option(
    '',
    "table of the store's texts, for answers; what the store lacks is encoded at the start",
  )
  id_column: str = flags.option('id', 'column of their unique ids')
  text_column: str = flags.option('text', 'column of the texts')
  index: str = flags.option('', "file of the store's index, made where missing: /v1/search")
  api_key_file: str = flags.option('', 'file of keys, one a line, one of which a request carries')
  host: str = flags.option('127.0.0.1', 'address that is listened to; 0.0.0.0: all')
  port: int = flags.option(8000, 'its port; 0: any that is free', bounds=(0, 65_535))
  runtime: str = flags.option('litert-int8', 'runtime of the head', tuple(runtimes.RUNTIMES))
  encoder_runtime: str = flags.option(
    'litert-int8', 'runtime of the encoders', tuple(runtimes.RUNTIMES)
  )

  def __post_init__(self):
    for name in ('input', 'index'):
      if getattr(self, name) and not self.store:
        raise InputError(f'--{name}={getattr(self, name)}: --store is needed with it')


def ranking_of(config: ServeConfig) -> Ranking:
  """The model, and what it ranks.

  Raises:
    InputError: If a file is missing, or does not fit the export.
  """
  if not config.export:
    raise InputError('--export is needed')
  if config.index:  # before texts are encoded
    os.makedirs(os.path.dirname(config.index) or '.', exist_ok=True)
  export = exported.Export(config.export)
  head = runtimes.load_head(export, export.runtime(config.runtime))
  name = export.runtime(config.encoder_runtime, 'encoder_runtime')
  scorer = PairScorer(export, runtimes.load_encoder(export, name, paired=True), head)
  scorer.check_ranks_texts(config.export)
  side = scorer.slots[1]
  path = ''
  if config.cache_dir:  # a file for each encoder and side
    path = os.path.join(config.cache_dir, f'{scorer.fingerprints[side][:32]}-{side}.sqlite')
  cache = VectorCache(scorer.vector_shapes[side], config.cache_mb << 20, path)
  texts = _texts(config)
  store = _store(config, scorer, texts)
  index = None
  if store and config.index:
    from common.vectors.neighbors import Index

    index = Index.of_store(store, config.index)
  ranking = Ranking(model_name(config.export), export, scorer, cache, store, index, texts)
  scorer.rank('first', scorer.encode(['first'], side))  # what the first request would wait for
  return ranking


def main(config: ServeConfig) -> None:
  """Serves until SIGTERM or SIGINT; what was begun is answered."""
  keys = keys_of(config.api_key_file) if config.api_key_file else []
  with _listening(config) as listening:
    app = application(ranking_of(config), keys)
    server = uvicorn.Server(uvicorn.Config(app, log_level='warning', timeout_keep_alive=60))
    print(f'http://{config.host}:{listening.getsockname()[1]}', flush=True)
    server.run([listening])


def _listening(config: ServeConfig) -> socket.socket:
  """The socket of the address, which requests wait at until the model is loaded."""
  family = socket.AF_INET6 if ':' in config.host else socket.AF_INET
  try:
    listening = socket.create_server((config.host, config.port), family=family, backlog=1024)
    # asyncio sets it only where a socket names its protocol; without it an answer waits for 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
  except OSError as error:
    where = f'--host={config.host} --port={config.port}'
    raise InputError(f'{where}: cannot be listened to: {os.strerror(error.errno or 0)}') from error


def model_name(export: str) -> str:
  """The name of an export in answers: its run's, or the hub's."""
  if export.startswith(hub.PREFIX):
    return export.removeprefix(hub.PREFIX)
  run, name = os.path.split(os.path.abspath(export))
  return (name == 'export' and os.path.basename(run)) or name


def _texts(config: ServeConfig) -> dict[str, str]:
  """The store's texts by id."""
  texts: dict[str, str] = {}
  if config.input:
    columns = config.id_column, config.text_column
    for number, row in tables.rows(config.input, columns=columns):
      if (key := row[config.id_column]) in texts:
        raise InputError(f'{config.input}:{number}: id {key!r} stands twice; each text has its own')
      texts[key] = row[config.text_column]
    if not texts:
      raise InputError(f'{config.input}: no rows')
  return texts


def _store(config: ServeConfig, scorer: PairScorer, texts: dict[str, str]) -> VectorStore | None:
  """The store, with the texts added that it lacks."""
  if not config.store:
    return None
  side = scorer.slots[1]
  there = VectorStore(config.store) if manifest.is_there(config.store) or not texts else None
  if there and (there.fingerprint, there.side) != (scorer.fingerprints[side], side):
    raise InputError(f'--store={config.store}: vectors of another encoder; name a new folder')
  if not texts:
    return there
  dtype = there.dtype if there else 'int8'
  return scorer.encode_to(config.store, texts.items(), side, dtype=dtype, total=len(texts))


if __name__ == '__main__':
  flags.command(main, ServeConfig)
