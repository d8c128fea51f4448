"""What a run gives: report.html (one file, nothing outside it), the model card, a summary.

All three show the same tables, made from the run's `results`. An absent part (a teacher whose
scores were brought, speed, training, export) leaves its tables and pictures out.
"""

import base64
import html
import io
import math
import os
import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jinja2
import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from common.evaluation import metrics

_LABELS = {'auc_roc': 'AUC-ROC', 'f1': 'F1', 'log_loss': 'Log loss'}  # the others: capitalized
_LIGHT = {'ink': '#57606a', 'label': '#c3cad2', 'teacher': '#c2570c', 'student': '#1d4ed8'}
_LIGHT |= {'few': '#c7dafe', 'many': '#14296e'}  # the ends of the agreement picture's ramp
_DARK = {'ink': '#9aa4af', 'label': '#4b5560', 'teacher': '#fb923c', 'student': '#7cb0ff'}
_DARK |= {'few': '#24447f', 'many': '#dbe9ff'}


class Table(NamedTuple):
  """Cells as they are shown: the first column names the row, the others hold values."""

  note: str
  headers: list[str]
  rows: list[list[str]]


def write_report(results: dict[str, Any], scores: dict[str, np.ndarray], path: str) -> None:
  """Writes the self-contained report.html: whole, or not at all.

  Args:
    results: the run's results.json. `title`, `student`, `task`, `primary_metric` and `models` are
      needed, the rest may be absent. The last model is the student as exported. A speed row
      belongs to the model that its first word names: 'teacher', or the student ('DiPair head').
    scores: 'label', 'student' and, where there is one, 'teacher': floats [n] on test.
    path: the file to write.
  """
  pictures = {'Results': _quality(results, scores), 'Training': _curves(results)}
  _write(path, _HTML, results, pictures=pictures, tiles=_tiles(results))


def write_model_card(results: dict[str, Any], path: str) -> None:
  """Writes README.md, a model card in the Hugging Face manner: whole, or not at all."""
  _write(path, _CARD, results)


def summary_table(results: dict[str, Any]) -> str:
  """The title and the main table as plain text, for the terminal at the end of a run."""
  table = _tables(results)['Results']
  grid = [table.headers, *table.rows]
  widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
  lines = ['  '.join([r[0].ljust(widths[0]), *map(str.rjust, r[1:], widths[1:])]) for r in grid]
  lines = [results['title'], '', lines[0], '-' * len(lines[0]), *lines[1:], table.note]
  return '\n'.join(lines).rstrip()


def _tables(results: dict[str, Any]) -> dict[str, Table]:
  """The run in tables by title; 'Results' is laid out as the paper's Tables 2 and 3."""
  models, speed, primary = results['models'], results.get('speed', []), results['primary_metric']
  matched, splits, found = _speeds(results), ('valid', 'test'), {}
  reference = next((row['name'] for row in speed if row['ratio'] == 1), 'the first')

  def add(title: str, headers: list[str], rows: list[list[str]], note: str = '') -> None:
    kept = [i for i in range(len(headers)) if any(row[i] for row in rows)]  # no empty column
    if kept:
      found[title] = Table(note, [headers[i] for i in kept], [[r[i] for i in kept] for r in rows])

  shown = _label(primary)
  headers = [f'{shown} (valid)', 'Delta (valid)', f'{shown} (test)', 'Delta (test)', 'Speedup']
  rows = []
  for model in models:
    row = [model['name']]
    for split in splits:
      row += [_metric(model.get(split, {}).get(primary)), _percent(_delta(model, split))]
    rows.append([*row, _times(matched.get(model['name'], {}).get('ratio'))])
  note = 'Delta: against the teacher.' if any('delta' in model for model in models) else ''
  note += f' Speedup: against {reference}.' if matched else ''
  add('Results', ['Model', *headers], rows, note.strip())

  names = dict.fromkeys(name for model in models for s in splits for name in model.get(s, {}))
  keys = [(name, split) for name in names for split in splits]
  rows = [[m['name'], *(_metric(m.get(s, {}).get(n)) for n, s in keys)] for m in models]
  add('All metrics', ['Model', *(f'{_label(n)} ({s})' for n, s in keys)], rows)
  rows = [[r['name'], _digits(r['pairs_per_second']), _times(r['ratio'])] for r in speed]
  note = f"Ratio: to {reference}. A head's pairs are of texts encoded beforehand."
  add('Speed', ['Model', 'Pairs/s', 'Ratio'], rows, note)
  rows = []
  for s in results.get('training', []):
    loss = _metric(s['history'][-1]['loss']) if s.get('history') else ''
    pace = [_duration(s['seconds']), _digits(s['pairs_per_second']), f'{s["best_step"]:,}']
    rows.append([s['name'], *pace, loss])
  add('Training', ['Stage', 'Time', 'Pairs/s', 'Best step', 'Last loss'], rows)
  for part in ('data', 'export', 'environment'):
    rows = [[name, _value(name, value)] for name, value in _flat(results.get(part, {})).items()]
    add(part.capitalize(), ['', 'Rows' if part == 'data' else 'Value'], rows)
  return found


