"""Shows examples in docstrings as code of the site: an extension of griffe, which reads them."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r'^>>> .*(?:\n(?:>>>|\.\.\.).*)*', re.MULTILINE)


class Examples(griffe.Extension):
  """Fences the lines that begin with `>>>` and those that go on with `...`."""

  def on_object(self, *, obj: Any, **_: Any) -> None:
    if obj.docstring and '```' not in obj.docstring.value:
      obj.docstring.value = _EXAMPLE.sub(r'```python\n\g<0>\n```', obj.docstring.value)
