"""Serves models by TF Serving's gRPC and REST APIs, for development and tests.

  python -m common.local_server --model_config_file=runs/p2t/export/serving/models.config
  python -m common.local_server --models=head=runs/p2t/export/head

The flags that both have are named as `tensorflow_model_server` names them.
"""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Iterator

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from common import flags
from common.errors import InputError
from common.local_server import grpc_api, rest_api, web
from common.local_server.models import Model


@dataclasses.dataclass(frozen=True)
class ServerConfig:
  """Models to serve, addresses and limits."""

  models: tuple[str, ...] = flags.option((), 'name=folder of each model')
  model_config_file: str = flags.option('', "TF Serving's ModelServerConfig, in place of --models")
  host: str = flags.option('127.0.0.1', 'address that is listened to; 0.0.0.0: all')
  port: int = flags.option(8500, 'port of gRPC; 0: any that is free', bounds=(0, 65_535))
  rest_api_port: int = flags.option(8501, 'port of REST; 0: any that is free', bounds=(0, 65_535))
  max_request_mb: int = flags.option(64, 'most megabytes of a request', bounds=(1, 2047))

  def folders(self) -> dict[str, str]:
    """Folders of the models, by name."""
    if bool(self.models) == bool(self.model_config_file):
      raise InputError('--models or --model_config_file: one of them')
    if self.model_config_file:
      return _from_config(self.model_config_file)
    found = dict(model.partition('=')[::2] for model in self.models)
    if not all(found) or not all(found.values()) or len(found) < len(self.models):
      raise InputError(f'--models={",".join(self.models)}: name=folder each, each name once')
    return found


@contextlib.contextmanager
def serving(config: ServerConfig) -> Iterator[tuple[int, int]]:
  """Serves while the block runs; gives the ports of gRPC and REST.

  Raises:
    InputError: If a model cannot be loaded or a port is taken.
  """
  models = {name: Model(name, folder) for name, folder in config.folders().items()}
  limit = config.max_request_mb << 20
  answer = functools.partial(rest_api.answer, models)
  with web.serving(config.host, config.rest_api_port, answer, limit) as rest:
    try:
      server, port = grpc_api.serve(models, f'{config.host}:{config.port}', limit)
    except RuntimeError as error:
      raise InputError(f'--host={config.host}: cannot be listened to: {error}') from error
    try:
      yield port, rest
    finally:
      server.stop(None).wait()


def main(config: ServerConfig) -> None:
  """Serves until SIGTERM or SIGINT."""
  with serving(config) as (port, rest):
    at = f'gRPC on {config.host}:{port}, REST on http://{config.host}:{rest}'
    print(f'{", ".join(config.folders())}: {at}', flush=True)
    print('a local server for development and tests; in production, TF Serving', flush=True)
    threading.Event().wait()  # a signal ends the process


def _from_config(path: str) -> dict[str, str]:
  config = model_server_config_pb2.ModelServerConfig()
  try:
    with open(path, encoding='utf-8') as file:
      text_format.Parse(file.read(), config)
  except (OSError, ValueError, text_format.ParseError) as error:
    raise InputError(f'--model_config_file={path}: {error}') from error
  listed = config.model_config_list.config
  found = {one.name: one.base_path for one in listed}
  if not found:
    raise InputError(f'--model_config_file={path}: no model_config_list in it')
  if len(found) < len(listed):
    raise InputError(
      f'--model_config_file={path}: each name once; {", ".join(m.name for m in listed)}'
    )
  return found


if __name__ == '__main__':
  flags.command(main, ServerConfig)
