"""What a run gives: report.html (one file, nothing outside it), the model card, a summary.

All three show the same tables, made from the run's `results`. An absent part (a teacher whose
scores were brought, speed, training, export) leaves its tables and pictures out.
"""

import html
import os
from typing import Any

import jinja2
import numpy as np

from common.evaluation import figures, tables


def write_report(results: dict[str, Any], scores: dict[str, np.ndarray], path: str) -> None:
  """Writes the self-contained report.html: whole, or not at all.

  Args:
    results: the run's results.json. `title`, `student`, `task`, `primary_metric` and `models` are
      needed, the rest may be absent. The last model is the student as exported. A speed row
      belongs to the model that its first word names: 'teacher', or the student ('DiPair head').
    scores: 'label', 'student' and, where there is one, 'teacher': floats [n] on test.
    path: the file to write.
  """
  pictures = {'Results': figures.quality(results, scores), 'Training': figures.curves(results)}
  _write(path, _HTML, results, pictures=pictures, tiles=tables.tiles(results))


def write_model_card(results: dict[str, Any], path: str) -> None:
  """Writes README.md, a model card in the Hugging Face manner: whole, or not at all."""
  _write(path, _CARD, results)


def summary_table(results: dict[str, Any]) -> str:
  """The title and the main table as plain text, for the terminal at the end of a run."""
  return f'{results["title"]}\n\n{grid(tables.tables(results)["Results"])}'


def grid(table: tables.Table) -> str:
  """A table as plain text."""
  cells = [table.headers, *table.rows]
  widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
  lines = ['  '.join([r[0].ljust(widths[0]), *map(str.rjust, r[1:], widths[1:])]) for r in cells]
  return '\n'.join([lines[0], '-' * len(lines[0]), *lines[1:], table.note]).rstrip()


def _cell(value: Any) -> str:
  """Text as inline Markdown: one line, no HTML, no column break."""
  return html.escape(' '.join(str(value).split()), quote=False).replace('|', '\\|')


def _write(path: str, template: str, results: dict[str, Any], **parts: Any) -> None:
  environment = jinja2.Environment(
    autoescape=template is _HTML,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )
  environment.filters |= {'cell': _cell, 'line': lambda value: ' '.join(str(value).split())}
  known = {'commit': '', 'command': '', 'flags': {}} | results
  text = environment.from_string(template).render(r=known, tables=tables.tables(results), **parts)
  with open(f'{path}.tmp', 'w', encoding='utf-8') as file:
    file.write(text + '\n')
  os.replace(f'{path}.tmp', path)


_HTML = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ r.title }}</title>
<style>
:root { color-scheme: light dark; --ink: #1f2328; --soft: #57606a; --line: #d8dee4;
  --page: #fff; --tint: #f6f8fa; --mark: #1d4ed8 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa4af; --line: #30363d;
  --page: #0d1117; --tint: #161b22; --mark: #7cb0ff } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 64rem; margin: 0 auto; padding: 2rem 1.25rem }
h1 { line-height: 1.2; margin: 0 }
h2 { margin: 2.5rem 0 .5rem; font-size: 1.2rem }
p, figcaption, summary { color: var(--soft); margin: .4rem 0; font-size: .9rem }
.tiles, .pictures { display: grid; gap: 1rem; margin: 1.25rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)) }
.tiles { grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)) }
.tiles div { background: var(--tint); border-radius: .5rem; padding: .8rem 1rem }
.tiles b { display: block; font-size: 1.9rem; line-height: 1.2; color: var(--mark) }
.tiles span { color: var(--soft); font-size: .9rem }
figure { margin: 0 }
img { display: block; width: 100%; height: auto }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem }
th, td { text-align: right; padding: .35rem .7rem; border-bottom: 1px solid var(--line) }
th, td { white-space: nowrap }
th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: normal }
.short { display: inline-block; vertical-align: top; margin-right: 3rem; max-width: 100% }
code, pre { font: .85rem/1.5 ui-monospace, monospace; overflow-wrap: anywhere }
pre { background: var(--tint); padding: .8rem 1rem; border-radius: .5rem; white-space: pre-wrap }
</style>
<h1>{{ r.title }}</h1>
<p>{{ r.student }}, {{ r.task }}{% if r.commit %}, commit <code>{{ r.commit }}</code>{% endif %}</p>
<div class="tiles">
{% for value, what in tiles %}<div><b>{{ value }}</b><span>{{ what }}</span></div>
{% endfor %}
</div>
{% for title, table in tables.items() %}
<section{% if table.headers | length == 2 %} class="short"{% endif %}>
<h2>{{ title }}</h2>
<div class="wide"><table>
<tr>{% for head in table.headers %}<th>{{ head }}</th>{% endfor %}</tr>
{% for row in table.rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</table></div>
{% if table.note %}<p>{{ table.note }}</p>{% endif %}
{% if pictures.get(title) %}
<div class="pictures">
{% for caption, light, dark in pictures[title] %}
<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{{ dark }}">
<img src="{{ light }}" alt="{{ caption }}"></picture><figcaption>{{ caption }}</figcaption></figure>
{% endfor %}
</div>
{% endif %}
</section>
{% endfor %}
{% if r.command %}
<h2>Command</h2>
<pre>{{ r.command }}</pre>
{% endif %}
{% if r.flags %}
<details><summary>All {{ r.flags | length }} flags</summary><pre>
{% for name, value in r.flags.items() %}--{{ name }}={{ value }}
{% endfor %}</pre></details>
{% endif %}
</html>"""

_CARD = """---
license: apache-2.0
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
import {{ r.student }}

{% if r.student == 'dse' %}
embedder = dse.Embedder.load("export")  # a path from this folder
vectors = embedder.encode(["a sentence", "another one"])  # once per text
embedder.score(vectors[:1], vectors[1:])  # once per pair
{% else %}
scorer = dipair.Scorer.load("export")  # a path from this folder
left = scorer.encode(["black"], side="left")  # once per text
right = scorer.encode(["running shoe, black"], side="right")
scorer.score(left, right)  # once per pair
{% endif %}
```

{% for title in ('Results', 'All metrics', 'Speed', 'Stored vectors', 'Training', 'Data', 'Export', 'Environment') %}
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
{% for name, value in r.flags.items() %}
--{{ name }}={{ value | line }}
{% endfor %}
```
{% endif %}"""