def _tiles(results: dict[str, Any]) -> list[tuple[str, str]]:
  """The run in three numbers, each with what it is."""
  model, primary = results['models'][-1], results['primary_metric']
  tiles = [(_metric(model.get('test', {}).get(primary)), f'{_label(primary)} on test')]
  tiles.append((_percent(_delta(model, 'test')), 'against the teacher'))
  if row := _speeds(results).get(model['name']):
    tiles.append((_times(row['ratio']), f'as fast: {_digits(row["pairs_per_second"])} pairs/s'))
  return [tile for tile in tiles if tile[0]]


def _speeds(results: dict[str, Any]) -> dict[str, dict[str, Any]]:
  """{model name: the first speed row that is its own}."""
  last, found = results['models'][-1]['name'], {}
  for row in results.get('speed', []):
    word = re.match(r'\w*', row['name'].lower())[0]
    name = last if word in ('student', results['student']) else word
    if any(model['name'] == name for model in results['models']):
      found.setdefault(name, row)
  return found


def _quality(results: dict[str, Any], scores: dict[str, np.ndarray]) -> list[tuple[str, str, str]]:
  """Quality against speed, student against teacher, distribution of the scores: what there is."""
  primary, matched, found = results['primary_metric'], _speeds(results), []
  both = [m for m in results['models'] if m['name'] in matched and primary in m.get('test', {})]
  points = [(m['name'], matched[m['name']]['pairs_per_second'], m['test'][primary]) for m in both]

  def tradeoff(figure: Figure, colors: dict[str, str]) -> None:
    axes = figure.add_subplot(xscale='log', xlabel='pairs/s', ylabel=f'{_label(primary)} (test)')
    for name, x, y in points:
      color = colors['teacher' if name == 'teacher' else 'student']
      axes.plot(x, y, 'o', color=color, markersize=8)
      text = f'{name}\n{_digits(x)} pairs/s, {_metric(y)}'
      axes.annotate(text, (x, y), (0, 9), textcoords='offset points', ha='center', color=color)
    axes.margins(0.5, 0.5)

  def agreement(figure: Figure, colors: dict[str, str]) -> None:
    x, y = scores['teacher'], scores['student']
    ends = [min(x.min(), y.min()), max(x.max(), y.max()) + 1e-9]
    axes = figure.add_subplot(xlabel="teacher's score", ylabel="student's score", aspect='equal')
    ramp = LinearSegmentedColormap.from_list('ramp', [colors['few'], colors['many']])
    grid = axes.hexbin(x, y, gridsize=32, mincnt=1, bins='log', cmap=ramp, extent=ends * 2, lw=0.1)
    figure.colorbar(grid, label='pairs', shrink=0.8).outline.set_visible(False)
    axes.plot(ends, ends, color=colors['teacher'], linewidth=1.2, linestyle='--', zorder=3)

  def distribution(figure: Figure, colors: dict[str, str]) -> None:
    axes = figure.add_subplot(xlabel='score', ylabel='share of pairs')
    pool = np.concatenate(list(scores.values()))
    bins = np.linspace(pool.min(), pool.max() + 1e-9, 31)
    for name, values in scores.items():
      kind = {'histtype': 'stepfilled' if name == 'label' else 'step', 'linewidth': 1.6}
      share = np.full(len(values), 1 / len(values))
      axes.hist(values, bins, weights=share, color=colors[name], label=name, **kind)
    axes.legend()

  if len(points) > 1:
    found.append(_picture('Quality against speed', tradeoff))
  if {'teacher', 'student'} <= scores.keys():
    r = _metric(metrics.pearson(scores['teacher'], scores['student']))
    found.append(_picture(f'Student against teacher on test, r = {r}', agreement))
  if scores:
    found.append(_picture('Distribution of scores on test', distribution))
  return found


