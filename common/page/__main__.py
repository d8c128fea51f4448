"""Serves a page on which queries are typed and stored texts ranked, to try exports on.

  python -m common.page --export_dir=runs/p2t/export --input=products.tsv \\
    --store=vectors/products
"""

import contextlib
import threading

from common import flags
from common.page.ranking_page import PageConfig, RankingPage
from common.serving import web

_MOST_BYTES = 1 << 20  # of a request: a query, or ids of texts


def serving(config: PageConfig) -> contextlib.AbstractContextManager[int]:
  """Serves the page while the block runs; gives its port.

  Raises:
    InputError: If a file is missing or does not fit, or the port is taken.
  """
  return web.serving(config.host, config.port, RankingPage(config).answer, _MOST_BYTES)


def main(config: PageConfig) -> None:
  """Serves until SIGTERM or SIGINT."""
  with serving(config) as port:
    print(f'the page: http://{config.host}:{port}', flush=True)
    threading.Event().wait()  # a signal ends the process


if __name__ == '__main__':
  flags.command(main, PageConfig)
