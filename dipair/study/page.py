"""A study as a page of Markdown, and as files: study.json, a Markdown table and a picture each."""

import os
from typing import Any

from common import files
from common.evaluation import pages, report
from common.evaluation.tables import Table
from dipair.study import figures, tables


def write(study: dict[str, Any], folder: str) -> str:
  """Writes `study.md`, and `<key>.md` and `<key>.png` of its comparisons, into a folder.

  Args:
    study: As `study.json` holds it.
    folder: Where to.

  Returns:
    Path of the page.
  """
  shown = []
  for key, comparison in study['comparisons'].items():
    table, picture = tables.table(study, key), ''
    if figure := figures.draw(study, key):
      picture = f'{key}.png'
      with files.whole(os.path.join(folder, picture)) as temporary:
        figure.savefig(temporary, dpi=110, format='png')
    pages.write(os.path.join(folder, f'{key}.md'), _TABLE, table=table)
    shown.append((comparison['title'], picture, table))
  path = os.path.join(folder, 'study.md')
  pages.write(path, _PAGE, study=study, shown=shown)
  return path


def text(study: dict[str, Any]) -> str:
  """The tables as plain text."""
  made = [(c['title'], tables.table(study, key)) for key, c in study['comparisons'].items()]
  return '\n\n'.join(f'{title}\n\n{report.grid(Table("", *table[1:]))}' for title, table in made)


_TABLE = """| {{ table.headers | map('cell') | join(' | ') }} |
| --- |{{ ' ---: |' * (table.headers | length - 1) }}
{% for row in table.rows %}
| {{ row | map('cell') | join(' | ') }} |
{% endfor %}

{{ table.note | cell }}"""

_PAGE = (
  """# Study of {{ study.title | cell }}

{{ study.students | length }} students, each with some flags other than the run's own; the rest is as in
that run: data, teacher, soft labels. `{{ study.command | line }}`, commit {{ study.commit | cell }}.
{% if study.run is defined %}
The run: `{{ study.run.command | line }}`, commit {{ study.run.commit | cell }}.
{% endif %}
{% for title, picture, table in shown %}

## {{ title | cell }}

{% if picture %}
![{{ title | cell }}]({{ picture }})

{% endif %}
"""
  + _TABLE
  + """
{% endfor %}"""
)
