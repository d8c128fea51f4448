"""A study as a page of Markdown with pictures, and as plain text."""

import os
from pathlib import Path
from typing import Any

from common import files
from common.evaluation import pages, report
from common.evaluation.tables import Table
from experiments.study import figures, tables

_TEMPLATE = Path(__file__).with_name('study.md')


def write(study: dict[str, Any], folder: str) -> str:
  """Writes `study.md`, and a picture `<key>.png` of each figure, into a folder.

  Args:
    study: Contents of `study.json`.
    folder: Where to write.

  Returns:
    Path of the page.
  """
  shown = []
  for key, comparison in study['comparisons'].items():
    picture = ''
    if figure := figures.draw(study, key):
      picture = f'{key}.png'
      with files.whole(os.path.join(folder, picture)) as temporary:
        figure.savefig(temporary, dpi=110, format='png')
    shown.append((comparison['title'], picture, tables.table(study, key)))
  path = os.path.join(folder, 'study.md')
  pages.write(path, str(_TEMPLATE), study=study, shown=shown)
  return path


def text(study: dict[str, Any]) -> str:
  """The tables as plain text, without their notes."""
  made = [(of['title'], tables.table(study, key)) for key, of in study['comparisons'].items()]
  return '\n\n'.join(f'{title}\n\n{report.grid(Table("", *table[1:]))}' for title, table in made)
