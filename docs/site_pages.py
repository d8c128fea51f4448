"""Pages of the site that lie outside docs/, and links as the site has them (a hook of mkdocs).

README, CONTRIBUTING and CHANGELOG are read where they are; the tutorial is its cells and outputs.
Links in all pages are those that GitHub shows; a link to a file that is no page becomes its text.
"""

import importlib
import importlib.util
import json
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
FLAGS = 'reference/commands.md'
EXPERIMENTS = [f'experiments.{name}' for name in ('study', 'inspect', 'suite', 'senteval')]
PAGES = {
  'index.md': 'README.md',
  'contributing.md': 'CONTRIBUTING.md',
  'changelog.md': 'CHANGELOG.md',
  'tutorial.md': 'docs/tutorial.ipynb',
}
_LINK = re.compile(r'(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s:#]+)(#[^()\s]*)?\)')


def on_files(files: Files, config: Any) -> Files:
  """Adds the pages that lie outside docs/."""
  for page, path in PAGES.items():
    text = (ROOT / path).read_text('utf-8')
    content = _notebook(json.loads(text)) if path.endswith('.ipynb') else text
    files.append(File.generated(config, page, content=content))
  files.append(File.generated(config, FLAGS, content='\n\n'.join(_commands())))
  return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
  """Rewrites a page's links, which are relative to where its file lies."""
  source = PAGES.get(page.file.src_uri, f'docs/{page.file.src_uri}')
  pages = {path: name for name, path in PAGES.items()}

  def rewritten(link: re.Match[str]) -> str:
    mark, text, target, anchor = link.groups()
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    uri = pages.get(path, path.removeprefix('docs/'))
    if files.get_file_from_path(uri) is None or (
      path not in pages and not path.startswith('docs/')
    ):
      return text
    own = posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or '.')
    return f'{mark}[{text}]({own}{anchor or ""})'

  return _LINK.sub(rewritten, markdown)


def _commands() -> Iterator[str]:
  """Every command's flags, as `--help` has them."""
  from common import console

  yield '# Commands and flags'
  yield (
    'Each command takes its flags as `--name=value`, and `--flagfile=FILE` for a file of them. '
    '`dipair run` is `python -m dipair.run`; `--help` prints what stands here.'
  )
  programs: dict[str, list[str]] = {}
  for program, commands in console.COMMANDS.items():
    for name, module in commands.items():
      programs.setdefault(module, []).append(f'`{program} {name}`')
  for module in EXPERIMENTS:
    programs[module] = []
  for module, names in programs.items():
    yield f'## {module}'
    yield from _flags(module, names)


def _flags(module: str, names: list[str]) -> Iterator[str]:
  """A command's job, and a table of flags for each heading of its `--help`."""
  from common import flags

  if importlib.util.find_spec(module).submodule_search_locations:
    module += '.__main__'
  imported = importlib.import_module(module)
  (found,) = re.findall(
    r'^  (?:flags|jobs)\.command\(.*?\b(\w+Config)\b', Path(imported.__file__).read_text(), re.M
  )
  also = f'Also {" and ".join(names)}.' if names else 'It runs in a clone of the repository.'
  yield f'{imported.__doc__.splitlines()[0]} {also}'
  first = getattr(imported, 'FIRST', ())
  headings: dict[str, list[str]] = {'to begin with': []} if first else {}
  for option in flags.options(getattr(imported, found)):
    text = option.text
    if choices := option.field.metadata['choices']:
      text += f' ({", ".join(choices)})'
    (default,) = flags.lines({'': option.value})
    shown = f'`{default[3:]}`' if default[3:] else ''
    cells = [f'`--{option.name}`', shown, text.replace('|', '\\|')]
    below = 'to begin with' if option.name in first else option.heading
    headings.setdefault(below, []).append(f'| {" | ".join(cells)} |')
  for heading, rows in headings.items():
    yield '\n'.join([f'| {heading} | default | |', '| --- | --- | --- |', *rows])


def _notebook(notebook: dict[str, Any]) -> str:
  """A notebook's cells and outputs as Markdown, with a link to the file itself."""
  parts = []
  for cell in notebook['cells']:
    source = ''.join(cell['source'])
    parts.append(source if cell['cell_type'] == 'markdown' else f'```python\n{source}\n```')
    parts += map(_output, cell.get('outputs', []))
  title, rest = parts[0].split('\n', 1)
  return '\n\n'.join(
    [title, '<a href="../tutorial.ipynb" download>As a notebook</a>', rest, *parts[1:]]
  )


def _output(output: dict[str, Any]) -> str:
  """A table as the site draws tables, or text."""
  data = output.get('data', {'text/plain': output.get('text', [])})
  if 'text/html' not in data:
    return f'```text\n{"".join(data["text/plain"]).rstrip()}\n```'
  table = re.sub(r'<style.*?</style>\s*', '', ''.join(data['text/html']), flags=re.S)
  return table.replace(' border="1" class="dataframe"', '')
