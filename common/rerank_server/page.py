"""The page: three files, which ask nothing of another host."""

from importlib import resources

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_POLICY = {
  'Content-Security-Policy': "default-src 'none'; script-src 'self'; style-src 'self'; "
  "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
}


def routes() -> list[Route]:
  """The page's files by their paths."""
  return [
    _route('/', 'page.html', 'text/html'),
    _route('/page.css', 'page.css', 'text/css'),
    _route('/page.js', 'page.js', 'text/javascript'),
  ]


def _route(path: str, name: str, media_type: str) -> Route:
  content = (resources.files(__package__) / name).read_bytes()

  async def answer(_: Request) -> Response:
    return Response(content, headers=_POLICY, media_type=media_type)

  return Route(path, answer)
