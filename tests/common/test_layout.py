"""Imports go down only, and docstrings name what they describe: walks over all syntax trees."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import common
from tests import limits

ROOT = Path(common.__file__).parents[1]
PACKAGES = ('common', 'dipair', 'dse')
SCRIPTS = ('benchmarks', 'experiments', 'examples')  # of a clone: nothing installed imports them
BELOW = {  # what each room stands on
  'common.data': (),
  'common.modeling': ('data',),
  'common.training': (),
  'common.evaluation': ('data', 'modeling', 'scoring'),
  'common.vectors': ('data',),
  'common.scoring': ('data', 'vectors'),
  'common.export': ('data', 'modeling', 'scoring'),
  'common.serving': ('data', 'scoring', 'export'),
  'common.local_server': ('scoring', 'serving'),
  'common.distillation': (
    *('data', 'modeling', 'training', 'evaluation', 'vectors', 'scoring', 'export'),
  ),
  'common.rerank_server': ('data', 'vectors', 'scoring'),
  'common.rerank': ('data', 'evaluation', 'vectors', 'scoring'),
  'common.pipelines': ('data', 'vectors', 'scoring', 'distillation'),
  'common.pretrain': ('data', 'modeling', 'training', 'evaluation', 'distillation'),
}


def sources(*folders: str) -> dict[str, ast.AST]:
  """{path below the root: syntax tree} of the Python files in folders below the root."""
  paths = [path for folder in folders for path in sorted((ROOT / folder).rglob('*.py'))]
  return {str(p.relative_to(ROOT)): ast.parse(p.read_text('utf-8'), str(p)) for p in paths}


def imports(tree: ast.AST, path: str = '') -> Iterator[tuple[int, str]]:
  """(line, dotted name) of whatever is imported, in functions too; relative names made absolute."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      yield from ((node.lineno, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      above = Path(path).parts[: -node.level] if node.level else ()
      module = '.'.join([*above, *filter(None, [node.module])])
      yield from ((node.lineno, f'{module}.{alias.name}') for alias in node.names)


def wrong_imports(tree: ast.AST, path: str, forbidden: tuple[str, ...]) -> list[str]:
  return [
    f'{path}:{line}: {name}'
    for line, name in imports(tree, path)
    if any(f'{name}.'.startswith(f'{module}.') for module in forbidden)
  ]


@pytest.mark.parametrize(
  ('code', 'path', 'forbidden', 'found'),
  [
    ('import dse.run as r', 'dipair/a.py', ('dse',), ['dipair/a.py:1: dse.run']),
    ('def f():\n  from dse import run', 'a.py', ('dse',), ['a.py:2: dse.run']),
    ('from common import dse', 'a.py', ('dse',), []),
    ('import dse_tools', 'a.py', ('dse',), []),
    (
      'from common import distillation',
      'a.py',
      ('common.distillation',),
      ['a.py:1: common.distillation'],
    ),
    (
      'from . import records',
      'common/data/a.py',
      ('common.data',),
      ['common/data/a.py:1: common.data.records'],
    ),
    ('from ..b import c', 'common/data/a.py', ('common.b',), ['common/data/a.py:1: common.b.c']),
  ],
)
def test_the_walk_sees_imports(code, path, forbidden, found):
  assert wrong_imports(ast.parse(code), path, forbidden) == found


@pytest.mark.parametrize(
  ('package', 'forbidden'),
  [
    ('common', ('dipair', 'dse', *SCRIPTS)),
    ('dipair', ('dse', *SCRIPTS)),
    ('dse', ('dipair', *SCRIPTS)),
    *(
      (room, tuple(r for r in BELOW if r != room and r.removeprefix('common.') not in below))
      for room, below in BELOW.items()
    ),
  ],
)
def test_imports_go_down_only(package, forbidden):
  trees = sources(package.replace('.', '/'))
  assert trees
  assert [w for path, tree in trees.items() for w in wrong_imports(tree, path, forbidden)] == []


def test_every_room_of_common_has_its_place():
  rooms = {f'common.{p.parent.name}' for p in (ROOT / 'common').glob('*/__init__.py')}
  assert rooms == set(BELOW)


def test_the_table_of_rooms_is_the_one_that_is_held():
  text = (ROOT / 'CONTRIBUTING.md').read_text('utf-8')
  found = re.findall(
    r'^\| `(\w+)` \| ([\w, ]*) ?\|$', text.split('| room |')[1].split('\n\n')[0], re.M
  )
  told = {f'common.{room}': tuple(filter(None, of.strip().split(', '))) for room, of in found}
  assert told == BELOW


VAGUE = {'What', 'Those', 'That', 'Of', 'As', 'Its', 'One', 'All', 'Likewise', 'The same'}


def vague_docstrings(tree: ast.AST, path: str) -> list[str]:
  """Docstrings whose first line begins with a word that names nothing."""
  documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
  nodes = [node for node in ast.walk(tree) if isinstance(node, documented)]
  docs = [(node.body[0].lineno, doc) for node in nodes if (doc := ast.get_docstring(node))]
  found = [(line, re.match(r'(The )?\w*', doc)[0]) for line, doc in docs]
  return [f'{path}:{line}: {word}' for line, word in found if word in VAGUE]


def test_the_walk_sees_vague_docstrings():
  code = '"""One."""\nclass A:\n  """Also."""\n  async def f():\n    """What it is."""'
  assert vague_docstrings(ast.parse(code), 'a.py') == ['a.py:1: One', 'a.py:5: What']
  assert vague_docstrings(ast.parse('"""The same of two."""'), 'a.py') == ['a.py:1: The same']


def test_docstrings_name_what_they_describe():
  trees = sources(*PACKAGES, 'experiments', 'benchmarks')
  assert [doc for path, tree in trees.items() for doc in vague_docstrings(tree, path)] == []


def test_arrays_are_read_without_pickle():
  paths = [path for folder in PACKAGES for path in (ROOT / folder).rglob('*.py')]
  assert [path for path in paths if 'allow_pickle' in path.read_text('utf-8')] == []


_TRAINING = ('pyarrow', 'common.training', 'common.distillation', 'common.modeling')


@pytest.mark.parametrize(
  ('module', 'others'),
  [
    ('dipair', _TRAINING),
    ('dse', _TRAINING),
    ('common.rerank_server.__main__', ('grpc', *_TRAINING)),
    ('common.rerank.__main__', ('grpc',)),
  ],
)
def test_importing_what_scores_loads_no_more(module, others):
  heavy = ['tensorflow', *others]
  code = f'import sys, {module}; print(sorted(set(sys.modules) & set({heavy})))'
  done = subprocess.run(
    [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, timeout=limits.PROCESS
  )
  assert (done.returncode, done.stdout) == (0, '[]\n'), done.stderr


def test_scoring_needs_no_module_that_windows_lacks(tmp_path):
  code = """
import sys
sys.modules.update(dict.fromkeys(('fcntl', 'resource', 'pwd', 'grp', 'termios', 'pty', 'syslog')))
import dipair.scorer, dse.embedder
from common import files
from common.scoring import archive, best, cross_encoder, litert, runtimes, scorer
from common.vectors import neighbors, store, writer
folder = sys.argv[1]
with files.alone(folder), files.turn(folder), files.whole_folder(f'{folder}/a') as part:
  files.os.mkdir(part)
print(files.names(folder))
"""
  done = subprocess.run(
    [sys.executable, '-c', code, str(tmp_path)],
    cwd=ROOT,
    capture_output=True,
    text=True,
    timeout=limits.PROCESS,
  )
  assert (done.returncode, done.stdout) == (0, "['a']\n"), done.stderr
