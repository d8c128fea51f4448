"""Pages made from templates, written whole; what all HTML pages here begin with."""

import html
from typing import Any

import jinja2

from common import files


def write(path: str, template: str, **shown: Any) -> None:
  """Fills a Jinja template and writes it: whole, or not at all.

  Args:
    path: the file to write.
    template: one that begins with `HTML` has its values escaped; Markdown has the filters `cell`
      (inline, no HTML, no column break) and `line`.
    **shown: values that the template shows; one that is missing is an error.
  """
  environment = jinja2.Environment(
    autoescape=template.startswith(HTML),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )
  environment.filters |= {'cell': _cell, 'line': _line}
  text = environment.from_string(template).render(**shown)
  with files.whole(path) as temporary, files.opened(temporary, 'w') as file:
    file.write(text + '\n')


def _line(value: Any) -> str:
  return ' '.join(str(value).split())


def _cell(value: Any) -> str:
  return html.escape(_line(value), quote=False).replace('|', '\\|')


# The head of a page in light and dark, `show` for the pictures of `figures`, `command` for a command. `<title>`, further
# `<style>` and the body follow.
HTML = """<!doctype html>
{% macro show(pictures) %}
<div class="pictures">
{% for caption, light, dark in pictures %}
<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{{ dark }}">
<img src="{{ light }}" alt="{{ caption }}"></picture><figcaption>{{ caption }}</figcaption></figure>
{% endfor %}
</div>
{% endmacro %}
{% macro command(line) %}
<pre>{% for word in line.split(' ') %}<span>{{ word }}</span> {% endfor %}</pre>
{% endmacro %}
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
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
figure { margin: 0; max-width: 27rem }
img { display: block; width: 100%; height: auto }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem }
th, td { text-align: right; padding: .35rem .7rem; border-bottom: 1px solid var(--line) }
td { white-space: nowrap }
th { vertical-align: bottom }
th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: normal }
.texts td { vertical-align: top }
.texts :is(td, th):last-child { text-align: left; white-space: normal }
@media (max-width: 40rem) {
  .texts :is(table, tbody) { display: block }
  .texts tr { display: grid; grid-template-columns: 1fr 6.5rem 6.5rem }
  .texts :is(td, th):last-child { grid-column: 1 / -1; padding-left: 0; overflow-wrap: anywhere }
  .texts :is(td, th):not(:last-child) { border: 0 }
}
.short { display: inline-block; vertical-align: top; margin-right: 3rem; max-width: 100% }
@media (max-width: 40rem) { .short { margin-right: 0 } }
code, pre { font: .85rem/1.5 ui-monospace, monospace; overflow-wrap: anywhere }
pre { background: var(--tint); padding: .8rem 1rem; border-radius: .5rem; white-space: pre-wrap }
pre span { display: inline-block; max-width: 100% }
</style>
"""
