"""Pages made from template files, written whole."""

import html
import os
import re
from typing import Any

import jinja2

from common import files

TEMPLATES = os.path.dirname(os.path.abspath(__file__))
# --train_file=/data/a.tsv, but not of https://host/model
_FOLDERS = re.compile(r"(?<=')/(?=[^/])[^,:']*/|(?<=[=,:])/(?=[^/])[^,:'\s]*/")


def write(path: str, template: str, **shown: Any) -> None:
  """Fills a Jinja template and writes it: whole, or not at all.

  Args:
    path: The file to write.
    template: The template's file. It may extend `page.html` and import from `macros.html`. Values
      are escaped in .html; Markdown has the filters `cell` (inline, no HTML, no column break),
      `line`, `literal` (a text in Python) and `shared` (flags without folders of this machine).
    **shown: Values that the template shows; one that is missing is an error.
  """
  environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader([os.path.dirname(template), TEMPLATES]),
    autoescape=template.endswith('.html'),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )
  environment.filters |= {'cell': _cell, 'line': _line, 'literal': repr, 'shared': _shared}
  text = environment.get_template(os.path.basename(template)).render(**shown)
  with files.whole(path) as temporary, files.opened(temporary, 'w') as file:
    file.write(text.rstrip('\n') + '\n')


def _line(value: Any) -> str:
  return ' '.join(str(value).split())


def _shared(value: Any) -> str:
  return _FOLDERS.sub('', str(value))


def _cell(value: Any) -> str:
  return html.escape(_line(value), quote=False).replace('|', '\\|')
