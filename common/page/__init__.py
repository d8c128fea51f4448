"""A page to try one or two exports on: a query is typed, stored texts are ranked live.

`ranker` (an export and the texts' vectors) → `ranking_page` (the page and its JSON API:
`/demo/info`, `/demo/rank`, `/demo/teacher`, `/demo/pair`); `__main__` is the command.
"""

from common import extras

with extras.needed('serving'):
  import werkzeug  # noqa: F401
