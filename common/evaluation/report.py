"""Report of a run: report.html (one file, nothing outside it), the model card, a summary.

All three show the same tables, made from the run's `results`. An absent section (a teacher whose
scores were brought, speed, training, export) leaves its tables and pictures out.
"""

from typing import Any

import numpy as np

from common import flags
from common.evaluation import figures, pages, ranking_tables, tables, unseen_table


def write_report(results: dict[str, Any], scores: dict[str, np.ndarray], path: str) -> None:
  """Writes the self-contained report.html: whole, or not at all.

  Args:
    results: the run's results.json. `title`, `student`, `task`, `primary_metric` and `models` are
      needed, the rest may be absent. The last model is the student as exported. A speed row
      belongs to the model that its first word names: 'teacher', or the student ('DiPair head');
      its 'ratio' is to BERT-base at 128 tokens. A training's rate is of `unit`s, or of pairs.
    scores: 'label', 'student' and, where there is one, 'teacher': floats [n] on test.
    path: the file to write.
  """
  pictures = {'Results': figures.quality(results, scores), 'Training': figures.curves(results)}
  pictures['Calibration'] = figures.reliability(results)
  _write(path, _HTML, results, pictures=pictures, tiles=tables.tiles(results))


def write_model_card(
  results: dict[str, Any], path: str, release: dict[str, str] | None = None
) -> None:
  """Writes README.md, a model card in the Hugging Face manner: whole, or not at all.

  Args:
    results: as for `write_report`.
    path: the file to write.
    release: of `dipair.release`: 'archive', its name, 'runtime', 'license', 'data', 'data_license'.
  """
  _write(path, _CARD, {**results, 'release': release or {}})


def summary_table(results: dict[str, Any]) -> str:
  """The title and the main table as plain text, for the terminal at the end of a run."""
  parts = [results['title'], grid(tables.tables(results)['Results'])]
  parts += [unseen_table.line(results), ranking_tables.line(results)]
  return '\n\n'.join(filter(None, parts))


def grid(table: tables.Table) -> str:
  """A table as plain text."""
  cells = [table.headers, *table.rows]
  widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
  lines = ['  '.join([r[0].ljust(widths[0]), *map(str.rjust, r[1:], widths[1:])]) for r in cells]
  return '\n'.join([lines[0], '-' * len(lines[0]), *lines[1:], table.note]).rstrip()


def _write(path: str, template: str, results: dict[str, Any], **shown: Any) -> None:
  known = {'commit': '', 'command': '', 'flags': {}} | results
  shown |= {
    'r': known,
    'tables': tables.tables(results),
    'flags': flags.lines(known['flags'] or {}),
  }
  pages.write(path, template, **shown)


_HTML = (
  pages.HTML
  + """
<title>{{ r.title }}</title>
<h1>{{ r.title }}</h1>
<p>{{ r.student }}, {{ r.task }}{% if r.commit %}, commit <code>{{ r.commit }}</code>{% endif %}</p>
<div class="tiles">
{% for value, what in tiles %}<div><b>{{ value }}</b><span>{{ what }}</span></div>
{% endfor %}
</div>
{% for title, table in tables.items() %}
<section{% if table.headers | length == 2 %} class="short"{% elif title == 'Worst queries' %} class="texts"{% endif %}>
<h2>{{ title }}</h2>
<div class="wide"><table>
<tr>{% for head in table.headers %}<th>{{ head }}</th>{% endfor %}</tr>
{% for row in table.rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</table></div>
{% if table.note %}<p>{{ table.note }}</p>{% endif %}
{% if pictures.get(title) %}
{{ show(pictures[title]) }}
{% endif %}
</section>
{% endfor %}
{% if r.command %}
<h2>Command</h2>
{{ command(r.command) }}
{% endif %}
{% if r.flags %}
<details><summary>All {{ r.flags | length }} flags</summary><pre>
{% for flag in flags %}{{ flag }}
{% endfor %}</pre></details>
{% endif %}
</html>"""
)

