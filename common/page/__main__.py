"""Serves a page on which queries are typed and stored texts ranked, to try exports on.

  python -m common.page --export_dir=runs/p2t/export --input=products.tsv \\
    --store=vectors/products
"""

import contextlib
from collections.abc import Iterator

from common import flags
from common.errors import InputError
from common.page.ranking_page import PageConfig, RankingPage
from common.serving.web import HttpServer, stop_signal

_MOST_BYTES = 1 << 20  # of a request: a query, or ids of texts
_GRACE = 10.0  # seconds for requests that have begun before a stop


@contextlib.contextmanager
def serving(config: PageConfig) -> Iterator[HttpServer]:
  """Serves the page while the block runs.

  Raises:
    InputError: If a file is missing or does not fit, or the port is taken.
  """
  page = RankingPage(config)
  try:
    front = HttpServer(config.host, config.port, page.answer, _MOST_BYTES)
  except (OSError, OverflowError) as error:
    where = f'--host={config.host} --port={config.port}'
    raise InputError(f'{where}: cannot be listened to: {error}') from error
  try:
    yield front
  finally:
    front.close(_GRACE)


def main(config: PageConfig) -> None:
  """Serves until SIGTERM or SIGINT."""
  with serving(config) as front:
    stop = stop_signal()  # before, while texts are encoded, a signal ends the process
    print(f'the page: http://{config.host}:{front.port}', flush=True)
    stop.wait()


if __name__ == '__main__':
  flags.command(main, PageConfig)