def _curves(results: dict[str, Any]) -> list[tuple[str, str, str]]:
  """A picture per stage: loss above, the primary metric on valid below, on one scale for all."""
  primary = results['primary_metric']
  stages = [stage for stage in results.get('training', []) if stage.get('history')]
  valid = [
    [(p['step'], p['valid'][primary]) for p in stage['history'] if p.get('valid')]
    for stage in stages
  ]
  every = [y for points in valid for _, y in points if math.isfinite(y)] or [0, 1]
  margin = 0.08 * (max(every) - min(every)) or 0.01

  def curves(i: int, figure: Figure, colors: dict[str, str]) -> None:
    stage, color = stages[i], colors['teacher' if stages[i]['name'] == 'teacher' else 'student']
    rows = figure.subplots(2 if valid[i] else 1, sharex=True, squeeze=False)[:, 0]
    rows[0].plot(
      *zip(*((p['step'], p['loss']) for p in stage['history']), strict=True), color=color
    )
    rows[0].set_ylabel('loss')
    if valid[i]:
      rows[1].plot(*zip(*valid[i], strict=True), '.-', color=color)
      rows[1].set_ylabel(f'{_label(primary)} (valid)')
      rows[1].set_ylim(min(every) - margin, max(every) + margin)
    for axes in rows:
      axes.axvline(stage['best_step'], color=colors['ink'], linewidth=1.4, linestyle=':')
    rows[-1].set_xlabel('step')

  caption = '{}; dotted: the best step, {:,}'
  return [
    _picture(caption.format(stage['name'].capitalize(), stage['best_step']), partial(curves, i))
    for i, stage in enumerate(stages)
  ]


def _picture(caption: str, draw: Callable[[Figure, dict[str, str]], None]) -> tuple[str, str, str]:
  """(caption, data URI for light, data URI for dark surroundings)."""
  uris = []
  for colors in (_LIGHT, _DARK):
    inks = ('text.color', 'axes.labelcolor', 'axes.edgecolor', 'xtick.color', 'ytick.color')
    style = dict.fromkeys(inks, colors['ink']) | {'grid.color': colors['label'], 'grid.alpha': 0.5}
    style |= {'axes.grid': True, 'axes.spines.top': False, 'axes.spines.right': False}
    style |= {'axes.axisbelow': True, 'legend.frameon': False, 'svg.hashsalt': 'report'}
    with matplotlib.rc_context(style):
      figure, buffer = Figure(figsize=(4, 3.2), layout='constrained'), io.BytesIO()
      draw(figure, colors)
      figure.savefig(buffer, format='svg', transparent=True, metadata={'Date': None})
    uris.append('data:image/svg+xml;base64,' + base64.b64encode(buffer.getvalue()).decode())
  return caption, *uris


def _label(metric: str) -> str:
  return _LABELS.get(metric, metric.capitalize())


def _delta(model: dict[str, Any], split: str) -> float | None:
  return model.get('delta', {}).get(split)


def _metric(value: float | None) -> str:
  """0.567; nan is n/a, an absent value is empty (as in the formats below)."""
  return '' if value is None else f'{value:.3f}' if math.isfinite(value) else 'n/a'


def _percent(value: float | None) -> str:
  """-3.4%, +0.2%, 0.0%."""
  if value is None:
    return ''
  return f'{value:+.1%}' if abs(value) >= 5e-4 else '0.0%' if math.isfinite(value) else 'n/a'


def _digits(value: float) -> str:
  """Three significant digits: 15,600; 15.1; 0.25."""
  return f'{float(f"{value:.3g}"):,.0f}' if abs(value) >= 100 else f'{value:.3g}'


def _times(value: float | None) -> str:
  return '' if value is None else f'{_digits(value)}×'


def _duration(seconds: float) -> str:
  minutes, rest = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return (
    f'{hours} h {minutes} min' if hours else f'{minutes} min {rest} s' if minutes else f'{rest} s'
  )


def _flat(part: dict[str, Any]) -> dict[str, Any]:
  """{'a': {'b': 1}} as {'a b': 1}, underscores as spaces, the first letter a capital."""
  pairs = {}
  for name, value in part.items():
    inner = value if isinstance(value, dict) else {'': value}
    pairs |= {f'{name} {key}'.replace('_', ' ').strip().capitalize(): v for key, v in inner.items()}
  return pairs


def _value(name: str, value: Any) -> str:
  if 'bytes' in name and value >= 1e5:
    return f'{_digits(value / 1e6)} MB'
  if isinstance(value, bool) or not isinstance(value, int | float):
    return str(value)
  return f'{value:,.0f}' if float(value).is_integer() else f'{value:.2g}'


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
  text = environment.from_string(template).render(r=known, tables=_tables(results), **parts)
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

{% for title in ('Results', 'All metrics', 'Speed', 'Training', 'Data', 'Export', 'Environment') %}
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
