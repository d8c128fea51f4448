"""Pages of the site that lie outside docs/, and links as the site has them (a hook of mkdocs).

README, CONTRIBUTING and CHANGELOG are read where they are; the tutorial is its cells and outputs.
Links in all pages are those that GitHub shows; a link to a file that is no page becomes its text.
"""

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
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
