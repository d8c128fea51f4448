"""The pages' Python blocks: a page's in order, at toy size, in a folder with what they name."""

import contextlib
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from common.scoring.first_stage import FirstStageWeight
from tests import forks

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r'^```python\n(.*?)^```', re.M | re.S)
OURS = re.compile(r'^(?:import|from) (?:common|dipair|dse)\b.*', re.M)
TEXTS = {path.stem: path.read_text('utf-8') for path in ROOT.glob('docs/*/*.md')}
TEXTS['README'] = (ROOT / 'README.md').read_text('utf-8')
TOY = {  # what pages say, and what runs in its place
  "run_dir='": "**SMALL, run_dir='",
  "'localhost:8500'": "local_server('runs/p2t/export')",
}
VECTORS_PAGE = 'vectors_as_a_side'  # its `distill` reads tables; others' flags; README's trains
COMPILED = {  # how blocks begin that do not run, and why
  'import cohere': 'tests do not install it',
  'scorer.push(': "it asks Hugging Face's hub",
}
SMALL = {
  **dict.fromkeys(('pretrained', 'pairing_pretrained', 'teacher_pretrained'), 'random-tiny'),
  'teacher_similarity': '',
  'encoder_layers': 1,
  'head': 'ffnn',
  'max_lengths': (16, 16),
  'output_tokens': (2, 2),
  'stage1_batch_size': 16,
  'stage1_steps': 2,
  'stage2_steps': 0,
  'distillation_pairs': 0,
}
ITEMS = [(f'p{i}', f'thing {i} {colour}') for i, colour in enumerate(6 * ['red', 'blue', 'green'])]
IDS, TITLES = zip(*ITEMS, strict=True)
VECTORS = np.eye(18, 3, dtype=np.float32)
ROWS = [
  {'query': f'{colour} {i}', 'image': key, 'label': float(colour in title)}
  | {'title': title, 'relevance': 1 + 2 * (colour in title)}
  for i in range(12)
  for colour in ('red', 'blue', 'green')
  for key, title in ITEMS[:3]
]
SETS = {'train': ROWS[:72], 'valid': ROWS[72:90], 'test': ROWS[90:], 'pairs': ROWS[:72]}
TABLES = {f'{name}.tsv': [tuple(rows[0]), *map(dict.values, rows)] for name, rows in SETS.items()}
TABLES |= {'products.tsv': [('id', 'title'), *ITEMS], 'msmarco/collection.tsv': ITEMS}
TABLES |= {'new.tsv': TABLES['test.tsv'], 'images.txt': [(key,) for key in IDS]}
STAND_INS = {  # for packages that tests do not install
  'sentence_transformers.py': """
class CrossEncoder:
  def __init__(self, name): assert name == 'cross-encoder/ms-marco-MiniLM-L6-v2'
  def predict(self, pairs): return [4.0 * (a.split()[0] in b) - 2 + len(b) / 99 for a, b in pairs]
""",
  'wandb.py': 'def init(project): pass\ndef log(values): pass\n',
}
GIVEN = {  # names that pages take as their readers' own
  'README': {'titles': TITLES},
  'dse': {'sentences': TITLES, 'rows': ITEMS},
  'long_documents': {'documents': [('doc7', 'red shoes ' * 500), ('doc8', 'a')]},
  'python': {**SETS, 'titles': TITLES, 'documents': TITLES},
  'ranking': {'titles': TITLES, 'scores': range(18)},
  'retrain': {'changed': [('p4', 'red')], 'gone': ['p1'], 'new_products': ITEMS[6:]}
  | {'queries': TITLES, 'titles': TITLES, 'teacher_scores': range(18)},
  'runtimes': {'titles': TITLES},
  VECTORS_PAGE: {'array': VECTORS, 'ids': IDS, 'score_pairs': len},  # which is not called
}
for page in TEXTS:
  for said, toy in TOY.items():
    TEXTS[page] = TEXTS[page].replace(said, toy)


def read(page, folder, finished):
  """Runs a page's blocks in its folder; in a process of its own."""
  from common.local_server.__main__ import ServerConfig, serving

  os.chdir(folder)
  sys.path.insert(0, folder)
  forks.reload_in_a_fork()
  served = contextlib.ExitStack()

  def local_server(export):
    models = tuple(f'p2t_{name}={export}/{name}' for name in ('encoder', 'head', 'online'))
    ports = served.enter_context(serving(ServerConfig(models, port=0, rest_api_port=0)))
    return f'localhost:{ports[0]}'

  if finished:
    forks.finish_runs_by(finished, reads=page == VECTORS_PAGE)
  names = {**GIVEN.get(page, {}), 'SMALL': SMALL, 'local_server': local_server}
  for block in BLOCK.finditer(TEXTS[page]):
    before, code = TEXTS[page].count('\n', 0, block.start(1)), block[1]
    program = compile('\n' * before + code, f'{page}.md', 'exec')
    exec('\n'.join(OURS.findall(code)) if code.startswith((*COMPILED,)) else program, names)


@pytest.fixture(name='run', scope='module')
def _run(python, export, in_onnx, load, tmp_path_factory):
  """A function that runs a page in a folder with what it names, and gives the folder."""

  def run(page, finished=''):
    folder, code = tmp_path_factory.mktemp(page), ''.join(BLOCK.findall(TEXTS[page]))
    (folder / 'msmarco').mkdir()
    np.save(folder / 'images.npy', VECTORS)
    for name, rows in TABLES.items():
      (folder / name).write_text('\n'.join('\t'.join(map(str, row)) for row in rows) + '\n')
    for name, module in STAND_INS.items():
      (folder / name).write_text(module)
    for name in {*re.findall(r'runs/(\w+)/', code)} - {*re.findall(r"run_dir='runs/(\w+)'", code)}:
      made = folder / 'runs' / name / 'export'
      student = export('dse').folder if name == 'dse' else in_onnx(export('dipair').folder)
      FirstStageWeight('bm25', 1.0, 0.0).write(shutil.copytree(student, made))
      if finished:
        shutil.copy(finished / 'results.json', made.parent)
    if 'vectors/products' in code and "encode_to('vectors/products'" not in code:
      load(str(made)).encode_to(f'{folder}/vectors/products', ITEMS, 'right', dtype='int8')
    given = f'{page!r}, {str(folder)!r}, {str(finished)!r}'
    done = python('-c', f'from tests import test_snippets\ntest_snippets.read({given})')
    assert done.returncode == 0, done.stderr[-3000:]
    return folder

  return run


@pytest.fixture(name='finished', scope='module')
def _finished(run):
  """The run that the README makes."""
  return run('README') / 'runs' / 'own'


@pytest.mark.parametrize('page', sorted(page for page in TEXTS if BLOCK.search(TEXTS[page])))
def test_a_page_runs_as_it_is_read(page, run, finished, vector_run):
  if page != 'README':
    run(page, vector_run if page == VECTORS_PAGE else finished)
