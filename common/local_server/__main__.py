"""Serves models by TF Serving's gRPC and REST APIs, for development and tests.

  python -m common.local_server --model_config_file=runs/p2t/export/serving/models.config
  python -m common.local_server --models=head=runs/p2t/export/head --runtime=litert-int8

The flags that both have are named as `tensorflow_model_server` names them.
"""

import contextlib
import dataclasses
from collections.abc import Iterator

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from common import flags
from common.errors import InputError
from common.local_server.grpc_api import GrpcServer
from common.local_server.models import Models
from common.local_server.rest_api import RestApi
from common.scoring import runtimes
from common.serving.web import HttpServer, stop_signal

_RUNTIMES = tuple(name for name in runtimes.HEADS if name != 'xla')  # compiles as requests come


@dataclasses.dataclass(frozen=True)
class ServerConfig:
  """Models to serve, addresses and limits."""

  models: tuple[str, ...] = flags.option((), 'name=folder of each model')
  model_config_file: str = flags.option('', "TF Serving's ModelServerConfig, in place of --models")
  runtime: str = flags.option(
    'tensorflow', 'runtime of the heads; all but tensorflow give scores alone', _RUNTIMES
  )
  encoder_runtime: str = flags.option(
    'tensorflow', 'runtime of the encoders', tuple(runtimes.ENCODERS)
  )
  host: str = flags.option('127.0.0.1', 'address that is listened to; 0.0.0.0: all')
  port: int = flags.option(8500, 'port of gRPC; 0: any that is free', bounds=(0, 65_535))
  rest_api_port: int = flags.option(8501, 'port of REST; 0: any that is free', bounds=(0, 65_535))
  max_request_mb: int = flags.option(64, 'most megabytes of a request', bounds=(1, 2047))
  grace_seconds: float = flags.option(
    30.0, 'most time for requests that have begun before a stop', bounds=(0, 10**6)
  )

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
def serving(config: ServerConfig) -> Iterator[tuple[GrpcServer, HttpServer]]:
  """Serves while the block runs; at its end, requests that have begun are finished.

  Raises:
    InputError: If a model cannot be loaded or a port is taken.
  """
  models = Models(config.folders(), config.runtime, config.encoder_runtime)
  limit = config.max_request_mb << 20
  try:
    by_grpc = GrpcServer(models, f'{config.host}:{config.port}', limit)
    by_rest = HttpServer(config.host, config.rest_api_port, RestApi(models).answer, limit)
  except (RuntimeError, OSError, OverflowError) as error:
    raise InputError(f'--host={config.host}: cannot be listened to: {error}') from error
  try:
    yield by_grpc, by_rest
  finally:
    stopped = by_grpc.stop(config.grace_seconds)
    by_rest.close(config.grace_seconds)
    stopped.wait()


def main(config: ServerConfig) -> None:
  """Serves until SIGTERM or SIGINT."""
  with serving(config) as (by_grpc, by_rest):
    stop = stop_signal()  # before, while models load, a signal ends the process
    at = f'gRPC on {config.host}:{by_grpc.port}, REST on http://{config.host}:{by_rest.port}'
    print(f'{", ".join(config.folders())}: {at}', flush=True)
    print('a local server for development and tests; in production, TF Serving', flush=True)
    stop.wait()
    print('stopping: requests that have begun are finished', flush=True)


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