_CARD = """---
{% if r.release %}
license: {{ r.release.license }}
{% endif %}
library_name: {{ r.student }}
tags:
- text-pairs
- knowledge-distillation
- tensorflow
- {{ r.student }}
- {{ r.task }}
---

# {{ r.title | cell }}

A {{ r.student }} student, distilled from a cross-attention teacher. Each text is encoded once, its
vectors are kept, and a pair then costs a light function of stored vectors.

## How to load

```python
{% if r.student == 'dse' %}
import dse

embedder = dse.Embedder.load("export")  # a path from this folder
{% if (r.flags or {}).get('shared_encoder', true) and (r.flags or {}).get('max_lengths', []) | unique | list | length < 2 %}
vectors = embedder.encode(["a sentence", "another one"])  # once per text
embedder.score(vectors[:1], vectors[1:])  # once per pair
{% else %}
left = embedder.encode(["a sentence"], "left")  # once per text; each side has its own encoder, or length
right = embedder.encode(["another one"], "right")
embedder.score(left, right)  # once per pair
{% endif %}
{% else %}
{% if r.student == 'dipair' %}
import dipair

scorer = dipair.Scorer.load("{{ r.release.archive if r.release else 'export' }}")  # a path from this folder
{% else %}
from common.scoring.scorer import PairScorer

scorer = PairScorer.load("export")  # a path from this folder
{% endif %}
{% set columns = (r.flags or {}).get('text_columns', []) %}
{% set wide = [] %}
{% for column in (r.flags or {}).get('vector_columns', []) %}
{% set _ = wide.append(column.split(':')[0]) %}
{% endfor %}
{% set first, second = (columns[0] in wide, columns[1] in wide) if columns | length == 2 else (false, false) %}
{% if columns | length > 2 %}
{% for column in columns %}
{{ column | line }} = scorer.encode({% if column in wide %}vectors{% else %}["a text"]{% endif %}, side="{{ column | line }}")  # once per text
{% endfor %}
scorer.score({{ columns | map('line') | join(', ') }})  # once per tuple
{% else %}
left = scorer.encode({% if first %}vectors{% else %}["black"]{% endif %}, side="left")  # once per text
right = scorer.encode({% if second %}vectors{% else %}["running shoe, black"]{% endif %}, side="right")
scorer.score(left, right)  # once per pair
{% endif %}
{% endif %}
```

{% if r.release %}
## Licence

The model: {{ r.release.license | cell }}. The data that it learnt from: {{ r.release.data | cell }}; {{ r.release.data_license | cell }}.

This archive has encoder and head in {{ r.release.runtime }}, whose metric on test, both together, is the last of 'Encoders'; the
other figures are of the student before that.

{% endif %}
{% for title in ('Results', 'Unseen texts', 'Ranking', 'Calibration', 'Thresholds', 'All metrics', 'Speed', 'Stored vectors', 'Encoders', 'Training', 'Data', 'Export', 'Environment') %}
{% if title in tables %}
{% set table = tables[title] %}
## {{ 'Training data' if title == 'Data' else title }}

| {{ table.headers | map('cell') | join(' | ') }} |
| --- |{{ ' ---: |' * (table.headers | length - 1) }}
{% for row in table.rows %}
| {{ row | map('cell') | join(' | ') }} |
{% endfor %}

{% if table.note %}
{{ table.note | cell }}

{% endif %}
{% endif %}
{% endfor %}
## Intended use

Scoring pairs of texts of the training data's kind, many pairs for each text: matching, ranking,
and the choice of candidates for a slower model.

## Limits

- The numbers above are of one test set; on texts of another kind or language measure anew.
- A text is cut at the length given in the flags; what lies past it does not count.
- What the teacher gets wrong, and the biases of its data, the student has learned too.

## How it was made
{% if r.commit %}

Commit `{{ r.commit | line }}`.
{% endif %}
{% if r.command %}

```
{{ r.command | line }}
```
{% endif %}
{% if r.flags %}

Flags:

```
{% for flag in flags %}
{{ flag | line }}
{% endfor %}
```
{% endif %}"""
